"""``SavedRun.environment``: the environment that a run trained in, for games of a plugin's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest

from rlcore import CurriculumSpec, hookimpl
from rlcore.contracts.batches import Actions
from rlcore.contracts.environment import Environment
from rlcore.contracts.seeding import EpisodeSeeds
from rlcore.errors import ConfigError, EnvironmentFailed
from rlcore.run.saved.saved_run import SavedRun

STUBS = [str(Path(__file__).parent / name) for name in ("stub_plugin.py", "stub_curriculum.py")]


def still(environment: Environment) -> dict[str, Actions]:
    """The first option for all agents."""
    return {
        name: Actions(discrete=np.zeros((spec.slots, len(spec.discrete)), np.int64))
        for name, spec in environment.behaviors.items()
    }


@pytest.fixture
def saved(make_run: Any, files: Any) -> SavedRun:
    make_run(max_steps=100).train()
    return SavedRun.open(files().path, allow_local=True)


def test_it_has_as_many_environments_as_asked_for_and_is_closed(saved: SavedRun) -> None:
    made: list[Any] = []
    closed: list[bool] = []

    class Watch:
        @hookimpl(wrapper=True)
        def rlcore_create_environment(self, run: Any) -> Any:
            environment = yield
            made.append((run.purpose, run.num_envs))
            close = environment.close
            environment.close = lambda: (closed.append(True), close())
            return environment

    saved.plugins.register(Watch(), "watch")
    with saved.environment(7) as environment:
        batches = environment.reset(EpisodeSeeds(1), np.zeros(7, np.int64))
        assert environment.num_envs == 7 == len(environment.episodes)
        while not environment.episodes.any():
            batches = environment.step(still(environment))
        assert set(batches) == set(saved.specs) and not closed
    assert made == [("evaluate", 7)] and closed == [True]
    with pytest.raises(ZeroDivisionError), saved.environment(1):
        raise ZeroDivisionError
    assert len(closed) == 2


def test_its_parameters_are_those_of_the_task_that_training_is_for(make_run: Any, files: Any) -> None:
    make_run(
        {
            "plugins.local": STUBS,
            "environment.type": "paced",
            "environment_parameters.pace": {"curriculum": {"type": "stages"}},
        },
        max_steps=60,
    ).train()
    saved = SavedRun.open(files().path, allow_local=True)
    stages = saved.plugins.record(CurriculumSpec, "stages").resolve()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stages, "draw_target", lambda self, env_index, episodes: 3.0 + episodes[:, None])
        with saved.environment(2) as environment:
            batches = environment.reset(EpisodeSeeds(1), np.zeros(2, np.int64))
            assert batches["Agent"].observations["pace"][:, 0].tolist() == [3.0, 3.0]
            while not environment.episodes.all():
                batches = environment.step(still(environment))
            assert batches["Agent"].observations["pace"][:, 0].tolist() == [4.0, 4.0]


def test_what_it_returns_and_whether_it_fits_are_checked(saved: SavedRun) -> None:
    def of(settings: Any) -> SavedRun:
        return attrs.evolve(saved, config=attrs.evolve(saved.config, environment=settings))

    settings = saved.config.environment
    for other, message in (
        (attrs.evolve(settings, type="identity"), "environment: environment 'identity'.* which the policy learned"),
        (None, "missing"),
    ):
        with pytest.raises(ConfigError, match=message), of(other).environment(1):
            pass
    faulty = attrs.evolve(settings, options={"fault": "NaN observation", "at": 1, "env": 1})
    with of(faulty).environment(2) as environment:
        environment.reset(EpisodeSeeds(1), np.zeros(2, np.int64))
        with pytest.raises(EnvironmentFailed, match=r"observation 'position' of slot 1 .*while evaluating"):
            [environment.step(still(environment)) for _ in range(20)]
