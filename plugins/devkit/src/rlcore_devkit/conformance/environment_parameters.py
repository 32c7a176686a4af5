"""The tests of environment parameters in :class:`rlcore_devkit.EnvironmentConformance`.

Each test plays equal random actions in environments with different parameters.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray

from rlcore import Actions, ConfigError, Environment, EpisodeSeeds, SavesState
from rlcore_devkit.conformance.states import assert_equal, copied, equal
from rlcore_devkit.playing import RESULTS, SEEN, Batches, of_env, play, played, random_actions

Chosen = Mapping[str, Actions] | None
"""The actions that led to batches, by behavior; None for a reset."""
Values = Mapping[str, float | NDArray[np.float64]]
"""Values of parameters by name: one for all environments, or [N]."""


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
        opened = self.__dict__.setdefault("_opened", [])
        opened.append(environment)
        return environment

    def test_no_parameters_are_always_accepted(self) -> None:
        self.opened().set_parameters({})

    def test_an_unknown_parameter_is_refused_with_the_known_ones(self) -> None:
        environment = self.opened()
        unknown = {"not_a_parameter": np.ones(self.num_envs)}
        with pytest.raises(ConfigError, match="not_a_parameter") as caught:
            environment.set_parameters(unknown)
        refusal = str(caught.value)
        for name in self.parameters:
            assert name in refusal, "the error must list the known parameters"
        assert "\n" not in refusal

    def test_parameters_decide_what_is_played(self) -> None:
        """Equal values give equal batches, and different values of a parameter give different batches."""
        for name, change in self._changes():
            repeated = self._play_alike(self._with(), self._with())
            assert repeated
            alike = self._play_alike(self._with(), self._with(change))
            assert not alike, f"parameter {name!r} has no effect within {self.steps} steps"

    def test_parameters_apply_from_the_next_episode_of_an_environment_on(self) -> None:
        """An open episode keeps its values. The next episode uses the new values, also if a reset starts it."""
        for name, change in self._changes():
            unchanged = self._with()
            changed = self._with()
            still_open = np.ones(self.num_envs, np.bool_)  # [N] in the first episode after the reset
            both = self._both(unchanged, changed)
            for step, (ours, theirs) in enumerate(both):
                for env in np.flatnonzero(still_open).tolist():
                    # In the step that ends the episode, what is seen is of the next one, which may differ.
                    fields = RESULTS if unchanged.episodes[env] else (*RESULTS, *SEEN)
                    same = _alike(unchanged, ours, theirs, env, fields)
                    assert same, f"parameter {name!r} changed an open episode"
                still_open &= unchanged.episodes == 0
                if step == 1:
                    self._set(changed, change)
            self._assert_play_alike(changed, self._with(change))

    def test_an_environment_that_resets_itself_plays_what_a_reset_would_play(self) -> None:
        if self.one_generator:
            return
        for _, change in self._changes():
            environment = self._with()
            history: list[tuple[Batches, Chosen, list[int]]] = []
            for batches, actions in played(environment, self.steps):
                if not history:
                    self._set(environment, change)
                episodes = environment.episodes.tolist()
                history.append((copied(batches), actions, episodes))
            checked = 0
            for env in range(self.num_envs):
                second_episode = []
                for batches, actions, episodes in history:
                    if episodes[env] == 1:
                        second_episode.append((batches, actions))
                if second_episode:
                    self._replay(env, second_episode, change)
                    checked += 1
            enough = checked or not self.episodes_end
            assert enough, f"no episode ended within {self.steps} steps; set `steps` higher"

    def test_parameters_are_set_for_each_environment(self) -> None:
        """The parameters of one environment do not affect others, unless they share a generator."""
        for name, (first, second) in self._compared().items():
            for odd in range(self.num_envs):
                values = np.full(self.num_envs, first)
                values[odd] = second
                self._check_only_one_changes(name, odd, values)

    def _check_only_one_changes(self, name: str, odd: int, values: NDArray[np.float64]) -> None:
        alike = self._with()
        apart = self._with({name: values})
        others = [env for env in range(self.num_envs) if env != odd]
        differs = False
        for ours, theirs in self._both(alike, apart):
            if not equal(ours, theirs):
                differs = True
            an_episode_ended = alike.episodes.any() or apart.episodes.any()
            # A shared generator draws the next episodes of all, which differ as soon as one ends earlier.
            if self.one_generator and an_episode_ended:
                others = []
            for env in others:
                same = _alike(alike, ours, theirs, env, (*RESULTS, *SEEN))
                assert same, f"parameter {name!r} of environment {odd} changed environment {env}"
        assert differs, f"parameter {name!r} of environment {odd} has no effect on it"

    def test_a_parameter_that_is_not_named_again_stays(self) -> None:
        changes = [change for _, change in self._changes()]
        if len(changes) > 1:
            first, second = changes[:2]
            at_once = self._with({**first, **second})
            in_turn = self._with(first, second)
            self._assert_play_alike(at_once, in_turn)

    def test_a_restored_environment_has_the_parameters_of_its_open_episodes(self) -> None:
        for _, change in self._changes():
            saved = self._with()
            restored = self.opened()
            if not isinstance(saved, SavesState) or not isinstance(restored, SavesState):
                return
            *_, batches = play(saved, 2)
            state = saved.state_dict()
            restored.load_state_dict(state)
            for environment in (saved, restored):  # the caller sets the values of the next episodes after restoring
                self._set(environment, self._first_values)
                self._set(environment, change)
            self._assert_step_alike(saved, restored, batches)

    # ------------------------------------------------------------ parts of the tests

    def _assert_play_alike(self, first: Environment, second: Environment) -> None:
        """Assert that two environments give equal batches for equal random actions after a reset."""
        for ours, theirs in self._both(first, second):
            assert_equal(ours, theirs)

    def _assert_step_alike(self, first: Any, second: Any, batches: Batches) -> None:
        """Assert that two environments, whose last batches were ``batches``, continue with equal ones."""
        generator = np.random.default_rng(9)
        for _ in range(self.steps):
            actions = random_actions(first.behaviors, batches, generator)
            batches = first.step(actions)
            expected = second.step(actions)
            assert_equal(batches, expected)

    def _both(self, first: Environment, second: Environment) -> Iterator[tuple[Batches, Batches]]:
        ours = play(first, self.steps)
        theirs = play(second, self.steps)
        return zip(ours, theirs, strict=True)

    def _play_alike(self, first: Environment, second: Environment) -> bool:
        both = self._both(first, second)
        return all(equal(ours, theirs) for ours, theirs in both)

    def _compared(self) -> Mapping[str, tuple[float, float]]:
        """The two values of each parameter; none if equal actions may give different batches."""
        return self.parameters if self.deterministic else {}

    def _changes(self) -> list[tuple[str, dict[str, float]]]:
        """Each parameter of :meth:`_compared` with its second value."""
        compared = self._compared()
        return [(name, {name: second}) for name, (_, second) in compared.items()]

    @property
    def _first_values(self) -> dict[str, float]:
        return {name: first for name, (first, _) in self.parameters.items()}

    def _with(self, *changes: Values) -> Environment:
        """Return a new object with the first value of every parameter, and the ``changes`` set after it."""
        environment = self.opened()
        for values in (self._first_values, *changes):
            self._set(environment, values)
        return environment

    def _set(self, environment: Any, values: Values) -> None:
        arrays = {}
        for name, value in values.items():
            array = np.full(self.num_envs, value, np.float64)
            array.setflags(write=False)  # the arrays belong to the caller
            arrays[name] = array
        environment.set_parameters(arrays)

    def _replay(self, env: int, history: Sequence[tuple[Batches, Chosen]], change: Values) -> None:
        """Play episode 1 of an environment after a reset with the actions of ``history``, and compare both.

        The first entry of ``history`` is the step that ended the previous episode.
        """
        environment = self._with(change)
        generator = np.random.default_rng(5)
        seeds = EpisodeSeeds(1)
        second_episodes = np.ones(self.num_envs, np.int64)
        batches: Batches = environment.reset(seeds, second_episodes)
        for step, (expected, actions) in enumerate(history):
            fields: Sequence[str] = SEEN
            if step and actions is not None:
                # Other environments are in other episodes, so they need actions of their own.
                chosen = random_actions(environment.behaviors, batches, generator)
                for name, spec in environment.behaviors.items():
                    rows = spec.env_index == env
                    parts = _parts(chosen[name])
                    recorded_parts = _parts(actions[name])
                    for part, recorded in zip(parts, recorded_parts, strict=True):
                        part[rows] = recorded[rows]
                batches = environment.step(chosen)
                fields = (*SEEN, *RESULTS)
            same = _alike(environment, expected, batches, env, fields)
            assert same, "the environment started another episode by itself than a reset with these parameters"


def _parts(actions: Actions) -> list[NDArray[Any]]:
    parts = (actions.continuous, actions.discrete)
    return [part for part in parts if part is not None]


def _alike(environment: Environment, ours: Batches, theirs: Batches, env: int, fields: Sequence[str]) -> bool:
    one = of_env(environment.behaviors, ours, env, fields)
    other = of_env(environment.behaviors, theirs, env, fields)
    return equal(one, other)
