"""The rules of :class:`rlcore_torch.ReplaySampler` as tests for authors of samplers to inherit.

::

    class TestRecency(ReplaySamplerConformance):
        sampler = "acme-rl/recency"
        settings = {"half_life": 1000}
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any, ClassVar

import attrs
import numpy as np
import pytest
from numpy.typing import NDArray

from rlcore import (
    AgentBatch,
    BehaviorSettings,
    BehaviorSpec,
    ConfigError,
    RunConfig,
    RunContext,
    load_checkpoint,
    save_checkpoint,
)
from rlcore_devkit.conformance.rules import RecordRules
from rlcore_devkit.conformance.states import assert_equal, check_storable, copied
from rlcore_devkit.environments import identity_hybrid
from rlcore_devkit.playing import random_observations
from rlcore_torch import (
    OffPolicySettings,
    ReplayBuffer,
    ReplaySampler,
    ReplaySamplerSpec,
    Sample,
    Steps,
    create_replay_sampler,
)

ROWS_PER_SLOT = 12  # of the ring of each slot
ENDS = ("terminated", "truncated", "aborted")


class ReplaySamplerConformance(RecordRules):
    """Tests of replay samplers: set ``sampler``. ``settings`` is its block, without ``type``.

    A sampler with ``changes_steps`` names in ``changed`` what its samples may change: fields of
    :class:`rlcore_torch.Steps`, such as ``"reward"``, and observations, such as
    ``"observations/desired_goal"`` and ``"next_observations/desired_goal"``.

    Attributes:
        sampler: NAME or DIST/NAME, as installed.
        settings: The sampler's own keys.
        changed: What samples may change.
        batch_size: B, the rows of each sample.
        skip: Names of tests that cannot hold, with the reason.
    """

    record_class = ReplaySamplerSpec
    named = "sampler"
    sampler: ClassVar[str] = ""
    changed: ClassVar[frozenset[str]] = frozenset()
    batch_size: ClassVar[int] = 32

    def behavior(self, slots: int) -> BehaviorSpec:
        """Return the behavior of the transitions: two observations, real and discrete actions."""
        [behavior] = identity_hybrid(slots).behaviors.values()
        return behavior

    def make(self, slots: int = 3, n_steps: int = 1, **settings: Any) -> ReplaySampler:
        """Create the sampler for ``slots`` agents as a trainer does; ``settings`` differ from those of the class."""
        plugins = self.plugins()
        behavior = self.behavior(slots)
        block = self.block(**settings)
        hyperparameters = OffPolicySettings(n_steps=n_steps, replay_sampler=block)
        behavior_settings = BehaviorSettings(hyperparameters=hyperparameters)
        config = RunConfig(behaviors={behavior.name: behavior_settings})
        run = RunContext(config, plugins, self.directory, 1, slots)
        return create_replay_sampler(hyperparameters, behavior, run)

    def history(self, slots: int = 3, seed: int = 1) -> History:
        """Return an empty replay buffer for ``slots`` agents, and the steps that fill it."""
        return History(self.make(slots), self.behavior(slots), seed)

    # ------------------------------------------------------------ rules

    @pytest.mark.parametrize("slots", [1, 3])
    def test_samples_hold_stored_transitions_while_the_buffer_fills_and_wraps(self, slots: int) -> None:
        """From the first transition on, until each ring was written four times, with every kind of episode end."""
        history = self.history(slots)
        generator = np.random.default_rng(2)
        for step in history.steps(5 * ROWS_PER_SLOT):
            twice_all = 2 * len(history.buffer)  # some rows are there more than once
            sizes = (1, self.batch_size, twice_all)
            size = sizes[step % 3]
            sample = history.sample(size, generator)
            self._check_sample(sample, history.buffer, size)
        assert history.met_every_end(), "the history lacks an end"

    def test_a_sample_comes_from_a_single_transition(self) -> None:
        history = self.history(slots=1)
        next(history.steps(1))
        assert len(history.buffer) == 1
        generator = np.random.default_rng(2)
        sample = history.sample(self.batch_size, generator)
        only_row = np.zeros(self.batch_size, np.int64)
        np.testing.assert_array_equal(sample.rows, only_row)

    def test_sampling_and_learning_change_no_stored_transition(self) -> None:
        history = self.history()
        generator = np.random.default_rng(2)
        for _ in history.steps(3 * ROWS_PER_SLOT):
            before = stored(history.buffer)
            sample = history.sample(self.batch_size, generator)
            sampled = stored(history.buffer)
            assert_equal(before, sampled, "sampling changed the replay buffer")
            history.learn(sample)
            learned = stored(history.buffer)
            assert_equal(before, learned, "learned changed more than priorities")
            if sample.steps is None:
                continue
            for name, array in arrays_of(sample.steps).items():
                shared = shares_memory(array, history.buffer)
                assert not shared, f"{name} of steps is not a copy"

    def test_equal_seeds_draw_equal_samples(self) -> None:
        """Other generators of the process, seeded differently here, must not matter."""
        outcomes = []
        for seed in (1, 2):
            random.seed(seed)
            np.random.seed(seed)  # noqa: NPY002
            history = self.history()
            generator = np.random.default_rng(2)
            samples = []
            for _ in history.steps(3 * ROWS_PER_SLOT):
                sample = history.draw(self.batch_size, generator)
                samples.append(sample)
            following = generator.random(3)
            outcomes.append((samples, following))
        first, second = outcomes
        assert_equal(first, second, "equal generators, unequal samples: draw from `generator` only")

    def test_a_resumed_sampler_continues_as_if_never_stopped(self) -> None:
        for played in (1, ROWS_PER_SLOT, 3 * ROWS_PER_SLOT):
            history = self.history()
            generator = np.random.default_rng(2)
            for _ in history.steps(played):
                history.draw(self.batch_size, generator)
            sampler_state = history.sampler.state_dict()
            check_storable(sampler_state)
            state = {"buffer": history.buffer.state_dict(), "sampler": sampler_state}
            directory = self.directory / str(played)
            path = save_checkpoint(directory, played, state)
            resumed = history.resumed(self.make(), load_checkpoint(path))
            resumed_generator = deepcopy(generator)
            steps = history.steps(ROWS_PER_SLOT)
            resumed_steps = resumed.steps(ROWS_PER_SLOT)
            for _ in zip(steps, resumed_steps, strict=True):
                ours = history.draw(self.batch_size, generator)
                theirs = resumed.draw(self.batch_size, resumed_generator)
                assert_equal(ours, theirs, f"resumed after {played} steps")

    def test_several_steps_start_at_the_rows_of_a_sample(self) -> None:
        """``n_steps`` above 1 is refused if samples have ``steps``; otherwise each stretch is of one episode."""
        if self.make().changes_steps:
            with pytest.raises(ConfigError, match="n_steps: must be 1"):
                self.make(n_steps=3)
            return
        history = self.history()
        history.sampler = self.make(n_steps=3)
        for _ in history.steps(3 * ROWS_PER_SLOT):
            generator = np.random.default_rng(2)
            sample = history.sample(self.batch_size, generator)
            rows = sample.rows
            indices, valid, _ = history.buffer.stretches(rows, 3)
            assert valid[0].all()
            assert (indices[0] == rows).all()
            same_episode = history.episode[indices] == history.episode[rows]
            assert same_episode[valid].all()

    # ------------------------------------------------------------ inside

    def _check_sample(self, sample: Sample, buffer: ReplayBuffer, size: int) -> None:
        rows = sample.rows
        weight = sample.weight
        assert rows.dtype == np.int64
        assert rows.shape == (size,)
        inside = (rows >= 0) & (rows < buffer.capacity)
        assert inside.all(), "rows must hold transitions"
        assert buffer.flags[rows].all(), "rows must hold transitions"
        if weight is not None:
            assert weight.dtype == np.float32
            assert weight.shape == (size,)
            valid = np.isfinite(weight) & (weight > 0)
            assert valid.all(), "weights must be finite and positive"
        if sample.steps is None:
            return
        arrays = arrays_of(sample.steps)
        transitions = arrays_of(buffer.transitions(rows))
        assert arrays.keys() == transitions.keys(), "steps must have the parts of buffer.transitions(rows)"
        for name, array in arrays.items():
            expected = transitions[name]
            assert array.dtype == expected.dtype, name
            assert array.shape == expected.shape, name
            if name not in self.changed:
                np.testing.assert_array_equal(array, expected, f"{name} changed; `changed` does not name it")


class History:
    """Fills a replay buffer with random episodes, some agents at a time, and draws from it as a trainer does."""

    def __init__(self, sampler: ReplaySampler, behavior: BehaviorSpec, seed: int) -> None:
        self.sampler = sampler
        self.behavior = behavior
        rows = ROWS_PER_SLOT * behavior.slots
        self.buffer = ReplayBuffer(behavior, rows, sampler.priority_alpha)
        self.random = np.random.default_rng(seed)
        self.step = 0
        self.episode = np.zeros(self.buffer.capacity, np.int64)  # of each row
        self.current: NDArray[np.int64] = np.arange(behavior.slots)  # episode of each slot, no two alike
        self.ends: set[str] = set()
        self.buffer.begin(self._batch(first=True))

    def resumed(self, sampler: ReplaySampler, state: Mapping[str, Any]) -> History:
        """Return a copy whose sampler and buffer are loaded from ``state``."""
        other = deepcopy(self)
        other.sampler = sampler
        other.buffer = ReplayBuffer(self.behavior, self.buffer.capacity, sampler.priority_alpha)
        other.buffer.load_state_dict(state["buffer"])
        sampler.require_fit(state["sampler"])
        sampler.load_state_dict(state["sampler"])
        return other

    def steps(self, count: int) -> Iterator[int]:
        """Take ``count`` environment steps; after each one the buffer holds a transition."""
        behavior = self.behavior
        branches = (behavior.slots, len(behavior.discrete))
        parts = (behavior.slots, behavior.continuous)
        for _ in range(count):
            self.episode[self.buffer.head] = self.current
            choices = self.random.integers(behavior.discrete, size=branches)
            raw = self.random.uniform(-1, 1, parts).astype(np.float32)
            self.buffer.act(raw, choices)
            batch = self._batch(first=False)
            self.buffer.observe(batch)
            self.step += 1
            yield self.step

    def sample(self, size: int, generator: np.random.Generator) -> Sample:
        progress = min(1.0, self.step / (3 * ROWS_PER_SLOT))
        return self.sampler.sample(self.buffer, size, generator, progress)

    def learn(self, sample: Sample) -> None:
        """Pass temporal-difference errors to the sampler if it uses them."""
        if self.sampler.uses_td_errors:
            angles = sample.rows + self.step
            errors = np.cos(angles).astype(np.float32)
            self.sampler.learned(self.buffer, sample.rows, errors)

    def draw(self, size: int, generator: np.random.Generator) -> dict[str, Any]:
        """Sample and learn; return the arrays of the sample."""
        sample = self.sample(size, generator)
        self.learn(sample)
        steps = {} if sample.steps is None else arrays_of(sample.steps)
        return {"rows": sample.rows, "weight": sample.weight, **steps}

    def met_every_end(self) -> bool:
        return self.ends == set(ENDS)

    def _batch(self, first: bool) -> AgentBatch:
        slots = self.behavior.slots
        begins = first or self.step == 0  # the first step closes a transition of every slot
        ends: NDArray[np.int64] = np.zeros(slots, np.int64)  # 0: goes on; 1 to 3: the flag of ENDS
        if not begins:
            ends = self.random.choice(4, size=slots, p=(0.7, 0.1, 0.1, 0.1))
        flags = {}
        for number, name in enumerate(ENDS, 1):
            ended = ends == number
            flags[name] = ended
            if ended.any():
                self.ends.add(name)
        closed = ends != 0
        self.current[closed] += slots
        # Agents wait in a fifth of the steps, but where a transition closes.
        acts = self.random.random(slots) < 0.8
        acts = acts | closed | begins
        earned = self.random.standard_normal(slots)
        reward = np.where(acts, earned, 0.0).astype(np.float32)
        observations = random_observations(self.behavior, slots, self.random)
        batch = AgentBatch(observations, reward, needs_action=acts, **flags)
        count = batch.ended.size
        if count:
            batch.final_observations = random_observations(self.behavior, count, self.random)
        return batch


def stored(buffer: ReplayBuffer) -> Any:
    """Return a copy of everything in the buffer but priorities, which samplers change."""
    parts = buffer.state_dict()
    parts.pop("priorities", None)
    return copied(parts)


def arrays_of(steps: Steps) -> dict[str, NDArray[Any]]:
    """Return the arrays of ``steps`` by name: ``reward``, ``observations/vector``, ..."""
    arrays: dict[str, NDArray[Any]] = {}
    for field, value in attrs.asdict(steps, recurse=False).items():
        if isinstance(value, Mapping):
            for name, array in value.items():
                arrays[f"{field}/{name}"] = array
        elif value is not None:
            arrays[field] = value
    return arrays


def shares_memory(array: NDArray[Any], buffer: ReplayBuffer) -> bool:
    columns = [buffer.raw, buffer.choices, buffer.reward, buffer.flags]
    columns += buffer.observations.values()
    return any(np.may_share_memory(array, column) for column in columns)
