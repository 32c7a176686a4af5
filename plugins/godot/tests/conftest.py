from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from godot_worlds import PLAYER, engine_of, project_of

from rlcore import EnvSettings
from rlcore_godot.environment import GodotEnvironment, make_environment
from rlcore_godot.settings import GodotSettings

if sys.platform == "win32":
    collect_ignore_glob = ["test_*.py"]  # the player is a program of POSIX


@pytest.fixture(params=[3, pytest.param(4, marks=pytest.mark.learning)])
def godot(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    """Settings that play the test project in Godot 3, and in a nightly run in Godot 4 too, or a skipped test."""
    return {"engine": engine_of(request.param), "project": str(project_of(request.param, tmp_path))}


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., GodotEnvironment]]:
    """Start games: ``make("--ends=plain", num_envs=2, timeout=1.0)``.

    Without ``project`` and ``executable``, they are ``tests/support/godot_player.py``. ``behaviors`` are those of the
    file, ``limits`` is env_settings.
    """
    made: list[GodotEnvironment] = []

    def make(
        *args: str, num_envs: int = 1, behaviors: tuple[str, ...] = (), limits: Any = None, **settings: Any
    ) -> GodotEnvironment:
        if not settings.keys() & {"project", "executable"}:
            settings["executable"] = str(PLAYER)
        env_settings = EnvSettings(**{"timeout_wait": 20, **(limits or {})})
        config = SimpleNamespace(environment_parameters={}, env_settings=env_settings)
        run: Any = SimpleNamespace(
            behavior_names=behaviors,
            num_envs=num_envs,
            first_env=0,
            stop_requested=False,
            seed=1,
            purpose="train",
            directory=tmp_path,
            working_directory=tmp_path,
            own_files=lambda *patterns: None,
            config=config,
        )
        made.append(make_environment(GodotSettings(args=list(args), **settings), run))
        return made[-1]

    yield make
    for environment in made:
        environment.close()
