"""The replay buffer's promises one by one; test_replay_histories.py has what random histories make of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rlcore import (
    AgentBatch,
    BehaviorSpec,
    ConfigError,
    ObservationSpec,
    RunStateError,
    load_checkpoint,
    save_checkpoint,
)
from rlcore_torch import ReplayBuffer

VECTOR = ObservationSpec("vector", (17,), np.float32)
IMAGE = ObservationSpec("image", (12, 10, 3), np.uint8, kind="image")


def behavior(
    *observations: ObservationSpec, slots: int = 2, continuous: int = 6, discrete: tuple[int, ...] = ()
) -> Any:
    return BehaviorSpec(
        "Agent", observations or (VECTOR,), continuous=continuous, discrete=discrete, env_index=np.arange(slots)
    )


def batch(spec: BehaviorSpec, value: float, terminated: Any = False, truncated: Any = False, **more: Any) -> AgentBatch:
    """Everything is ``value``; what an agent saw last is ``value + 0.5``, or 100 for integers."""
    flags = [np.array(np.broadcast_to(flag, spec.slots), np.bool_) for flag in (terminated, truncated)]
    made = AgentBatch(
        {o.name: np.full((spec.slots, *o.shape), value, o.dtype) for o in spec.observations},
        np.full(spec.slots, value, np.float32),
        *flags,
        **more,
    )
    made.final_observations = {
        o.name: np.full((len(made.ended), *o.shape), value + 0.5 if o.dtype.kind == "f" else 100, o.dtype)
        for o in spec.observations
    }
    return made


def play(buffer: ReplayBuffer, steps: int, ends: float = 0.0, seed: int = 0) -> None:
    spec, random = buffer.behavior, np.random.default_rng(seed)
    buffer.begin(batch(spec, 0))
    for step in range(1, steps + 1):
        buffer.act(
            np.full((spec.slots, spec.continuous), step, np.float32),
            random.integers(spec.discrete, size=(spec.slots, len(spec.discrete))) if spec.discrete else None,
        )
        buffer.observe(batch(spec, step % 200, random.random(spec.slots) < ends))


# ---------------------------------------------------------------- sampling


@pytest.mark.parametrize("steps", [25, 300])  # in part filled, and overwritten many times
def test_every_transition_is_sampled_equally_often(steps: int) -> None:
    buffer = ReplayBuffer(behavior(slots=3), 120)
    play(buffer, steps, ends=0.3)
    draws = np.bincount(
        np.concatenate([buffer.sample(256, np.random.default_rng(k)) for k in range(400)]), minlength=120
    )
    counts = draws[draws > 0]
    assert len(counts) == len(buffer) < 120
    expected = 400 * 256 / len(counts)
    statistic = ((counts - expected) ** 2 / expected).sum()
    freedom = len(counts) - 1
    assert abs(statistic - freedom) < 4 * np.sqrt(2 * freedom)  # chi-square: mean k, variance 2k


def test_slots_that_act_rarely_do_not_weigh_more() -> None:
    spec = behavior(slots=4)
    buffer = ReplayBuffer(spec, 400)
    needs = np.array([True, False, False, False])
    buffer.begin(batch(spec, 0))
    for step in range(1, 80):
        buffer.act(np.zeros((4, 6), np.float32), None)
        buffer.observe(batch(spec, step, needs_action=needs if step % 20 else None))
    rows = np.concatenate([buffer.sample(256, np.random.default_rng(k)) for k in range(40)])
    counts = np.bincount(rows)[np.unique(rows)]
    assert len(counts) == len(buffer) == 79 + 3 * 3
    assert counts.min() > 0.5 * counts.mean() and counts.max() < 1.5 * counts.mean()


def test_equal_generators_draw_equal_rows() -> None:
    buffer = ReplayBuffer(behavior(), 64)
    play(buffer, 50, ends=0.2)
    first, second = (buffer.sample(32, np.random.default_rng(5)) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert len(first) == 32 and first.dtype == np.int64


def test_nothing_can_be_sampled_before_a_transition_closed() -> None:
    spec = behavior()
    buffer = ReplayBuffer(spec, 64, priority_alpha=0.5)
    buffer.begin(batch(spec, 0))
    buffer.act(np.zeros((2, 6), np.float32), None)
    assert len(buffer) == 0
    with pytest.raises(ValueError, match=r"'Agent'.*no transition"):
        buffer.sample(4, np.random.default_rng(0))
    with pytest.raises(ValueError, match=r"'Agent'.*no transition"):
        buffer.sample_prioritized(4, np.random.default_rng(0), 0.4)


def test_priorities_need_a_buffer_made_with_them() -> None:
    buffer = ReplayBuffer(behavior(), 64)
    play(buffer, 5)
    with pytest.raises(ValueError, match="priority_alpha"):
        buffer.sample_prioritized(4, np.random.default_rng(0), 0.4)
    with pytest.raises(ValueError, match="priority_alpha"):
        buffer.set_priorities(np.array([0]), np.array([1.0]))


# ---------------------------------------------------------------- writing


def test_a_cut_transition_bootstraps_from_what_was_current() -> None:
    spec = behavior(slots=1)
    buffer = ReplayBuffer(spec, 16)
    play(buffer, 3)
    buffer.begin(batch(spec, 77))
    buffer.act(np.zeros((1, 6), np.float32), None)
    buffer.observe(batch(spec, 78))
    steps = buffer.transitions(np.unique(buffer.sample(200, np.random.default_rng(0))))
    assert steps.observations["vector"][:, 0].tolist() == [0, 1, 2, 77]
    assert steps.next_observations["vector"][:, 0].tolist() == [1, 2, 3, 78]
    assert steps.truncated.tolist() == [False, False, True, False] and not steps.terminated.any()


def test_what_was_open_when_its_copy_was_lost_is_dropped() -> None:
    spec = behavior(slots=2)
    buffer = ReplayBuffer(spec, 32)
    play(buffer, 2)
    buffer.act(np.zeros((2, 6), np.float32), None)
    assert buffer.observe(batch(spec, 9, aborted=np.array([True, False]))) == 1
    steps = buffer.transitions(np.unique(buffer.sample(200, np.random.default_rng(0))))
    assert sorted(zip(steps.next_observations["vector"][:, 0], steps.truncated, strict=True)) == [
        (1, False), (1, False), (2, False), (2, True), (9, False),
    ]  # fmt: skip


def test_an_environment_that_gives_no_final_observation_is_refused() -> None:
    spec = behavior()
    buffer = ReplayBuffer(spec, 32)
    buffer.begin(batch(spec, 0))
    buffer.act(np.zeros((2, 6), np.float32), None)
    ended = batch(spec, 1, terminated=True)
    ended.final_observations = None
    with pytest.raises(ValueError, match="final_observations"):
        buffer.observe(ended)


@pytest.mark.parametrize(("slots", "buffer_size"), [(1, 3), (1, 0), (8, 31)])
def test_a_buffer_of_fewer_than_four_rows_an_agent_is_refused(slots: int, buffer_size: int) -> None:
    with pytest.raises(ConfigError, match=f"hyperparameters.buffer_size: must be at least {4 * slots} .*{buffer_size}"):
        ReplayBuffer(behavior(slots=slots), buffer_size)


@pytest.mark.parametrize(
    ("discrete", "dtype"), [((2,), np.uint8), ((256, 3), np.uint8), ((257,), np.uint16), ((3, 70_000), np.uint32)]
)
def test_choices_are_kept_in_the_smallest_integers_and_come_back_whole(discrete: tuple[int, ...], dtype: Any) -> None:
    spec = behavior(slots=1, continuous=0, discrete=discrete)
    buffer = ReplayBuffer(spec, 8)
    buffer.begin(batch(spec, 0))
    largest = np.array([[options - 1 for options in discrete]])
    buffer.act(None, largest)
    buffer.observe(batch(spec, 1))
    assert buffer.choices.dtype == dtype
    kept = buffer.transitions(buffer.sample(1, np.random.default_rng(0))).choices
    np.testing.assert_array_equal(kept, largest)
    assert kept.dtype == np.int64


# ---------------------------------------------------------------- memory


@pytest.mark.parametrize("slots", [1, 3, 64])
@pytest.mark.parametrize("observation", [VECTOR, IMAGE])
def test_memory_is_one_copy_of_what_is_stored(observation: ObservationSpec, slots: int) -> None:
    rows = 1_000_000 if observation is VECTOR else 50_000
    buffer = ReplayBuffer(behavior(observation, slots=slots), rows)
    one_copy = rows * (observation.size * observation.dtype.itemsize + 6 * 4 + 4 + 1)  # actions, reward, flags
    assert 1.0 <= buffer.nbytes / one_copy <= 1.05
    play(buffer, 30, ends=0.3)
    assert buffer.nbytes / one_copy <= 1.05


def test_images_stay_bytes() -> None:
    buffer = ReplayBuffer(behavior(IMAGE), 32)
    play(buffer, 20, ends=0.2)
    steps = buffer.transitions(buffer.sample(8, np.random.default_rng(0)))
    for array in (buffer.observations["image"], steps.observations["image"], steps.next_observations["image"]):
        assert array.dtype == np.uint8
    assert steps.observations["image"].shape == (8, 12, 10, 3)


# ---------------------------------------------------------------- state


def test_a_checkpoint_takes_the_rows_in_use_and_copies_nothing() -> None:
    buffer = ReplayBuffer(behavior(slots=4), 4000, priority_alpha=0.6)
    play(buffer, 100)
    for used, steps in ((404, 0), (4000, 1200)):
        play(buffer, steps)
        state = buffer.state_dict()
        (segment,) = state["segments"]
        arrays = [segment["observations"]["vector"], segment["raw"], segment["reward"], segment["flags"]]
        own = [buffer.observations["vector"], buffer.raw, buffer.reward, buffer.flags]
        for array, whole in zip(arrays, own, strict=True):
            assert np.shares_memory(array, whole) and array.flags.c_contiguous
            assert len(array) == pytest.approx(used, abs=8)  # `play` cuts, which takes a row


def test_a_buffer_goes_through_a_checkpoint(tmp_path: Any) -> None:
    spec = behavior(VECTOR, IMAGE, slots=3, discrete=(300, 4))
    buffer, loaded = (ReplayBuffer(spec, 200, priority_alpha=0.6) for _ in range(2))
    buffer.begin(batch(spec, 0, action_mask=np.ones((3, 304), np.bool_)))
    play(buffer, 150, ends=0.1)
    rows, _ = buffer.sample_prioritized(20, np.random.default_rng(1), 0.4)
    buffer.set_priorities(rows, np.linspace(0, 3, 20))
    path = save_checkpoint(tmp_path, 1, {"buffer": buffer.state_dict()})
    loaded.load_state_dict(load_checkpoint(path)["buffer"])
    (rows, weights), (again, weights_again) = (
        b.sample_prioritized(50, np.random.default_rng(2), 0.4) for b in (buffer, loaded)
    )
    np.testing.assert_array_equal(again, rows)
    np.testing.assert_array_equal(weights_again, weights)
    a, b = buffer.transitions(rows), loaded.transitions(rows)
    for name in ("vector", "image"):
        np.testing.assert_array_equal(a.next_observations[name], b.next_observations[name])
    np.testing.assert_array_equal(a.choices, b.choices)


@pytest.mark.parametrize(
    ("other", "buffer_size", "alpha", "named"),
    [
        (behavior(slots=3), 64, None, "slots"),
        (behavior(), 66, None, "buffer_size"),
        (behavior(IMAGE), 64, None, "observations"),
        (behavior(ObservationSpec("vector", (17,), np.float64)), 64, None, "observations"),
        (behavior(continuous=5), 64, None, "actions"),
        (behavior(), 64, 0.5, "priority_alpha"),
    ],
)
def test_the_state_of_another_buffer_is_refused_before_anything_changes(
    other: BehaviorSpec, buffer_size: int, alpha: float | None, named: str
) -> None:
    saved = ReplayBuffer(behavior(), 64)
    play(saved, 20)
    buffer = ReplayBuffer(other, buffer_size, alpha)
    play(buffer, 3)
    before = {name: a.copy() for name, a in buffer.observations.items()}, buffer.flags.copy(), buffer.head.copy()
    with pytest.raises(RunStateError, match=f"'Agent'.*{named}"):
        buffer.load_state_dict(saved.state_dict())
    for name, array in before[0].items():
        np.testing.assert_array_equal(buffer.observations[name], array)
    np.testing.assert_array_equal(buffer.flags, before[1])
    np.testing.assert_array_equal(buffer.head, before[2])
    assert len(buffer) == 3 * other.slots
