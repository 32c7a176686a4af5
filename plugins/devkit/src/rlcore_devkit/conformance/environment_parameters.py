"""The tests of environment parameters in :class:`rlcore_devkit.EnvironmentConformance`.

Each test plays equal random actions in environments with different parameters.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray

from rlcore import Actions, ConfigError, Environment, EpisodeSeeds, SavesState
from rlcore_devkit.playing import (
    RESULTS,
    SHOWN,
    Batches,
    all_equal,
    assert_equal_batches,
    equal_batches,
    of_env,
    play,
    played,
    random_actions,
    snapshot,
)

__all__ = ["ParameterRules"]


class ParameterRules:
    """Tests of environment parameters, and the attributes of all environment tests.

    ``parameters`` is, for example, ``{"gravity": (9.8, 20.0)}``. The default value need not be one of the two.

    Attributes:
        num_envs: N, the number of environments.
        steps: Environment steps that are enough for some episodes to end under random actions.
        episodes_end: Whether some episode ends within ``steps``; otherwise rules about ends are not tested.
        one_generator: Whether all environments share a generator that is seeded once per reset.
        deterministic: Whether equal seeds and actions give equal batches.
        parameters: Two values with different episodes for each parameter of the environment.
    """

    num_envs = 3
    steps = 120
    episodes_end = True
    one_generator = False
    deterministic = True
    parameters: ClassVar[Mapping[str, tuple[float, float]]] = {}

    def make(self, num_envs: int) -> Environment:
        """Return a new object with ``num_envs`` environments."""
        raise NotImplementedError

    @pytest.fixture(autouse=True)
    def _close(self) -> Iterator[None]:
        yield
        for environment in self.__dict__.get("_opened", ()):
            environment.close()

    def opened(self) -> Environment:
        """Return a new object, which is closed after the test."""
        environment = self.make(self.num_envs)
        self.__dict__.setdefault("_opened", []).append(environment)
        return environment

    def test_no_parameters_are_always_accepted(self) -> None:
        self.opened().set_parameters({})

    def test_an_unknown_parameter_is_refused_with_the_known_ones(self) -> None:
        with pytest.raises(ConfigError, match="not_a_parameter") as caught:
            self.opened().set_parameters({"not_a_parameter": np.ones(self.num_envs)})
        refusal = str(caught.value)
        assert all(name in refusal for name in self.parameters), "the error must list the known parameters"
        assert "\n" not in refusal

    def test_parameters_decide_what_is_played(self) -> None:
        """Equal values give equal batches, and different values of a parameter give different batches."""
        for name, (_, second) in self._playable().items():
            plain, same, other = (self._with_first_values() for _ in range(3))
            self._set(other, {name: second})
            differs = False
            for ours, theirs, others in zip(*(play(each, self.steps) for each in (plain, same, other)), strict=True):
                assert_equal_batches(ours, theirs)
                differs = differs or not equal_batches(ours, others)
            assert differs, f"parameter {name!r} has no effect within {self.steps} steps"

    def test_parameters_apply_from_the_next_episode_of_an_environment_on(self) -> None:
        """An open episode keeps its values. The next episode uses the new values, also if a reset starts it."""
        for name, (_, second) in self._playable().items():
            plain, told, fresh = (self._with_first_values() for _ in range(3))
            still_open = np.ones(self.num_envs, np.bool_)  # [N] in the first episode after the reset
            for step, (ours, theirs) in enumerate(zip(play(plain, self.steps), play(told, self.steps), strict=True)):
                for env in np.flatnonzero(still_open).tolist():
                    fields = RESULTS if plain.episodes[env] else (*RESULTS, *SHOWN)
                    same = _alike(plain, ours, theirs, env, fields)
                    assert same, f"parameter {name!r} changed an open episode"
                still_open &= plain.episodes == 0
                if step == 1:
                    self._set(told, {name: second})
            self._set(fresh, {name: second})
            for ours, theirs in zip(play(told, self.steps), play(fresh, self.steps), strict=True):
                assert_equal_batches(ours, theirs)

    def test_an_environment_that_resets_itself_plays_what_a_reset_would_play(self) -> None:
        if self.one_generator:
            return
        for name, (_, second) in self._playable().items():
            environment = self._with_first_values()
            checked = 0
            seen: list[tuple[Batches, Mapping[str, Actions] | None, list[int]]] = []
            for batches, actions in played(environment, self.steps):
                if not seen:
                    self._set(environment, {name: second})
                seen.append((snapshot(batches), actions, environment.episodes.tolist()))
            for env in range(self.num_envs):
                of_second = [(batches, actions) for batches, actions, episodes in seen if episodes[env] == 1]
                if of_second:
                    self._replay(env, of_second, {name: second})
                    checked += 1
            assert checked or not self.episodes_end, f"no episode ended within {self.steps} steps; set `steps` higher"

    def test_parameters_are_set_for_each_environment(self) -> None:
        """The parameters of one environment do not affect others, unless they share a generator."""
        for name, (first, second) in self._playable().items():
            for odd in range(self.num_envs):
                alike = self._with_first_values()
                apart = self._with_first_values()
                values = np.full(self.num_envs, first)
                values[odd] = second
                self._set(apart, {name: values})
                differs = False
                began = False
                for ours, theirs in zip(play(alike, self.steps), play(apart, self.steps), strict=True):
                    differs = differs or not equal_batches(ours, theirs)
                    began = began or bool(alike.episodes.any() or apart.episodes.any())
                    for env in range(self.num_envs):
                        if env == odd or (began and self.one_generator):
                            continue
                        same = _alike(alike, ours, theirs, env, (*RESULTS, *SHOWN))
                        assert same, f"parameter {name!r} of environment {odd} changed environment {env}"
                assert differs, f"parameter {name!r} of environment {odd} has no effect on it"

    def test_a_parameter_that_is_not_named_again_stays(self) -> None:
        if len(self._playable()) < 2:
            return
        (name, (_, second)), (other, (_, others)) = list(self.parameters.items())[:2]
        once = self._with_first_values()
        twice = self._with_first_values()
        self._set(once, {name: second, other: others})
        self._set(twice, {name: second})
        self._set(twice, {other: others})
        for ours, theirs in zip(play(once, self.steps), play(twice, self.steps), strict=True):
            assert_equal_batches(ours, theirs)

    def test_a_restored_environment_has_the_parameters_of_its_open_episodes(self) -> None:
        for name, (_, second) in self._playable().items():
            saved = self._with_first_values()
            restored = self.opened()
            if not isinstance(saved, SavesState) or not isinstance(restored, SavesState):
                return
            *_, ours = play(saved, 2)
            restored.load_state_dict(saved.state_dict())
            for environment in (saved, restored):  # the caller sets the values of the next episodes after restoring
                self._set(environment, {key: first for key, (first, _) in self.parameters.items()})
                self._set(environment, {name: second})
            generator = np.random.default_rng(9)
            for _ in range(self.steps):
                chosen = random_actions(saved.behaviors, ours, generator)
                ours = saved.step(chosen)
                assert_equal_batches(ours, restored.step(chosen))

    # ------------------------------------------------------------ parts of the tests above

    def _playable(self) -> Mapping[str, tuple[float, float]]:
        return self.parameters if self.deterministic else {}

    def _with_first_values(self) -> Environment:
        """Return a new object with the first value of every parameter."""
        environment = self.opened()
        self._set(environment, {name: first for name, (first, _) in self.parameters.items()})
        return environment

    def _set(self, environment: Environment, values: Mapping[str, float | NDArray[np.float64]]) -> None:
        told = {name: np.array(np.broadcast_to(value, self.num_envs), np.float64) for name, value in values.items()}
        for array in told.values():
            array.setflags(write=False)  # the arrays belong to the caller
        environment.set_parameters(told)

    def _replay(
        self, env: int, seen: Sequence[tuple[Batches, Mapping[str, Actions] | None]], values: Mapping[str, float]
    ) -> None:
        """Play episode 1 of an environment after a reset with the actions of ``seen``, and compare both.

        The first entry of ``seen`` is the step that ended the previous episode.
        """
        environment = self._with_first_values()
        generator = np.random.default_rng(5)
        self._set(environment, values)
        batches: Batches = environment.reset(EpisodeSeeds(1), np.ones(self.num_envs, np.int64))
        for step, (wanted, actions) in enumerate(seen):
            if step and actions is not None:
                chosen = random_actions(environment.behaviors, batches, generator)
                for name, spec in environment.behaviors.items():
                    for part in ("continuous", "discrete"):
                        mine, theirs = (getattr(each[name], part) for each in (chosen, actions))
                        if mine is not None:
                            mine[spec.env_index == env] = theirs[spec.env_index == env]
                batches = environment.step(chosen)
            same = _alike(environment, wanted, batches, env, (*SHOWN, *RESULTS) if step else SHOWN)
            assert same, "the environment started another episode by itself than a reset with these parameters"


def _alike(environment: Environment, ours: Batches, theirs: Batches, env: int, fields: Sequence[str]) -> bool:
    return all_equal(*(of_env(environment.behaviors, batches, env, fields) for batches in (ours, theirs)))
