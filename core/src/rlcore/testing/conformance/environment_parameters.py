"""What :class:`rlcore.testing.EnvironmentConformance` asks of an environment's parameters.

Each test plays the same random actions in environments that were told different parameters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from rlcore.environment import Actions, Environment, SavesState
from rlcore.errors import ConfigError
from rlcore.seeding import EpisodeSeeds
from rlcore.testing.playing import (
    Batches,
    all_equal,
    assert_equal_batches,
    equal_batches,
    play,
    played,
    random_actions,
    shown_to_env,
    snapshot,
    told_to_env,
)


class ParameterRules:
    """The part of the conformance tests that is about parameters, with the attributes of all of them.

    ``parameters`` has, for each parameter of the environment, two values that play differently:
    ``{"gravity": (9.8, 20.0)}``. Neither need be what it has when it is told nothing.
    """

    num_envs = 3
    steps = 120  # enough for some episodes to end under random actions
    episodes_end = True  # some episode ends within `steps`; rules about ends are empty otherwise
    one_generator = False  # True: all copies share a generator that is seeded once per reset
    deterministic = True  # equal seeds and actions give equal batches
    parameters: ClassVar[Mapping[str, tuple[float, float]]] = {}

    def make(self, num_envs: int) -> Environment:
        """A fresh environment of ``num_envs`` copies."""
        raise NotImplementedError

    def test_no_parameters_are_always_accepted(self) -> None:
        environment = self.make(self.num_envs)
        environment.set_parameters({})
        environment.close()

    def test_an_unknown_parameter_is_refused_with_those_there_are(self) -> None:
        environment = self.make(self.num_envs)
        refusal = ""
        try:
            environment.set_parameters({"not_a_parameter": np.ones(self.num_envs)})
        except ConfigError as error:
            refusal = str(error)
        assert "not_a_parameter" in refusal, "a parameter the environment does not have must raise ConfigError"
        assert all(name in refusal for name in self.parameters), "the error must list the parameters there are"
        assert "\n" not in refusal
        environment.close()

    def test_parameters_decide_what_is_played(self) -> None:
        """Equal ones give equal batches, and of two values of a parameter one plays differently."""
        for name, (_, second) in self._playable().items():
            plain, same, other = (self._told() for _ in range(3))
            self._tell(other, {name: second})
            differs = False
            for ours, theirs, others in zip(*(play(each, self.steps) for each in (plain, same, other)), strict=True):
                assert_equal_batches(ours, theirs)
                differs = differs or not equal_batches(ours, others)
            assert differs, f"parameter {name!r} changes nothing within {self.steps} steps"
            _close(plain, same, other)

    def test_parameters_are_those_of_the_copys_next_episode_and_not_before(self) -> None:
        """What is open goes on as it began; a reset begins that next episode too."""
        for name, (_, second) in self._playable().items():
            plain, told, fresh = (self._told() for _ in range(3))
            still_open = np.ones(self.num_envs, np.bool_)  # [N] in the episode that the reset began
            for step, (ours, theirs) in enumerate(zip(play(plain, self.steps), play(told, self.steps), strict=True)):
                for env in np.flatnonzero(still_open).tolist():
                    same = _told_alike(plain, ours, theirs, env)
                    if not plain.episodes[env]:
                        same = same and _shown_alike(plain, ours, theirs, env)
                    assert same, f"parameter {name!r} changed an episode that was open"
                still_open &= plain.episodes == 0
                if step == 1:
                    self._tell(told, {name: second})
            self._tell(fresh, {name: second})
            for ours, theirs in zip(play(told, self.steps), play(fresh, self.steps), strict=True):
                assert_equal_batches(ours, theirs)
            _close(plain, told, fresh)

    def test_a_copy_that_begins_by_itself_plays_what_a_reset_would_have_begun(self) -> None:
        if self.one_generator:
            return
        for name, (_, second) in self._playable().items():
            environment, checked = self._told(), 0
            seen: list[tuple[Batches, Mapping[str, Actions] | None, list[int]]] = []
            for batches, actions in played(environment, self.steps):
                if not seen:
                    self._tell(environment, {name: second})
                seen.append((snapshot(batches), actions, environment.episodes.tolist()))
            for env in range(self.num_envs):
                of_second = [(batches, actions) for batches, actions, episodes in seen if episodes[env] == 1]
                if of_second:
                    self._replay(env, of_second, {name: second})
                    checked += 1
            assert checked or not self.episodes_end, f"no episode ended within {self.steps} steps; set `steps` higher"
            environment.close()

    def test_parameters_are_told_for_each_copy(self) -> None:
        """What one copy plays with makes no difference to the others, but for a generator they share."""
        for name, (first, second) in self._playable().items():
            for odd in range(self.num_envs):
                alike, apart = self._told(), self._told()
                values = np.full(self.num_envs, first)
                values[odd] = second
                self._tell(apart, {name: values})
                differs, began = False, False
                for ours, theirs in zip(play(alike, self.steps), play(apart, self.steps), strict=True):
                    differs = differs or not equal_batches(ours, theirs)
                    began = began or bool(alike.episodes.any() or apart.episodes.any())
                    for env in range(self.num_envs):
                        if env == odd or (began and self.one_generator):
                            continue
                        same = _told_alike(alike, ours, theirs, env) and _shown_alike(alike, ours, theirs, env)
                        assert same, f"parameter {name!r} of copy {odd} changed what copy {env} plays"
                assert differs, f"parameter {name!r} of copy {odd} does not reach it"
                _close(alike, apart)

    def test_a_parameter_that_is_not_named_again_stays(self) -> None:
        if len(self._playable()) < 2:
            return
        (name, (_, second)), (other, (_, others)) = list(self.parameters.items())[:2]
        once, twice = self._told(), self._told()
        self._tell(once, {name: second, other: others})
        self._tell(twice, {name: second})
        self._tell(twice, {other: others})
        for ours, theirs in zip(play(once, self.steps), play(twice, self.steps), strict=True):
            assert_equal_batches(ours, theirs)
        _close(once, twice)

    def test_a_restored_environment_has_the_parameters_of_its_open_episodes(self) -> None:
        for name, (_, second) in self._playable().items():
            saved, restored = self._told(), self.make(self.num_envs)
            if not isinstance(saved, SavesState) or not isinstance(restored, SavesState):
                _close(saved, restored)
                return
            ours: Batches = {}
            for batches in play(saved, 2):
                ours = batches
            restored.load_state_dict(saved.state_dict())
            for environment in (saved, restored):  # whoever restores it tells it what comes next
                self._tell(environment, {key: first for key, (first, _) in self.parameters.items()})
                self._tell(environment, {name: second})
            generator = np.random.default_rng(9)
            for _ in range(self.steps):
                chosen = random_actions(saved.behaviors, ours, generator)
                ours = saved.step(chosen)
                assert_equal_batches(ours, restored.step(chosen))
            _close(saved, restored)

    # ------------------------------------------------------------ what the tests above are made of

    def _playable(self) -> Mapping[str, tuple[float, float]]:
        return self.parameters if self.deterministic else {}

    def _told(self) -> Environment:
        """A fresh environment that was told the first value of every parameter."""
        environment = self.make(self.num_envs)
        self._tell(environment, {name: first for name, (first, _) in self.parameters.items()})
        return environment

    def _tell(self, environment: Environment, values: Mapping[str, float | NDArray[np.float64]]) -> None:
        told = {name: np.array(np.broadcast_to(value, self.num_envs), np.float64) for name, value in values.items()}
        for array in told.values():
            array.setflags(write=False)  # they are the caller's
        environment.set_parameters(told)

    def _replay(
        self, env: int, seen: Sequence[tuple[Batches, Mapping[str, Actions] | None]], values: Mapping[str, float]
    ) -> None:
        """Plays the copy's episode number 1 after a reset, with the actions of ``seen``, and compares the two.

        The first of ``seen`` is the step that ended the episode before.
        """
        environment, generator = self._told(), np.random.default_rng(5)
        self._tell(environment, values)
        batches: Batches = environment.reset(EpisodeSeeds(1), np.ones(self.num_envs, np.int64))
        for step, (wanted, actions) in enumerate(seen):
            if step and actions is not None:
                chosen = random_actions(environment.behaviors, batches, generator)
                for name, spec in environment.behaviors.items():
                    rows = spec.env_index == env
                    for mine, theirs in (
                        (chosen[name].continuous, actions[name].continuous),
                        (chosen[name].discrete, actions[name].discrete),
                    ):
                        if mine is not None and theirs is not None:
                            mine[rows] = theirs[rows]
                batches = environment.step(chosen)
            same = _shown_alike(environment, wanted, batches, env)
            if step:
                same = same and _told_alike(environment, wanted, batches, env)
            assert same, "a copy began another episode by itself than a reset would have begun with these parameters"
        environment.close()


def _shown_alike(environment: Environment, ours: Batches, theirs: Batches, env: int) -> bool:
    return all_equal(*(shown_to_env(environment.behaviors, batches, env) for batches in (ours, theirs)))


def _told_alike(environment: Environment, ours: Batches, theirs: Batches, env: int) -> bool:
    return all_equal(*(told_to_env(environment.behaviors, batches, env) for batches in (ours, theirs)))


def _close(*environments: Environment) -> None:
    for environment in environments:
        environment.close()
