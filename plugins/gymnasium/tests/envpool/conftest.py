from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from rlcore import Environment


@pytest.fixture
def make() -> Callable[..., Environment]:
    """Create the environment of a run with one behavior ``Agent``: ``make("CartPole-v1", 2, option=...)``.

    ``seen`` is ``environment.observations``.
    """
    from rlcore_gymnasium.envpool.environment import make_environment
    from rlcore_gymnasium.settings import ObservedEnvironmentSettings

    def make(
        env_id: str | None, copies: int = 2, seen: Mapping[str, Any] | None = None, /, **options: Any
    ) -> Environment:
        run: Any = SimpleNamespace(
            behavior_names=("Agent",),
            num_envs=copies,
            video=None,
            purpose="train",
            first_env=0,
            config=SimpleNamespace(environment_parameters={}),
        )
        return make_environment(
            ObservedEnvironmentSettings(id=env_id, options=options, observations=dict(seen or {})), run
        )

    return make
