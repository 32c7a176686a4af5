"""Random histories, told to the buffer and to a plain list of transitions that keeps everything twice."""

from __future__ import annotations

import copy
from typing import Any

import attrs
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from replay_stories import ALPHA, History, Plain, Story, histories

from rlcore import SharedPart
from rlcore_devkit.conformance.states import assert_equal
from rlcore_torch import ReplayBuffer
from rlcore_torch.off_policy import replay_segments
from rlcore_torch.off_policy.priorities import EPSILON

ENOUGH = 6000  # uniform draws that leave out none of at most 64 transitions


def tell_priorities(buffer: ReplayBuffer, plain: Plain, random: np.random.Generator) -> None:
    rows = np.unique(buffer.sample(3, random))
    errors = random.normal(size=len(rows)) * 3
    buffer.set_priorities(rows, errors)
    kept = plain.kept()
    for where, error in zip(buffer.transitions(rows).observations["where"].tolist(), errors, strict=True):
        found = kept[tuple(where)]
        priority = (abs(error) + EPSILON) ** ALPHA
        plain.transitions[found["slot"]][found["number"]]["priority"] = priority
        plain.largest = max(plain.largest, priority)


def compare(buffer: ReplayBuffer, plain: Plain, seed: int) -> None:
    kept = plain.kept()
    assert len(buffer) == len(kept)
    if not kept:
        with pytest.raises(ValueError, match="holds no transition"):
            buffer.sample(1, np.random.default_rng(0))
        return
    rows = np.unique(buffer.sample(ENOUGH, np.random.default_rng(seed)))
    steps = buffer.transitions(rows)
    places = [tuple(where) for where in steps.observations["where"].tolist()]
    assert sorted(places) == sorted(kept)
    assert (steps.masks is None) == (steps.next_masks is None) == (not plain.had_masks)
    assert (steps.group_reward is None) == (not plain.had_groups)
    for b, place in enumerate(places):
        want = kept[place]
        for name in ("where", "seen"):
            np.testing.assert_array_equal(steps.observations[name][b], want["own"][name])
            np.testing.assert_array_equal(steps.next_observations[name][b], want["next"][name])
        own = want["own"]["where"]
        following = want["next"]["where"]
        assert own[0] == following[0] and own[1] == following[1] and own[2] < following[2]
        np.testing.assert_array_equal(steps.raw[b], want["raw"])
        np.testing.assert_array_equal(steps.choices[b], want["choices"])
        assert steps.reward[b] == want["reward"]
        assert (steps.terminated[b], steps.truncated[b]) == (want["terminated"], want["truncated"])
        if steps.masks is not None and steps.next_masks is not None:
            np.testing.assert_array_equal(steps.masks[b], want["own"]["mask"])
            np.testing.assert_array_equal(steps.next_masks[b], want["next"]["mask"])
        if steps.group_reward is not None:
            assert steps.group_reward[b] == want["group_reward"]
    if buffer.priorities is not None:
        drawn, weights = buffer.sample_prioritized(64, np.random.default_rng(seed), 0.5)
        assert np.isin(drawn, rows).all() and weights.max() == 1.0
        want_leaves = [kept[place]["priority"] for place in places]
        np.testing.assert_allclose(buffer.priorities.tree.leaves[rows], want_leaves, rtol=1e-12)
        assert buffer.priorities.tree.total == pytest.approx(sum(want_leaves), rel=1e-12)


@settings(deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(histories)
def test_the_buffer_holds_what_a_plain_list_of_transitions_holds(history: History) -> None:
    buffer = history.buffer()
    plain = Plain(history)
    story = Story(history)
    random = np.random.default_rng(history.seed + 1)
    for step in range(history.steps):
        story.tell(buffer, plain)
        if history.prioritized and len(buffer) and step % 3 == 0:
            tell_priorities(buffer, plain, random)
        if step % 23 == 7:
            compare(buffer, plain, step)
    compare(buffer, plain, history.seed)


@settings(deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(histories, st.integers(0, 60))
def test_a_saved_buffer_goes_on_as_the_one_it_was_saved_from(history: History, saved_at: int) -> None:
    """Loaded into a new buffer and into one that is full of another history, of which nothing may matter."""
    whole = history.buffer()
    new = history.buffer()
    used = history.buffer()
    story = Story(history)
    other = Story(attrs.evolve(history, seed=history.seed + 1, masks=0.5, groups=0.5))
    for _ in range(40):
        other.tell(used)
    saved_at = min(saved_at, history.steps)
    for _ in range(saved_at):
        story.tell(whole)
    new.load_state_dict(copy.deepcopy(whole.state_dict()))
    used.load_state_dict(copy.deepcopy(whole.state_dict()))
    buffers = (whole, new, used)
    for step in range(saved_at, history.steps + 2):
        assert_equal(new.state_dict(), whole.state_dict())
        assert len({len(buffer) for buffer in buffers}) == 1
        if len(whole):
            errors = story.random.normal(size=4)
            first, *others = [draw(buffer, step, errors) for buffer in buffers]
            for drawn in others:
                assert_equal(first, drawn)
        story.tell(*buffers)


def draw(buffer: ReplayBuffer, seed: int, errors: np.ndarray) -> dict[str, Any]:
    """All that can be read, the same for the same seed; changes priorities on the way."""
    random = np.random.default_rng(seed)
    rows = buffer.sample(5, random)
    stretches = buffer.stretches(rows, 3)
    found = {"rows": rows, **dict(enumerate(stretches)), **attrs.asdict(buffer.transitions(rows, stretches[2]))}
    if buffer.priorities is not None:
        found["drawn"], found["weights"] = buffer.sample_prioritized(5, random, 0.4)
        if seed % 2:
            buffer.set_priorities(rows[:4], errors)
        found["total"] = buffer.priorities.tree.total
    return found


# ---------------------------------------------------------------- segments of checkpoints


@settings(deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(histories, st.integers(1, 9), st.floats(0.02, 1.0), st.booleans())
def test_a_segment_that_is_kept_has_the_rows_of_the_buffer(
    history: History, rows: int, saved: float, rewrites: bool
) -> None:
    """States are taken at random times; segments of up to ``rows`` positions, rows that are rewritten in some runs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(replay_segments, "SEGMENT_BYTES", history.buffer().nbytes_of_row * history.slots * rows)
        buffer = history.buffer()
    story = Story(history)
    random = np.random.default_rng(history.seed)
    kept: dict[int, tuple[SharedPart, Any]] = {}  # by id, with the object: an id may be used again
    for _ in range(history.steps):
        story.tell(buffer)
        if rewrites and random.random() < 0.1 and buffer.filled > 1:
            changed = random.integers(buffer.filled, size=2)
            buffer.rewrite(changed, reward=random.normal(size=2).astype(np.float32))
        if random.random() >= saved:
            continue
        segments = buffer.state_dict()["segments"]
        assert sum(len(each["flags"]) for each in segments) == buffer.filled
        kept = {id(each): kept.get(id(each), (each, copy.deepcopy(dict(each)))) for each in segments}
        for part, before in kept.values():
            assert_equal(part, before, "a row of a segment that is not written again has changed")
        again = buffer.state_dict()["segments"]
        heads = {int(row) // buffer.state_dict()["segment_rows"] for row in buffer.head}
        assert all(each is other for k, (each, other) in enumerate(zip(segments, again, strict=True))
                   if not heads & {k, (k + 1) % len(segments)})  # fmt: skip
