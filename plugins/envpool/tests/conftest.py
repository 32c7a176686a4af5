from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from rlcore import Environment, EnvironmentSettings


@pytest.fixture
def make() -> Callable[..., Environment]:
    """Create the environment of a run with one behavior ``Agent``: ``make("CartPole-v1", 2, option=...)``."""
    from rlcore_envpool.environment import make_environment

    def make(env_id: str | None, copies: int = 2, /, **options: Any) -> Environment:
        run: Any = SimpleNamespace(
            behavior_names=("Agent",),
            num_envs=copies,
            video=None,
            config=SimpleNamespace(environment_parameters={}),
        )
        return make_environment(EnvironmentSettings(id=env_id, options=options), run)

    return make
