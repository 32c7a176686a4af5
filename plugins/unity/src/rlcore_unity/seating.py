"""The places of the agents of one behavior and team in one player: which are free, and which group has which.

A *block* has the places of one group. The group's number in the player may be another one in each episode, and an agent
may report before it is in its group.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from rlcore_unity.census import NO_GROUP

NOWHERE = -1  # the slot of an agent that has none


@attrs.define(eq=False)
class _Block:
    """The places of one group, or of the agents that are in none.

    Attributes:
        free: Slots that no agent has, descending: the last one is taken first.
        size: The number of its places.
        group: The player's number of the group that has them now, or had them last.
        bound: Whether an agent of that group sits here.
    """

    free: list[int]
    size: int
    group: int = NO_GROUP
    bound: bool = False

    @property
    def unused(self) -> bool:
        return len(self.free) == self.size

    def take(self) -> int:
        return self.free.pop() if self.free else NOWHERE

    def bind(self, group: int) -> None:
        self.group = group
        self.bound = True


class Seating:
    """Gives agents their slots.

    Attributes:
        joins: Whether agents join their groups after their first decision.
    """

    def __init__(self, slots: Sequence[int], groups: Sequence[int], joins: bool = False) -> None:
        """``groups`` has the number of the block of each slot; -1 is for agents in no group."""
        self.joins = joins
        blocks = {number: _Block([], 0) for number in sorted(set(groups))}
        for slot, number in zip(reversed(slots), reversed(groups), strict=True):
            blocks[number].free.append(slot)
            blocks[number].size += 1
        self._block_of = {slot: blocks[number] for slot, number in zip(slots, groups, strict=True)}
        self._alone = blocks.pop(-1, _Block([], 0))
        self._groups = list(blocks.values())

    @property
    def grouped(self) -> bool:
        """Whether groups have places of their own."""
        return bool(self._groups)

    def group_of(self, slot: int) -> int:
        """The group whose block has the slot; NO_GROUP for one of those who are in none."""
        return self._block_of[slot].group

    def take(self, group: int, size: int) -> int:
        """Return a free slot for an agent of ``group``, of which the message has ``size`` agents; NOWHERE if none is.

        An agent in no group gets a place of those, or of a group that is not there: it may be on its way to it.
        """
        if group != NO_GROUP and self._groups:
            block = self._of(group) or self._for_new(size)
            if block is None:
                return NOWHERE
            block.bind(group)
            return block.take()
        begun = [block for block in self._groups if not block.bound and not block.unused]
        unused = [block for block in self._groups if block.unused]
        blocks = [self._alone, *begun, *unused, *self._groups]
        if self.joins:  # the agent is probably on its way to a group
            blocks = [*begun, *unused, *blocks]
        for block in blocks:
            if block.free:
                return block.take()
        return NOWHERE

    def join(self, slot: int, group: int) -> int:
        """The agent of a slot has joined a ``group``. Return its slot from now on, another one if it has to move."""
        self.joins = True
        block = self._block_of[slot]
        block_of_group = self._of(group)
        if block is block_of_group:
            block.bind(group)
            return slot
        # A block whose agents are all on their way becomes the group's, unless the group sits elsewhere already.
        group_sits = block_of_group is not None and block_of_group.bound
        if block is not self._alone and not block.bound and not group_sits:
            if block_of_group is not None:
                block_of_group.group = NO_GROUP
            block.bind(group)
            return slot
        new_slot = self.take(group, 1)
        if new_slot == NOWHERE:
            return slot
        self.leave(slot)
        return new_slot

    def leave(self, slot: int) -> None:
        """The agent of a slot is gone."""
        block = self._block_of[slot]
        block.free.append(slot)
        block.free.sort(reverse=True)  # slots are given away in one order, whatever order agents left in
        block.bound &= not block.unused

    def _of(self, group: int) -> _Block | None:
        """The block that the group has, or had last."""
        for block in self._groups:
            if block.group == group:
                return block
        return None

    def _for_new(self, size: int) -> _Block | None:
        """The block for a new group of this size; None if each has its group.

        It is one without agents, of no group that may return, and large enough, as far as there is such a one.
        """

        def shortcomings(block: _Block) -> tuple[bool, bool, bool, int]:
            return not block.unused, block.group != NO_GROUP, block.size < size, block.size

        available = [block for block in self._groups if not block.bound and block.free]
        return min(available, key=shortcomings, default=None)
