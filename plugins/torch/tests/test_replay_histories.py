"""Random histories, told to the buffer and to a plain list of transitions that keeps everything twice.

Observations say slot, episode and step, so that a transition that joins what does not belong together shows itself.
What an environment does not promise to fill, and what the buffer must not read, is NaN.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rlcore import AgentBatch, BehaviorSpec, ObservationSpec, SharedPart
from rlcore_torch import ReplayBuffer
from rlcore_torch.off_policy import replay_segments
from rlcore_torch.off_policy.priorities import EPSILON

ALPHA = 0.7
ENOUGH = 6000  # uniform draws that leave out none of at most 64 transitions


@attrs.define
class History:
    """How one random history runs; probabilities are per slot and step."""

    seed: int
    slots: int
    rows: int  # per slot
    steps: int
    end: float
    abort: float
    begin: float  # per step
    idle: float  # a slot that needs no action
    masks: float  # steps that bring a mask
    groups: float
    prioritized: bool

    def buffer(self) -> ReplayBuffer:
        spec = BehaviorSpec(
            "Agent",
            (ObservationSpec("where", (3,), np.float32), ObservationSpec("seen", (2, 2), np.uint8)),
            continuous=1,
            discrete=(3, 2),
            env_index=np.arange(self.slots),
        )
        return ReplayBuffer(spec, self.slots * self.rows, ALPHA if self.prioritized else None)


histories = st.builds(
    History,
    seed=st.integers(0, 2**32),
    slots=st.integers(1, 4),
    rows=st.integers(4, 16),
    steps=st.integers(0, 90),
    end=st.sampled_from([0.0, 0.1, 0.5, 1.0]),
    abort=st.sampled_from([0.0, 0.1, 0.3]),
    begin=st.sampled_from([0.0, 0.05, 0.3]),
    idle=st.sampled_from([0.0, 0.2, 0.7]),
    masks=st.sampled_from([0.0, 0.5, 1.0]),
    groups=st.sampled_from([0.0, 0.5, 1.0]),
    prioritized=st.booleans(),
)


class Plain:
    """A plain model of a replay buffer: per slot a list of transitions, each with its own copy of its data."""

    def __init__(self, history: History) -> None:
        slots = range(history.slots)
        self.rows = history.rows
        self.transitions: list[list[dict[str, Any]]] = [[] for _ in slots]
        self.current: list[dict[str, Any] | None] = [None for _ in slots]
        self.action: list[dict[str, Any] | None] = [None for _ in slots]
        self.row = [0 for _ in slots]  # of the current observation, counted without end
        self.episode = [0 for _ in slots]
        self.had_masks = self.had_groups = False
        self.largest = 1.0

    def cut(self, slot: int) -> None:
        if self.transitions[slot] and self.transitions[slot][-1]["episode"] == self.episode[slot]:
            self.transitions[slot][-1]["truncated"] = True
            self.row[slot] += 1
        self.episode[slot] += 1
        self.action[slot] = None

    def see(self, slot: int, batch: AgentBatch) -> None:
        if batch.needs_action is not None and not batch.needs_action[slot]:
            self.current[slot] = None if self.action[slot] is None else self.current[slot]
            return
        mask = np.ones(5, np.bool_) if batch.action_mask is None else batch.action_mask[slot].copy()
        self.current[slot] = {**{name: a[slot].copy() for name, a in batch.observations.items()}, "mask": mask}

    def begin(self, batch: AgentBatch) -> None:
        self.had_masks |= batch.action_mask is not None
        for slot in range(len(self.row)):
            self.cut(slot)
            self.see(slot, batch)

    def act(self, raw: np.ndarray, choices: np.ndarray) -> None:
        for slot in range(len(self.row)):
            if self.current[slot] is not None and self.action[slot] is None:
                self.action[slot] = {"raw": raw[slot].copy(), "choices": choices[slot].copy()}

    def observe(self, batch: AgentBatch) -> int:
        final_mask = batch.final_action_mask  # stored with the transitions that close; others are not
        self.had_masks |= batch.action_mask is not None or final_mask is not None
        self.had_groups |= batch.group_reward is not None
        closed = 0
        for slot in range(len(self.row)):
            if batch.aborted is not None and batch.aborted[slot]:
                self.cut(slot)
            current, action = self.current[slot], self.action[slot]
            ended = bool(batch.terminated[slot] or batch.truncated[slot])
            self.action[slot] = (
                action if batch.transition_closed is not None and not batch.transition_closed[slot] else None
            )
            self.see(slot, batch)
            if action is None or self.action[slot] is not None:
                continue
            assert current is not None
            following = self.current[slot]
            if ended:
                assert batch.final_observations is not None
                place = list(batch.ended).index(slot)
                following = {name: array[place].copy() for name, array in batch.final_observations.items()}
                final_mask = batch.final_action_mask
                following["mask"] = np.ones(5, np.bool_) if final_mask is None else final_mask[place].copy()
            self.transitions[slot].append(
                {
                    "own": current,
                    "next": following,
                    **action,
                    "reward": batch.reward[slot],
                    "group_reward": 0.0 if batch.group_reward is None else batch.group_reward[slot],
                    "terminated": bool(batch.terminated[slot]),
                    "truncated": bool(batch.truncated[slot]),
                    "episode": self.episode[slot],
                    "row": self.row[slot],
                    "priority": self.largest,
                }
            )
            closed += 1
            self.row[slot] += 2 if ended else 1
            self.episode[slot] += ended
        return closed

    def kept(self) -> dict[tuple[float, ...], dict[str, Any]]:
        """Transitions still in the rings, by where they began."""
        found = {}
        for slot, transitions in enumerate(self.transitions):
            for number, transition in enumerate(transitions):
                if transition["row"] > self.row[slot] - self.rows:
                    found[tuple(transition["own"]["where"].tolist())] = {**transition, "slot": slot, "number": number}
        return found

    def stretch(self, transition: dict[str, Any], n: int) -> list[dict[str, Any]]:
        walked = []
        for other in self.transitions[transition["slot"]][transition["number"] :][:n]:
            if other["episode"] != transition["episode"]:
                break
            walked.append(other)
        return walked


class Story:
    """The environment's side of a history, one step at a time, for any number of listeners."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.random = np.random.default_rng(history.seed)
        self.episode = np.zeros(history.slots)
        self.step = np.zeros(history.slots)
        self.acted = 0

    def seen(self, idle: np.ndarray | None) -> dict[str, np.ndarray]:
        where = np.stack([np.arange(len(self.step)), self.episode, self.step], 1).astype(np.float32)
        pixels = (where @ np.array([[3, 5, 7, 11]] * 3) % 251).reshape(-1, 2, 2).astype(np.uint8)
        if idle is not None:
            where[idle], pixels[idle] = np.nan, 255
        return {"where": where, "seen": pixels}

    def batch(self, first: bool) -> AgentBatch:
        history, random = self.history, self.random
        slots = history.slots
        needs = random.random(slots) >= history.idle if history.idle and random.random() < 0.8 else None
        over = (random.random(slots) < history.end) & (not first)
        aborted = None
        if history.abort and not first and random.random() < 0.6:
            aborted = (random.random(slots) < history.abort) & ~over
        kind = random.integers(3, size=slots)  # terminated, truncated, both
        self.step += 1
        final = {name: array[over] for name, array in self.seen(None).items()}
        renewed = np.ones(slots, np.bool_) if first else over | (False if aborted is None else aborted)
        self.episode[renewed] += 1
        self.step[renewed] = 0
        reward, group = random.random((2, slots)).astype(np.float32)
        unread = np.zeros(slots, np.bool_) if needs is None else ~needs
        reward[unread & ~over] = group[unread & ~over] = np.nan
        mask = random.random((slots, 5)) < 0.6 if random.random() < history.masks else None
        final_mask = None
        if over.any() and random.random() < history.masks:
            final_mask = random.random((int(over.sum()), 5)) < 0.6
        with_group = not first and random.random() < history.groups
        return AgentBatch(
            self.seen(unread),
            reward,
            over & (kind != 1),
            over & (kind != 0),
            final_observations=final if over.any() else None,
            group_reward=group if with_group else None,
            needs_action=needs,
            action_mask=mask,
            aborted=aborted,
            final_action_mask=final_mask,
        )

    def tell(self, *listeners: Any) -> None:
        """One step, or new episodes everywhere."""
        if self.acted == 0 or self.random.random() < self.history.begin:
            self.acted += 1
            batch = self.batch(first=True)
            for listener in listeners:
                listener.begin(batch)
            return
        slots = self.history.slots
        raw = np.arange(self.acted, self.acted + slots, dtype=np.float32)[:, None]
        choices = self.random.integers([3, 2], size=(slots, 2))
        self.acted += slots
        for listener in listeners:
            listener.act(raw, choices)
        batch = self.batch(first=False)
        closed = [listener.observe(batch) for listener in listeners]
        assert len(set(closed)) == 1


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
        own, following = want["own"]["where"], want["next"]["where"]
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
    for n in (1, 2, 3, 20):
        compare_stretches(buffer, plain, rows, [kept[place] for place in places], n)
    if buffer.priorities is not None:
        drawn, weights = buffer.sample_prioritized(64, np.random.default_rng(seed), 0.5)
        assert np.isin(drawn, rows).all() and weights.max() == 1.0
        want_leaves = [kept[place]["priority"] for place in places]
        np.testing.assert_allclose(buffer.priorities.tree.leaves[rows], want_leaves, rtol=1e-12)
        assert buffer.priorities.tree.total == pytest.approx(sum(want_leaves), rel=1e-12)


