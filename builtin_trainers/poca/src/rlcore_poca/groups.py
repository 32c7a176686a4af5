"""Groups of agents: who is there, what an agent's mates see, do and earn, and when the group's episode is over.

A batch of the environment becomes one in which every agent also sees its mates. The rest of a trainer is that of single
agents: it stores these observations as others, and its rules for ends of episodes hold.

- An agent earns its own reward, its mates' and that of the group.
- An agent that terminates while a mate goes on is truncated: what the group earns later is its merit too, so it
  bootstraps from the value of its last observation and those that its mates have after the same step (Cohen et al.
  2022, arXiv:2111.05992). It is terminated if no mate goes on.
- A life that an agent loses (``AgentBatch.life_lost``) is an end of its episode for these rules alone: the value of the
  group continues while a mate goes on, and mates see the agent as before.
- An agent is there from the first step in which it acts to the end of its episode. Between them it may wait for its
  turn.

Shapes: S slots, M places for the mates of an agent, K rows whose episode ended, A numbers of an action.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from rlcore import Actions, AgentBatch, BehaviorSpec, ObservationSpec, saved_array
from rlcore_torch import ActionLayout, lives_as_episodes

__all__ = ["ACTIONS", "MATES", "PRESENT", "Groups"]

# Observations beside those of the agent, by name; no environment has such names.
MATES = "/mates/"  # and the name of an observation: that of each mate, [S, M, *shape]
PRESENT = "/present"  # [S, M] which mates are there
ACTIONS = "/actions"  # [S, M, A] what they do, known once all have chosen


class Groups:
    """The groups of a behavior. Slots with equal numbers in ``BehaviorSpec.group`` in one environment are a group.

    A slot with a negative number is alone, and so is every slot of a behavior without groups.

    Attributes:
        mates: [S, M] slots of the mates of each slot, those that exist first; the slot itself in places that are left.
        exists: [S, M] whether there is a mate in the place.
        most: The number of agents in the largest group.
        alive: [S] whether the agent is there.
        from_mates: [S] what the mates earned since the agent's open transition began.
        latest: [S, A] the latest action of each slot.
    """

    def __init__(self, behavior: BehaviorSpec) -> None:
        self.behavior = behavior
        self.layout = ActionLayout(behavior)
        self.mates, self.exists = mates_of(behavior)
        self.most = 1 + int(self.exists.sum(1).max(initial=0))
        self.alive = np.zeros(behavior.slots, np.bool_)
        self.from_mates = np.zeros(behavior.slots, np.float32)
        self.latest = np.zeros((behavior.slots, self.action_size), np.float32)

    @property
    def action_size(self) -> int:
        """A, the continuous parts of an action and the options of all branches."""
        return self.layout.continuous + self.layout.logits

    def stored(self) -> BehaviorSpec:
        """The behavior of agents that see their mates."""
        places = self.mates.shape[1]
        observations = list(self.behavior.observations)
        for o in self.behavior.observations:
            observations.append(ObservationSpec(MATES + o.name, (places, *o.shape), o.dtype))
        observations.append(ObservationSpec(PRESENT, (places,), np.bool_))
        observations.append(ObservationSpec(ACTIONS, (places, self.action_size), np.float32))
        return attrs.evolve(self.behavior, observations=tuple(observations))

    # ------------------------------------------------------------ what the agents see, do and earn

    def begin(self, batch: AgentBatch) -> AgentBatch:
        """The first batch of new episodes in all slots, with what the mates see."""
        self.alive = _acting(batch).copy()
        self.from_mates[:] = 0.0
        return attrs.evolve(batch, observations=self._with_mates(batch))

    def act(self, actions: Actions, batch: AgentBatch) -> NDArray[np.float32]:
        """Return what the mates of each slot do, [S, M, A]; those that wait for their turn do what they did last."""
        chosen = self._numbers(actions)
        acting = _acting(batch)
        self.latest[acting] = chosen[acting]
        return self.latest[self.mates]

    def observe(self, batch: AgentBatch) -> AgentBatch:
        """The batch after a step, with what the mates see, and rewards and ends as the group has them."""
        there = self.alive & ~batch.terminated  # after the step
        stays = there & ~batch.truncated
        if batch.aborted is not None:
            stays &= ~batch.aborted
        batch = lives_as_episodes(batch)  # a lost life ends a row of its agent; mates still see the agent
        earned = np.where(self.exists, batch.reward[self.mates], np.float32(0))  # [S, M]
        self.from_mates += earned.sum(1)
        # An agent that waits for its turn gets what its mates earned when its transition closes.
        closed: Any = slice(None)
        if batch.transition_closed is not None:
            closed = batch.transition_closed
        reward = batch.reward.copy()
        reward[closed] += self.from_mates[closed]
        self.from_mates[closed] = 0.0
        # Ends depend on who was there in the step, and observations on who acts next.
        batch = self._with_ends(attrs.evolve(batch, reward=reward), there)
        self.alive = _acting(batch) | stays
        return attrs.evolve(batch, observations=self._with_mates(batch))

    def _with_ends(self, batch: AgentBatch, there: NDArray[np.bool_]) -> AgentBatch:
        """The batch with terminations and truncations as the group has them, and what mates see at an end.

        ``there`` [S] are the agents after the step: those that were there and did not terminate. A mate whose time is
        up is where its final observation says.
        """
        if not batch.ended.size or batch.final_observations is None:
            return batch
        ended = batch.ended
        # [K, M]
        mates = self.mates[ended]
        exists = self.exists[ended]
        finals = dict(batch.final_observations)
        for name, array in batch.observations.items():
            reached = array.copy()
            reached[ended] = batch.final_observations[name]
            finals[MATES + name] = reached[mates]
        finals[PRESENT] = there[mates] & exists
        finals[ACTIONS] = np.zeros((*mates.shape, self.action_size), np.float32)
        continues = there & ~batch.terminated  # a life that was lost is terminated here
        mate_continues = continues[mates] & exists
        terminated = batch.terminated.copy()
        terminated[ended] &= ~mate_continues.any(1)
        left_group = batch.terminated & ~terminated
        truncated = batch.truncated | left_group
        return attrs.evolve(batch, terminated=terminated, truncated=truncated, final_observations=finals)

    def _with_mates(self, batch: AgentBatch) -> dict[str, NDArray[Any]]:
        """The observations of all slots, and those of their mates."""
        observations = dict(batch.observations)
        for name, array in batch.observations.items():
            observations[MATES + name] = array[self.mates]
        observations[PRESENT] = self.alive[self.mates] & self.exists
        observations[ACTIONS] = np.zeros((*self.mates.shape, self.action_size), np.float32)
        return observations

    def _numbers(self, actions: Actions) -> NDArray[np.float32]:
        """Actions as numbers [S, A]: continuous parts within [-1, 1] if they are bounded, a 1 for each choice."""
        layout = self.layout
        numbers = np.zeros_like(self.latest)
        if actions.continuous is not None:
            numbers[:, : layout.continuous] = layout.to_raw(actions.continuous)
        if actions.discrete is not None:
            first = layout.continuous + np.array(layout.offsets)  # the column of each branch's first option
            columns = first + actions.discrete
            np.put_along_axis(numbers, columns, 1.0, axis=1)
        return numbers

    # ------------------------------------------------------------ state

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the groups, as a checkpoint stores it."""
        return {name: array.copy() for name, array in self._saved().items()}

    def require_fit(self, state: Mapping[str, Any]) -> None:
        """Raise RunStateError for the state of other groups."""
        for name, array in self._saved().items():
            saved_array(state, name, array.dtype, array.shape)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from :meth:`state_dict`."""
        for name, array in self._saved().items():
            array[:] = state[name]

    def _saved(self) -> dict[str, NDArray[Any]]:
        """What a checkpoint has, by the names that it has there."""
        return {"alive": self.alive, "owed": self.from_mates, "acted": self.latest}


def _acting(batch: AgentBatch) -> NDArray[np.bool_]:
    """[S] the slots that act next."""
    if batch.needs_action is not None:
        return batch.needs_action
    return np.ones(len(batch.reward), np.bool_)


def mates_of(behavior: BehaviorSpec) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """``mates`` and ``exists`` of :class:`Groups`; one place is left empty if no agent has a mate."""
    slots = np.arange(behavior.slots)
    members: dict[tuple[int, int], list[int]] = {}  # by environment and group
    if behavior.group is not None:
        for slot, group in enumerate(behavior.group.tolist()):
            environment = int(behavior.env_index[slot])
            if group >= 0:
                members.setdefault((environment, group), []).append(slot)
    largest = max([2, *map(len, members.values())])
    mates = np.repeat(slots[:, None], largest - 1, axis=1)
    exists = np.zeros(mates.shape, np.bool_)
    for group_slots in members.values():
        for slot in group_slots:
            others = [other for other in group_slots if other != slot]
            count = len(others)
            mates[slot, :count] = others
            exists[slot, :count] = True
    return mates, exists
