"""The rules of trainers of recorded data as tests for authors of such trainers to inherit.

::

    class TestMyTrainer(OfflineTrainerConformance):
        trainer = "acme-cql/cql"
        hyperparameters = {"batch_size": 64}
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import attrs
import numpy as np
import pytest

from rlcore import (
    Actions,
    AgentBatch,
    BehaviorSpec,
    ConfigError,
    Environment,
    Purpose,
    Recording,
    RunContext,
    Trainer,
    TrainerSpec,
    config_from_mapping,
    hookimpl,
)
from rlcore_devkit.conformance.recordings import record
from rlcore_devkit.conformance.states import assert_equal, copied, through_a_file
from rlcore_devkit.conformance.trainer import SPACES, TrainerRules, as_state, check_actions, first_batch, mean_reward
from rlcore_devkit.environments import TinyCorridor, identity_discrete

__all__ = ["OfflineTrainerConformance"]

DEMONSTRATIONS = "demonstrations"  # the path of the recording that the tests make


@attrs.frozen
class _Demonstrations:
    """A plugin with one recording in memory, whose path is ``DEMONSTRATIONS``."""

    recording: Recording

    @hookimpl(tryfirst=True)
    def rlcore_create_recordings(self) -> _Demonstrations:
        return self

    def read(self, path: str | Path, behavior: str, start: Path = Path()) -> Recording:
        """Return the recording."""
        assert Path(path).name == DEMONSTRATIONS
        return self.recording

    def behavior(self, path: str | Path, behavior: str, start: Path = Path()) -> BehaviorSpec:
        """Return the behavior of the recording."""
        return self.read(path, behavior).behavior


class OfflineTrainerConformance(TrainerRules):
    """Tests of trainers that learn from recorded episodes, without an environment: set ``trainer``.

    Attributes:
        trainer: The trainer, NAME or DIST/NAME, as installed.
        hyperparameters: Small values, so that updates are fast, without the path of the recording.
        path_key: The hyperparameter with the path of the recording.
        settings: Other keys of the behavior's block.
        learns_within: Gradient steps to learn what good agents did.
        skip: Names of tests that cannot hold, with the reason.
    """

    num_envs: ClassVar[int] = 3
    path_key: ClassVar[str] = "demo_path"
    learns_within: ClassVar[int] = 600

    # ------------------------------------------------------------ making

    def make(
        self, recording: Recording, seed: int = 1, purpose: Purpose = "train", readable: bool = True, **settings: Any
    ) -> Trainer:
        """Create the trainer of the recorded behavior as a run does; ``settings`` override those of the class.

        Without ``readable``, there is no recording any more.
        """
        plugins = self.plugins()
        behavior = recording.behavior
        if readable:
            plugins.register(_Demonstrations(recording), "demonstrations")
        config = config_from_mapping({"behaviors": {behavior.name: {**self.block(), **settings}}}, plugins)
        run = RunContext(
            config, plugins, self.directory, seed, 1, purpose, offline=True, behaviors={behavior.name: behavior}
        )
        trainer: Trainer = plugins.create(
            plugins.record(TrainerSpec, self.trainer),
            settings=config.behaviors[behavior.name],
            behavior=behavior,
            run=run,
        )
        return trainer

    def block(self, **hyperparameters: Any) -> dict[str, Any]:
        """Return the block of a behavior; ``hyperparameters`` override those of the class."""
        path = {self.path_key: str(self.directory / DEMONSTRATIONS)}
        return {"max_steps": 20, **super().block(**{**path, **hyperparameters})}

    def untrained(self, environment: Environment) -> Trainer:
        """Create the trainer of the only behavior of an environment, with a recording of random actions."""
        return self.make(record(environment, 40))

    def environment(self) -> Environment:
        """Return the environment with the most kinds of actions that the trainer declares."""
        return SPACES[next(kind for kind in ("hybrid", "discrete", "continuous") if kind in self.spaces)](3)

    def recording(self, steps: int = 40) -> Recording:
        """Return episodes of random actions in :meth:`environment`."""
        return record(self.environment(), steps)

    # ------------------------------------------------------------ the record

    def test_its_record_is_complete_and_light(self) -> None:
        super().test_its_record_is_complete_and_light()
        assert self.plugins().record(TrainerSpec, self.trainer).offline, (
            "set offline=True, so that a run creates no environment"
        )

    # ------------------------------------------------------------ creation

    def test_learns_every_kind_of_action_it_declares_and_acts_in_the_environment(self) -> None:
        """Using the policy changes nothing in the trainer, and equal seeds give equal actions."""
        environments: list[Environment] = [SPACES[kind](3) for kind in self.spaces]
        if "discrete" in self.spaces:
            environments.append(TinyCorridor(3, masked=True))
        for environment in environments:
            [(name, behavior)] = environment.behaviors.items()
            trainer = self.make(record(environment, 40))
            for _ in range(3):
                assert trainer.ready()
                stats = trainer.update()
                assert all(isinstance(tag, str) and np.isfinite(np.mean(value)) for tag, value in stats.items()), stats
            assert trainer.steps == 3, "steps count gradient steps"
            before = copied(trainer.state_dict())
            batch = first_batch(environment)
            for step in range(20):
                answers = []
                for _ in range(2):
                    trainer.policy.seed(3)
                    answers.append(trainer.policy.act(batch.observations, batch.action_mask, step % 2 == 0))
                check_actions(behavior, batch.action_mask, answers[0])
                assert_equal(as_state(answers[0]), as_state(answers[1]))
                batch = environment.step({name: answers[0]})[name]
            assert_equal(before, trainer.state_dict(), "using the policy changed the trainer")

    def test_a_recording_that_is_missing_is_an_error_of_the_configuration(self) -> None:
        with pytest.raises(ConfigError):
            self.make(self.recording(), readable=False)

    # ------------------------------------------------------------ learning

    def test_equal_seeds_learn_equally_and_others_do_not(self) -> None:
        recording = self.recording()
        outcomes = []
        for seed in (1, 1, 2):
            trainer = self.make(recording, seed)
            updates = [trainer.update() for _ in range(4)]
            outcomes.append({"updates": updates, "state": copied(trainer.state_dict())})
        assert_equal(outcomes[0], outcomes[1])
        with pytest.raises(AssertionError):
            assert_equal(outcomes[0]["state"]["model"], outcomes[2]["state"]["model"])

    def test_the_recording_stays_as_it_is(self) -> None:
        """Several behaviors, and other trainers, may learn from the same arrays."""
        recording = self.recording()
        before = copied(arrays(recording))
        trainer = self.make(recording)
        for _ in range(3):
            trainer.update()
        assert_equal(arrays(recording), before, "the trainer changed the recording")

    def test_learns_what_good_agents_did(self) -> None:
        environment, measured = (
            identity_discrete(8) if "discrete" in self.spaces else SPACES["continuous"](8) for _ in range(2)
        )
        trainer = self.make(record(environment, 100, expert), max_steps=self.learns_within)
        reached = 0.0
        for _ in range(4):  # a trainer that learns sooner is done sooner
            for _ in range(self.learns_within // 4):
                trainer.update()
            reached = mean_reward(trainer, measured)
            if reached > 0.8:
                break
        assert reached > 0.8, f"mean reward {reached:.2f} of at most 1 after {trainer.steps} gradient steps"

    # ------------------------------------------------------------ saving

    def test_goes_on_from_its_state_as_if_never_stopped(self) -> None:
        recording = self.recording()
        trainer, resumed = (self.make(recording, seed) for seed in (1, 2))
        for _ in range(4):
            trainer.update()
        state = copied(trainer.state_dict())
        resumed.load_state_dict(through_a_file(state, self.directory))
        assert_equal(state, resumed.state_dict(), "load_state_dict does not restore what state_dict gave")
        for _ in range(5):
            assert_equal(dict(trainer.update()), dict(resumed.update()))
        assert_equal(trainer.state_dict(), resumed.state_dict())

    def test_a_policy_is_measured_without_the_recording(self) -> None:
        """``rlcore evaluate`` works where the recording is not."""
        recording = self.recording()
        trainer = self.make(recording)
        trainer.update()
        model = copied(trainer.state_dict()["model"])
        measured = self.make(recording, seed=2, purpose="evaluate", readable=False)
        measured.load_model(model)
        seen = first_batch(self.environment()).observations
        assert_equal(as_state(trainer.policy.act(seen)), as_state(measured.policy.act(seen)))


def expert(batch: AgentBatch) -> Actions:
    """Return the best actions in an :class:`IdentityEnvironment` with real parts, or with one branch."""
    seen = batch.observations
    choices = seen["choices"].argmax(axis=1)[:, None] if "choices" in seen else None
    return Actions(seen["reals"].copy() if "reals" in seen else None, choices)


def arrays(recording: Recording) -> dict[str, Any]:
    """Return all arrays of a recording."""
    found = {name: getattr(recording, name) for name in ("reward", "terminated", "truncated", "lengths", "action_mask")}
    return {**found, "observations": recording.observations, "actions": as_state(recording.actions)}