def compare_stretches(
    buffer: ReplayBuffer, plain: Plain, rows: np.ndarray, starts: list[dict[str, Any]], n: int
) -> None:
    indices, valid, last = buffer.stretches(rows, n)
    own = [buffer.transitions(indices[k]) for k in range(n)]
    end = buffer.transitions(rows, last)
    for b, start in enumerate(starts):
        walked = plain.stretch(start, n)
        assert valid[:, b].tolist() == [k < len(walked) for k in range(n)]
        for k, step in enumerate(walked):
            np.testing.assert_array_equal(own[k].observations["where"][b], step["own"]["where"])
            assert own[k].reward[b] == step["reward"]
        assert (indices[len(walked) - 1 :, b] == last[b]).all()
        np.testing.assert_array_equal(end.observations["where"][b], start["own"]["where"])
        np.testing.assert_array_equal(end.next_observations["where"][b], walked[-1]["next"]["where"])
        assert (end.terminated[b], end.truncated[b]) == (walked[-1]["terminated"], walked[-1]["truncated"])


@settings(deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(histories)
def test_the_buffer_holds_what_a_plain_list_of_transitions_holds(history: History) -> None:
    buffer, plain, story = history.buffer(), Plain(history), Story(history)
    random = np.random.default_rng(history.seed + 1)
    for step in range(history.steps):
        story.tell(buffer, plain)
        if history.prioritized and len(buffer) and step % 3 == 0:
            tell_priorities(buffer, plain, random)
        if step % 23 == 7:
            compare(buffer, plain, step)
    compare(buffer, plain, history.seed)


def same(a: Any, b: Any) -> bool:
    if isinstance(a, Mapping):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and bool(np.array_equal(a, b, equal_nan=a.dtype.kind == "f"))
    return bool(a == b)


@settings(deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(histories, st.integers(0, 60))
def test_a_saved_buffer_goes_on_as_the_one_it_was_saved_from(history: History, saved_at: int) -> None:
    """Loaded into a new buffer and into one that is full of another history, of which nothing may matter."""
    whole, new, used, story = history.buffer(), history.buffer(), history.buffer(), Story(history)
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
        assert same(new.state_dict(), whole.state_dict())
        assert len({len(buffer) for buffer in buffers}) == len({buffer.nbytes for buffer in buffers}) == 1
        if len(whole):
            errors = story.random.normal(size=4)
            first, *others = [draw(buffer, step, errors) for buffer in buffers]
            assert all(same(first, drawn) for drawn in others)
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
    story, random = Story(history), np.random.default_rng(history.seed)
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
            assert same(part, before), "a row of a segment that is not written again has changed"
        again = buffer.state_dict()["segments"]
        heads = {int(row) // buffer.state_dict()["segment_rows"] for row in buffer.head}
        assert all(each is other for k, (each, other) in enumerate(zip(segments, again, strict=True))
                   if not heads & {k, (k + 1) % len(segments)})  # fmt: skip
