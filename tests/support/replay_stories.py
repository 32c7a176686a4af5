"""Random histories for a replay buffer, and a plain model of it: lists of transitions that keep everything twice.

Observations say slot, episode and step, so that a transition that joins what does not belong together shows itself.
What an environment does not promise to fill, and what the buffer must not read, is NaN.
"""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np
from hypothesis import strategies as st

from rlcore import AgentBatch, BehaviorSpec, ObservationSpec
from rlcore_torch import ReplayBuffer

ALPHA = 0.7


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

    @property
    def behavior(self) -> BehaviorSpec:
        return BehaviorSpec(
            "Agent",
            (ObservationSpec("where", (3,), np.float32), ObservationSpec("seen", (2, 2), np.uint8)),
            continuous=1,
            discrete=(3, 2),
            low=np.zeros(1, np.float32),
            high=np.full(1, 4.0, np.float32),
            env_index=np.arange(self.slots),
        )

    def buffer(self) -> ReplayBuffer:
        return ReplayBuffer(self.behavior, self.slots * self.rows, ALPHA if self.prioritized else None)


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
            self.follow(slot)

    def follow(self, slot: int) -> None:
        """The agent has not acted since its last transition: it acts on the current observation next."""
        if self.transitions[slot] and self.current[slot] is not None:
            self.transitions[slot][-1]["then"] = self.current[slot]

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
            current = self.current[slot]
            action = self.action[slot]
            ended = bool(batch.terminated[slot] or batch.truncated[slot])
            self.action[slot] = (
                action if batch.transition_closed is not None and not batch.transition_closed[slot] else None
            )
            self.see(slot, batch)
            if action is None:
                self.follow(slot)
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
                    "then": self.current[slot],  # what the agent acts on next
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
        history = self.history
        random = self.random
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
        raw = np.sin(np.arange(self.acted, self.acted + slots, dtype=np.float32))[:, None]
        choices = self.random.integers([3, 2], size=(slots, 2))
        self.acted += slots
        for listener in listeners:
            listener.act(raw, choices)
        batch = self.batch(first=False)
        closed = [listener.observe(batch) for listener in listeners]
        assert len(set(closed)) == 1
