"""The rules of :class:`rlcore.environment.Environment` as tests that an environment's author inherits.

::

    class TestMyEnvironment(EnvironmentConformance):
        def make(self, num_envs):
            return MyEnvironment(num_envs)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from rlcore.environment import Actions, AgentBatch, BehaviorSpec, Environment, SavesState
from rlcore.errors import ConfigError
from rlcore.seeding import EpisodeSeeds

Batches = Mapping[str, AgentBatch]


class EnvironmentConformance:
    """Override :meth:`make`; adjust the attributes where the environment differs."""

    num_envs = 3
    steps = 120  # enough for some episodes to end under random actions
    episodes_end = True  # some episode ends within `steps`; rules about ends are empty otherwise
    one_generator = False  # True: all copies share a generator that is seeded once per reset
    deterministic = True  # equal seeds and actions give equal batches

    def make(self, num_envs: int) -> Environment:
        """A fresh environment of ``num_envs`` copies."""
        raise NotImplementedError

    # ------------------------------------------------------------ shapes

    def test_implements_the_environment_protocol(self) -> None:
        environment = self.make(self.num_envs)
        assert isinstance(environment, Environment)
        assert environment.num_envs == self.num_envs
        assert environment.behaviors
        for name, spec in environment.behaviors.items():
            assert spec.name == name
            assert spec.observations, "a behavior needs at least one observation"
            assert spec.continuous or spec.discrete, "a behavior needs an action"
            assert spec.low.shape == spec.high.shape == (spec.continuous,)
            assert (spec.low < spec.high).all()
            assert set(spec.env_index.tolist()) <= set(range(self.num_envs))
        environment.close()

    def test_reset_gives_first_observations_without_reward_or_ends(self) -> None:
        environment = self.make(self.num_envs)
        batches = environment.reset(EpisodeSeeds(1), np.zeros(self.num_envs, np.int64))
        assert set(batches) == set(environment.behaviors)
        for name, batch in batches.items():
            check_batch(environment.behaviors[name], batch)
            assert not batch.reward.any()
            assert not batch.ended.size
        environment.close()

    def test_batches_have_the_shapes_types_and_flags_of_the_contract(self) -> None:
        environment = self.make(self.num_envs)
        ends = 0
        for batches in play(environment, self.steps):
            for name, batch in batches.items():
                check_batch(environment.behaviors[name], batch)
                ends += len(batch.ended)
        assert ends or not self.episodes_end, f"no episode ended within {self.steps} steps; set `steps` higher"
        environment.close()

    # ------------------------------------------------------------ episodes and seeds

    def test_episodes_start_at_the_given_numbers_and_count_up(self) -> None:
        environment = self.make(self.num_envs)
        given = np.arange(self.num_envs, dtype=np.int64) + 5
        environment.reset(EpisodeSeeds(1), given)
        assert environment.episodes.tolist() == given.tolist()
        before = environment.episodes.copy()
        generator = np.random.default_rng(0)
        batches: Batches | None = None
        for _ in range(self.steps):
            batches = environment.step(random_actions(environment.behaviors, batches, generator))
            ended = np.zeros(self.num_envs, np.bool_)
            for name, batch in batches.items():
                ended[environment.behaviors[name].env_index[batch.ended]] = True
            after = environment.episodes.copy()
            assert (after >= before).all() and (after <= before + 1).all()
            assert not ((after > before) & ~ended).any(), "a copy began an episode although no agent's ended"
            before = after
        assert given.tolist() == (np.arange(self.num_envs) + 5).tolist(), "reset must not keep or change its argument"
        environment.close()

    def test_equal_seeds_and_actions_give_equal_batches(self) -> None:
        if not self.deterministic:
            return
        first, second = self.make(self.num_envs), self.make(self.num_envs)
        for ours, theirs in zip(play(first, self.steps), play(second, self.steps), strict=True):
            assert_equal_batches(ours, theirs)
        first.close()
        second.close()

    def test_reset_forgets_what_was_played_before(self) -> None:
        if not self.deterministic:
            return
        environment = self.make(self.num_envs)
        fresh = [snapshot(batches) for batches in play(environment, 10)]
        for _ in play(environment, 7, run_seed=2):
            pass
        for ours, theirs in zip(fresh, play(environment, 10), strict=True):
            assert_equal_batches(ours, theirs)
        environment.close()

    def test_an_episode_depends_on_its_copy_and_number_only(self) -> None:
        """The episode a copy begins by itself starts like the one that a reset begins at that number."""
        if self.one_generator or not self.deterministic:
            return
        environment, other = self.make(self.num_envs), self.make(self.num_envs)
        checked = 0
        for batches in play(environment, self.steps):
            for name, batch in batches.items():
                if not batch.ended.size:
                    continue
                theirs = other.reset(EpisodeSeeds(1), environment.episodes)[name]
                for key, array in batch.observations.items():
                    np.testing.assert_array_equal(array[batch.ended], theirs.observations[key][batch.ended])
                checked += 1
        assert checked or not self.episodes_end
        environment.close()
        other.close()

    # ------------------------------------------------------------ the rest

    def test_no_parameters_are_always_accepted(self) -> None:
        environment = self.make(self.num_envs)
        environment.set_parameters({})
        environment.close()

    def test_parameters_are_taken_or_refused_by_name(self) -> None:
        environment = self.make(self.num_envs)
        refusal = ""
        try:
            environment.set_parameters({"a_parameter": 1.0})
        except ConfigError as error:
            refusal = str(error)
        assert not refusal or "a_parameter" in refusal
        environment.close()

    def test_close_may_be_called_twice(self) -> None:
        environment = self.make(self.num_envs)
        environment.reset(EpisodeSeeds(1), np.zeros(self.num_envs, np.int64))
        environment.close()
        environment.close()

    def test_a_restored_environment_goes_on_as_if_never_stopped(self) -> None:
        environment = self.make(self.num_envs)
        if not isinstance(environment, SavesState):
            environment.close()
            return
        last: Batches = {}
        for batches in play(environment, self.steps // 2):
            last = batches
        here = snapshot(last)
        state = environment.state_dict()
        _check_storable(state, "state_dict()")
        actions = np.random.default_rng(9)
        restored = self.make(self.num_envs)
        assert isinstance(restored, SavesState)
        first = restored.load_state_dict(state)
        assert restored.episodes.tolist() == environment.episodes.tolist()
        for name, batch in first.items():
            check_batch(restored.behaviors[name], batch)
            for key, array in batch.observations.items():
                np.testing.assert_array_equal(array, here[name].observations[key])
            if batch.action_mask is not None:
                np.testing.assert_array_equal(batch.action_mask, here[name].action_mask)
        ours: Batches = here
        for _ in range(self.steps):
            chosen = random_actions(environment.behaviors, ours, actions)
            ours = environment.step(chosen)
            assert_equal_batches(ours, restored.step(chosen))
        environment.close()
        restored.close()


# ---------------------------------------------------------------- what the tests are made of


def random_actions(
    behaviors: Mapping[str, BehaviorSpec], batches: Batches | None, generator: np.random.Generator
) -> dict[str, Actions]:
    """Allowed actions, drawn evenly; unbounded real parts from [-1, 1]."""
    chosen: dict[str, Actions] = {}
    for name, spec in behaviors.items():
        actions = Actions()
        if spec.continuous:
            low = np.where(np.isfinite(spec.low), spec.low, -1.0)
            high = np.where(np.isfinite(spec.high), spec.high, 1.0)
            actions.continuous = generator.uniform(low, high, (spec.slots, spec.continuous)).astype(np.float32)
        if spec.discrete:
            mask = batches[name].action_mask if batches else None
            scores = generator.random((spec.slots, spec.mask_size))
            if mask is not None:
                scores = np.where(mask, scores, -1.0)
            edges = np.cumsum(spec.discrete)[:-1]
            branches = [branch.argmax(axis=1) for branch in np.split(scores, edges, axis=1)]
            actions.discrete = np.stack(branches, axis=1).astype(np.int64)
        chosen[name] = actions
    return chosen


def play(environment: Environment, steps: int, run_seed: int = 1) -> Iterator[Batches]:
    """Resets, then yields the batches of that and of ``steps`` random steps. Each is valid until the next."""
    generator = np.random.default_rng(run_seed)
    batches: Batches = environment.reset(EpisodeSeeds(run_seed), np.zeros(environment.num_envs, np.int64))
    yield batches
    for _ in range(steps):
        batches = environment.step(random_actions(environment.behaviors, batches, generator))
        yield batches


def check_batch(spec: BehaviorSpec, batch: AgentBatch) -> None:
    """Everything a batch must hold, whatever the environment."""
    slots, ended = spec.slots, len(batch.ended)
    assert set(batch.observations) == {observation.name for observation in spec.observations}
    for observation in spec.observations:
        array = batch.observations[observation.name]
        assert array.shape == (slots, *observation.shape) and array.dtype == observation.dtype
        if observation.kind == "one_hot":
            assert np.isin(array, (0.0, 1.0)).all()
        if ended:
            assert batch.final_observations is not None, "an episode ended without its final observation"
            final = batch.final_observations[observation.name]
            assert final.shape == (ended, *observation.shape) and final.dtype == observation.dtype
    assert batch.reward.shape == (slots,) and batch.reward.dtype == np.float32
    for flags in (batch.terminated, batch.truncated):
        assert flags.shape == (slots,) and flags.dtype == np.bool_
    assert not (batch.terminated & batch.truncated).any(), "a row is either terminated or truncated"
    assert batch.ended.tolist() == np.flatnonzero(batch.terminated | batch.truncated).tolist()
    if batch.needs_action is not None:
        assert batch.needs_action.shape == (slots,) and batch.needs_action.dtype == np.bool_
    if batch.group_reward is not None:
        assert batch.group_reward.shape == (slots,) and batch.group_reward.dtype == np.float32
    if batch.action_mask is not None:
        assert batch.action_mask.shape == (slots, spec.mask_size) and batch.action_mask.dtype == np.bool_
        edges = np.cumsum(spec.discrete)[:-1]
        for branch in np.split(batch.action_mask, edges, axis=1):
            assert branch.any(axis=1).all(), "a mask must leave at least one option in each branch"


def assert_equal_batches(ours: Batches, theirs: Batches) -> None:
    """Bit for bit."""
    assert set(ours) == set(theirs)
    for name, batch in ours.items():
        other = theirs[name]
        for key, array in batch.observations.items():
            np.testing.assert_array_equal(array, other.observations[key])
        for key, array in (batch.final_observations or {}).items():
            assert other.final_observations is not None
            np.testing.assert_array_equal(array, other.final_observations[key])
        for field in ("reward", "terminated", "truncated", "ended", "group_reward", "needs_action", "action_mask"):
            np.testing.assert_array_equal(getattr(batch, field), getattr(other, field), err_msg=field)


def snapshot(batches: Batches) -> dict[str, AgentBatch]:
    """A copy that stays what it is when the environment moves on."""

    def copied(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            return value.copy()
        return {key: item.copy() for key, item in value.items()} if isinstance(value, dict) else value

    fields = ("observations", "reward", "terminated", "truncated", "ended", "final_observations", "group_reward",
              "needs_action", "action_mask", "aborted")  # fmt: skip
    return {
        name: AgentBatch(**{field: copied(getattr(batch, field)) for field in fields})
        for name, batch in batches.items()
    }


def _check_storable(value: Any, where: str) -> None:
    if isinstance(value, Mapping):
        for key, item in value.items():
            assert isinstance(key, str), f"{where}: key {key!r} is not a string"
            _check_storable(item, f"{where}[{key!r}]")
    elif isinstance(value, list | tuple):
        for item in value:
            _check_storable(item, where)
    else:
        allowed = value is None or isinstance(value, bool | int | float | str | np.ndarray)
        assert allowed, f"{where} holds a {type(value).__name__}; only arrays and JSON values are stored"
