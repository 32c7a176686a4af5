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
import pytest

from rlcore import (
    Actions,
    AgentBatch,
    BehaviorSpec,
    ConfigError,
    Environment,
    Purpose,
    Recording,
    Trainer,
    hookimpl,
)
from rlcore_devkit.conformance.loop import act, act_twice, check_actions, first_batch, mean_reward
from rlcore_devkit.conformance.recordings import arrays, record
from rlcore_devkit.conformance.states import assert_equal, assert_resumes, check_statistics, copied, equal
from rlcore_devkit.conformance.trainer import SPACES, TrainerRules
from rlcore_devkit.environments import TinyCorridor, identity_discrete
from rlcore_devkit.trainings import create_trainer

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
        if readable:
            plugins.register(_Demonstrations(recording), "demonstrations")
        block = {**self.block(), **settings}
        return create_trainer(recording.behavior, block, plugins, self.directory, seed, purpose=purpose, offline=True)

    def block(self, **hyperparameters: Any) -> dict[str, Any]:
        """Return the block of a behavior; ``hyperparameters`` override those of the class."""
        path = str(self.directory / DEMONSTRATIONS)
        block = super().block(**{self.path_key: path, **hyperparameters})
        return {"max_steps": 20, **block}

    def untrained(self, environment: Environment) -> Trainer:
        """Create the trainer of the only behavior of an environment, with a recording of random actions."""
        return self.make(record(environment, 40))

    def environment(self) -> Environment:
        """Return the environment with the most kinds of actions that the trainer declares."""
        return self._declared("hybrid", "discrete", "continuous")

    def recording(self, steps: int = 40) -> Recording:
        """Return episodes of random actions in :meth:`environment`."""
        return record(self.environment(), steps)

    # ------------------------------------------------------------ the record

    def test_its_record_is_complete_and_light(self) -> None:
        super().test_its_record_is_complete_and_light()
        assert self._spec.offline, "set offline=True, so that a run creates no environment"

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
                check_statistics(trainer.update())
            assert trainer.steps == 3, "steps count gradient steps"
            before = copied(trainer.state_dict())
            batch = first_batch(environment)
            for step in range(20):
                deterministic = step % 2 == 0
                actions = act_twice(trainer.policy, batch, deterministic)
                check_actions(behavior, batch.action_mask, actions)
                batch = environment.step({name: actions})[name]
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
            updates = _update(trainer, 4)
            outcomes.append({"updates": updates, "state": copied(trainer.state_dict())})
        first, same, other = outcomes
        assert_equal(first, same)
        assert not equal(first["state"]["model"], other["state"]["model"]), "the seed has no effect"

    def test_the_recording_stays_as_it_is(self) -> None:
        """Several behaviors, and other trainers, may learn from the same arrays."""
        recording = self.recording()
        before = copied(arrays(recording))
        trainer = self.make(recording)
        _update(trainer, 3)
        assert_equal(arrays(recording), before, "the trainer changed the recording")

    def test_learns_what_good_agents_did(self) -> None:
        make = identity_discrete if "discrete" in self.spaces else SPACES["continuous"]
        measured = make(8)
        environment = make(8)
        recording = record(environment, 100, expert)
        trainer = self.make(recording, max_steps=self.learns_within)
        reward = 0.0
        for _ in range(4):  # a trainer that learns sooner is done sooner
            _update(trainer, self.learns_within // 4)
            reward = mean_reward(trainer, measured)
            if reward > 0.8:
                break
        assert reward > 0.8, f"mean reward {reward:.2f} of at most 1 after {trainer.steps} gradient steps"

    # ------------------------------------------------------------ saving

    def test_goes_on_from_its_state_as_if_never_stopped(self) -> None:
        recording = self.recording()
        trainer = self.make(recording)
        _update(trainer, 4)
        resumed = self.make(recording, seed=2)
        assert_resumes(trainer, resumed, self.directory, lambda trainer: _update(trainer, 5))

    def test_a_policy_is_measured_without_the_recording(self) -> None:
        """``rlcore evaluate`` works where the recording is not."""
        recording = self.recording()
        trainer = self.make(recording)
        trainer.update()
        measured = self.make(recording, seed=2, purpose="evaluate", readable=False)
        weights = copied(trainer.state_dict()["model"])
        measured.load_model(weights)
        batch = first_batch(self.environment())
        expected = act(trainer.policy, batch)
        actions = act(measured.policy, batch)
        assert_equal(expected, actions)


def _update(trainer: Trainer, count: int) -> list[Any]:
    """Update ``count`` times; return the statistics of each update."""
    return [trainer.update() for _ in range(count)]


def expert(batch: AgentBatch) -> Actions:
    """Return the best actions in an :class:`IdentityEnvironment` with real parts, or with one branch."""
    actions = Actions()
    if "reals" in batch.observations:
        actions.continuous = batch.observations["reals"].copy()
    if "choices" in batch.observations:
        options = batch.observations["choices"].argmax(axis=1)
        actions.discrete = options[:, None]
    return actions
