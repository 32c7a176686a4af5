"""The agents of one behavior, in all players: which slot each has, and the arrays of what they receive.

An agent has its number for one episode. It gets a free slot with its first decision and keeps it until its episode
ends. The next agent of that player, team and group then gets the slot, often within the same message. S slots.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore import AgentBatch, BehaviorSpec
from rlcore_unity.census import NO_GROUP, Seats
from rlcore_unity.mlagents_messages import DamagedObservation, Sensor
from rlcore_unity.player import Player
from rlcore_unity.seating import NOWHERE, Seating
from rlcore_unity.settings import MAX_AGENTS
from rlcore_workers import PlayerFailed

log = logging.getLogger("rlcore.plugin.unity")


class BehaviorArrays:
    """The arrays of one behavior.

    Attributes:
        spec: The behavior with its slots.
    """

    def __init__(self, spec: BehaviorSpec) -> None:
        self.spec = spec
        slots = spec.slots
        self.observations: dict[str, NDArray[Any]] = {}
        self.finals: dict[str, NDArray[Any]] = {}
        for observation in spec.observations:
            shape = (slots, *observation.shape)
            self.observations[observation.name] = np.zeros(shape, observation.dtype)
            self.finals[observation.name] = np.zeros(shape, observation.dtype)
        self.reward = np.zeros(slots, np.float32)
        self.group_reward = np.zeros(slots, np.float32)
        self.terminated = np.zeros(slots, np.bool_)
        self.truncated = np.zeros(slots, np.bool_)
        self.needs_action = np.zeros(slots, np.bool_)
        self.aborted = np.zeros(slots, np.bool_)
        self.mask = np.ones((slots, spec.mask_size), np.bool_)
        self.final_mask = np.ones((slots, spec.mask_size), np.bool_)
        self.masked = False  # whether an agent ever had a mask
        self._branches = np.cumsum((0, *spec.discrete))[:-1]  # the first option of each

    def begin(self) -> None:
        """Begin a step, in which no agent has received anything yet."""
        for array in (self.reward, self.group_reward, self.terminated, self.truncated, self.needs_action, self.aborted):
            array[:] = 0

    def batch(self) -> AgentBatch:
        """Return what the agents received. The arrays are valid until :meth:`begin`."""
        ended = (self.terminated | self.truncated).nonzero()[0]
        batch = AgentBatch(self.observations, self.reward, self.terminated, self.truncated, ended)
        if ended.size:
            batch.final_observations = {name: array[ended] for name, array in self.finals.items()}
        if not self.needs_action.all():
            batch.needs_action = self.needs_action
        if self.spec.group is not None:
            batch.group_reward = self.group_reward
        if self.aborted.any():
            batch.aborted = self.aborted
        if self.masked:
            batch.action_mask = self.mask
            if ended.size:
                batch.final_action_mask = self.final_mask[ended]
        return batch

    def allow(self, slots: Sequence[int], infos: Sequence[Any], final: bool) -> str | None:
        """Note which options agents may choose; return a problem, or None."""
        size = self.spec.mask_size
        target = self.final_mask if final else self.mask
        for slot, info in zip(slots, infos, strict=True):
            forbidden = info.action_mask
            if not forbidden:
                target[slot] = True
                continue
            if len(forbidden) != size:
                return f"has an action mask of {len(forbidden)} options, and {size} in its branches"
            self.masked = True
            # ML-Agents marks what is forbidden, rlcore what is allowed.
            allowed = ~np.fromiter(forbidden, np.bool_, size)
            empty = ~np.logical_or.reduceat(allowed, self._branches)
            if empty.any() and not final:
                return f"forbids all options of branch {int(empty.argmax())}"
            # Nothing is chosen where an episode ended, so nothing need be allowed there.
            for branch in empty.nonzero()[0].tolist():
                first = self._branches[branch]
                end = first + self.spec.discrete[branch]
                allowed[first:end] = True
            target[slot] = allowed
        return None


class Seated:
    """The agents of one behavior and team in one player.

    Attributes:
        brain: The behavior and team.
        order: The slots of the agents of the latest message that wait for actions, in the player's order.
        without_slot: Agents of the latest message that wait for actions and have no slot, by their place in ``order``.
        moved: How many agents moved to a slot of their group, which they joined after their first decision.
        seats: The places. Agents without one are counted in them: see :attr:`crowded`.
    """

    def __init__(self, player: Player, seats: Seats, arrays: BehaviorArrays, first: int) -> None:
        """The slots begin with ``first``; ``seats`` says how many there are."""
        self.brain = seats.brain
        self.player = player
        self._arrays = arrays
        self._all = np.arange(first, first + len(seats.groups))
        self.seats = seats
        self._warned = False
        self.moved = 0
        self.forget()

    def forget(self) -> None:
        """Have no agents any more: the player was reset."""
        self._slots: dict[int, int] = {}  # by number of agent
        self._seating = Seating(self._all.tolist(), self.seats.groups, self.seats.counted.joins)
        self._homeless: dict[int, int] = {}  # agents that have no slot: their group by number
        self._alone: set[int] = set()  # numbers of agents that were in no group when they got a slot beside groups
        self.order: NDArray[np.intp] = np.zeros(0, np.intp)
        self.without_slot: list[tuple[int, Any]] = []

    def abort(self) -> int:
        """Drop the open episodes of all agents, because the player was lost; return how many there were."""
        arrays = self._arrays
        # Also those that ended in this step: the player was lost before anything learned of their ends.
        lost = arrays.terminated[self._all] | arrays.truncated[self._all]
        occupied = np.fromiter(self._slots.values(), np.intp)
        lost[occupied - self._all[0]] = True
        arrays.aborted[self._all] = lost
        arrays.reward[self._all] = 0
        arrays.group_reward[self._all] = 0
        arrays.terminated[self._all] = False
        arrays.truncated[self._all] = False
        arrays.needs_action[self._all] = False
        self.forget()
        return int(lost.sum())

    def receive(self, infos: Sequence[Any]) -> bool:
        """Take what the agents of a message received; return whether an agent that has a slot waits for an action.

        Raises PlayerFailed for what does not fit the behavior.
        """
        if len(infos) > MAX_AGENTS:
            raise self._failed(f"has {len(infos)} agents in one message; {MAX_AGENTS} are allowed")
        deciding = [info for info in infos if not info.done]
        ended: set[int] = set()  # numbers of agents
        if len(deciding) < len(infos):
            # First, so that the next agents find their slots free.
            done = [info for info in infos if info.done]
            self._end(done)
            ended = {info.id for info in done}
        numbers = [info.id for info in deciding]
        if len(set(numbers)) < len(numbers):
            raise self._failed("lists an agent twice in one message")
        begun = self._join(deciding) if self._alone else set()  # numbers of agents that begin an episode elsewhere
        slots = [self._slots.get(number, NOWHERE) for number in numbers]
        self.without_slot = []
        if NOWHERE in slots or begun:
            self._seat_all(deciding, slots, begun, ended)
        else:
            self._reward(slots, deciding)
        self.order = np.array(slots, np.intp)
        seated = [place for place, slot in enumerate(slots) if slot != NOWHERE]
        if self.without_slot:
            self._decide([slots[place] for place in seated], [deciding[place] for place in seated])
        else:
            self._decide(slots, deciding)
        return bool(seated)

    def _seat_all(self, infos: Sequence[Any], slots: list[int], begun: set[int], ended: set[int]) -> None:
        """Reward agents that had a slot, and give ``slots`` to the others as far as there are some.

        ``begun`` and ``ended`` are numbers of agents: those that have moved, and those whose episode this message ends.
        """
        # A reward that comes with the first decision belongs to no transition of its slot.
        known = [place for place, slot in enumerate(slots) if slot != NOWHERE and infos[place].id not in begun]
        self._reward([slots[place] for place in known], [infos[place] for place in known])
        sizes = Counter(info.group_id for info in infos)
        for place, info in enumerate(infos):
            if slots[place] == NOWHERE and info.id not in ended:
                slots[place] = self._seat(info, sizes[info.group_id])
            if slots[place] == NOWHERE:
                self.without_slot.append((place, info))
                self._note_homeless(info)

    @property
    def crowded(self) -> bool:
        """Whether more places are needed than there are."""
        return self.seats.counted.total > self.places

    def _note_homeless(self, info: Any) -> None:
        """Count all agents that are there, if this one that has no slot is new, or in another group."""
        if self._homeless.get(info.id) == info.group_id or len(self._homeless) + self.places >= MAX_AGENTS:
            return
        self._homeless[info.id] = info.group_id
        here = {number: self._seating.group_of(slot) for number, slot in self._slots.items()}
        here |= dict.fromkeys(self._alone, NO_GROUP)  # whose slots may be those of groups
        here |= self._homeless
        self.seats.counted.recount(here)

    @property
    def places(self) -> int:
        """How many agents can have a slot at once."""
        return len(self._all)

    def _reward(self, slots: list[int], infos: Sequence[Any]) -> None:
        """Note the rewards of agents."""
        if slots:
            self._arrays.reward[slots] = [info.reward for info in infos]
            if self._arrays.spec.group is not None:
                self._arrays.group_reward[slots] = [info.group_reward for info in infos]

    def _decide(self, slots: list[int], infos: Sequence[Any]) -> None:
        """Note what agents see that wait for actions. Raises PlayerFailed."""
        if slots:
            self._observe(slots, infos, final=False)
            self._arrays.needs_action[slots] = True

    def _end(self, infos: Sequence[Any]) -> None:
        """End the episodes of agents. One that never acted had none."""
        arrays = self._arrays
        slots = []
        known = []
        for info in infos:
            slot = self._slots.pop(info.id, None)
            self._alone.discard(info.id)
            self._homeless.pop(info.id, None)
            if slot is None:
                continue
            # ML-Agents: EndEpisode terminates, MaxStep and EpisodeInterrupted set max_step_reached.
            if info.max_step_reached:
                arrays.truncated[slot] = True
            else:
                arrays.terminated[slot] = True
            slots.append(slot)
            known.append(info)
        self._reward(slots, known)
        if slots:
            self._observe(slots, known, final=True)
            for slot in slots:
                self._seating.leave(slot)

    def _join(self, infos: Sequence[Any]) -> set[int]:
        """Note which agents have joined their group since they got a slot; return the numbers of those that move.

        One whose slot is of another group gets a slot of its own group, and begins an episode there. The one that was
        open is dropped: a slot has no transition to another one.
        """
        moved = set()
        for info in infos:
            if info.group_id == NO_GROUP or info.id not in self._alone:
                continue
            self._alone.remove(info.id)
            slot = self._slots[info.id]
            self._slots[info.id] = self._seating.join(slot, info.group_id)
            if self._slots[info.id] != slot:
                self._arrays.aborted[slot] = True
                moved.add(info.id)
        self.moved += len(moved)
        return moved

    def _seat(self, info: Any, size: int) -> int:
        """Give an agent a free slot of its group, of which the message has ``size``; NOWHERE if there is none."""
        slot = self._seating.take(info.group_id, size)
        if slot != NOWHERE:
            self._slots[info.id] = slot
            self._homeless.pop(info.id, None)
            if info.group_id == NO_GROUP and self._seating.grouped:
                self._alone.add(info.id)
        elif not self._warned:
            self._warned = True
            log.warning(
                "player %d: behavior %r has more agents at once than its %d places; agents without a place act with "
                "zeros and are not learned from until a training adds places at a summary; for players in workers and "
                "in several ranks, set environment.agents to the largest number of agents (reported once)",
                self.player.number,
                self.brain.full_name,
                len(self._all),
            )
        return slot

    def _observe(self, slots: list[int], infos: Sequence[Any], final: bool) -> None:
        arrays = self._arrays
        into = arrays.finals if final else arrays.observations
        for sensor in self.brain.sensors:
            try:
                values = _values(sensor, infos)
            except (DamagedObservation, IndexError) as error:
                problem = str(error) if isinstance(error, DamagedObservation) else "is missing"
                raise self._failed(f"observation {sensor.name!r} {problem}") from error
            into[sensor.name][slots] = values
        if arrays.spec.mask_size:
            problem_of_mask = arrays.allow(slots, infos, final)
            if problem_of_mask:
                raise self._failed(problem_of_mask)

    def _failed(self, problem: str) -> PlayerFailed:
        return self.player.failed(f"behavior {self.brain.full_name!r}: {problem}")


def _values(sensor: Sensor, infos: Sequence[Any]) -> NDArray[np.float32]:
    """Return what agents see with one sensor, [agents, *shape]. Raises DamagedObservation."""
    observations = [info.observations[sensor.place] for info in infos]
    if not sensor.channels_first:
        # The bytes of packed numbers are those of an array, behind a tag and a length. Otherwise
        # protobuf would make a Python object of each number.
        packed = [observation.float_data.SerializeToString() for observation in observations]
        size = 4 * sensor.size  # bytes
        header = _header(size)
        if set(map(len, packed)) == {header + size}:
            rows = np.frombuffer(b"".join(packed), np.uint8).reshape(len(packed), -1)
            numbers = np.ascontiguousarray(rows[:, header:])
            return numbers.view("<f4").reshape(len(packed), *sensor.shape)
    return np.stack([sensor.array(observation) for observation in observations])


def _header(length: int) -> int:
    """Bytes in front of packed numbers of this length: a tag, and the length, of which a byte has 7 bits."""
    return 1 + max(1, -(-length.bit_length() // 7))
