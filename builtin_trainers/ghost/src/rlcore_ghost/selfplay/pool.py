"""The policies that other teams play as: snapshots in a window, fixed opponents, and the policy of the latest swap.

Each policy has a *place*, a number that it keeps while anyone needs it. Then a later policy takes the place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from rlcore import (
    FrozenState,
    Policy,
    SavedValueError,
    Snapshot,
    fill,
    saved_bool,
    saved_count,
    saved_entry,
    saved_mapping,
)
from rlcore_ghost.policy_mix import PolicyMix

__all__ = ["Member", "Pool"]


@attrs.define(eq=False)
class Member:
    """One policy of the pool.

    Attributes:
        name: Name in ratings: ``BEHAVIOR@STEP``, or the key of a fixed opponent.
        player: Index of the name in the match log.
        policy: The policy.
        step: Agent steps of the trainer at the snapshot; -1 for a fixed opponent.
        version: Number of updates of the trainer at the snapshot; -1 for a fixed opponent.
        state: The state of a snapshot, as checkpoints store it; None for a fixed opponent.
        guest: Whether this is a snapshot of another trainer.
    """

    name: str
    player: int
    policy: Policy
    step: int = -1
    version: int = -1
    state: Mapping[str, Any] | None = None
    guest: bool = False

    @property
    def fixed(self) -> bool:
        """Whether this is a fixed opponent."""
        return self.state is None


class Pool:
    """The places and the window of snapshots.

    Attributes:
        members: The policy of each place; None where the place is free.
        window: Places of the snapshots to choose from, oldest first.
        guests: Places of the policies of other trainers to choose from.
        mix: All places as one policy.
    """

    def __init__(self, window: int, fixed: Sequence[Member], plays_itself: bool = True) -> None:
        """``plays_itself``: opponents are chosen from the window too."""
        self.size = window
        self.plays_itself = plays_itself
        self.members: list[Member | None] = list(fixed)
        self.fixed = list(range(len(fixed)))
        self.window: list[int] = []
        self.guests: list[int] = []
        self.mix = PolicyMix([member.policy for member in fixed], np.zeros(0, np.int64))

    def member(self, place: int) -> Member:
        """The policy at a place that is not free."""
        member = self.members[place]
        assert member is not None
        return member

    @property
    def candidates(self) -> list[int]:
        """The places that opponents are chosen from: fixed opponents, the window, and guests."""
        return [*self.fixed, *(self.window if self.plays_itself else ()), *self.guests]

    def find(self, version: int) -> int | None:
        """The place of the own snapshot that was taken after this many updates; None if there is none."""
        own = [(place, each) for place, each in enumerate(self.members) if each is not None and not each.guest]
        return next((place for place, member in own if member.version == version), None)

    def invite(self, members: Sequence[Member]) -> None:
        """Make these policies of other trainers the guests."""
        known = {member.player: place for place, member in enumerate(self.members) if member is not None}
        self.guests = [
            known[member.player] if member.player in known else self.add(attrs.evolve(member, guest=True))
            for member in members
        ]

    def add(self, member: Member) -> int:
        """Give a policy a place, and return it."""
        place = next((free for free, other in enumerate(self.members) if other is None), len(self.members))
        if place == len(self.members):
            self.members.append(member)
            self.mix.policies.append(member.policy)
        else:
            self.members[place] = member
            self.mix.policies[place] = member.policy
        return place

    def push(self, place: int) -> None:
        """Make the snapshot at ``place`` the newest of the window; the oldest one leaves a full window."""
        if place in self.window:
            return
        self.window = [*self.window, place][-self.size :]

    def free(self, needed: Iterable[NDArray[np.int64]]) -> None:
        """Free the places that are neither candidates nor in one of the arrays ``needed``."""
        kept = {*self.fixed, *self.window, *self.guests}.union(*(np.unique(places).tolist() for places in needed))
        for place in range(len(self.members)):
            if place not in kept:
                self.members[place] = self.mix.policies[place] = None

    # ------------------------------------------------------------ state

    def state_dict(self) -> dict[str, Any]:
        """Every snapshot with its place, and the window."""
        snapshots = {
            str(place): {
                "name": member.name,
                "player": member.player,
                "step": member.step,
                "version": member.version,
                "policy": member.state,
                "guest": member.guest,
            }
            for place, member in enumerate(self.members)
            if member is not None and not member.fixed
        }
        fixed = [self.member(place).name for place in self.fixed]
        return {"fixed": fixed, "window": list(self.window), "guests": list(self.guests), "snapshots": snapshots}

    def load_state_dict(self, state: Mapping[str, Any], snapshot: Callable[[Mapping[str, Any]], Snapshot]) -> None:
        """Continue from :meth:`state_dict`; ``snapshot`` makes a policy of a state.

        Raises RunStateError if the state does not fit; what was loaded before is in the pool then.
        """
        fixed = [self.member(place) for place in self.fixed]
        names = saved_entry(state, "fixed")
        if names != [member.name for member in fixed]:
            before = ", ".join(map(str, names)) if isinstance(names, list) else repr(names)
            raise SavedValueError(
                f"the run had the fixed_opponents {before or 'none'}, this configuration has "
                f"{', '.join(member.name for member in fixed) or 'none'}; resume with those it had"
            )
        snapshots = saved_mapping(state, "snapshots")
        places = [int(key) for key in snapshots if key.isdecimal()]
        if len(places) < len(snapshots) or min(places, default=len(fixed)) < len(fixed):
            raise SavedValueError(f"the entry 'snapshots' has the places {', '.join(snapshots)}")
        self.members = [*fixed, *[None] * (max(places, default=-1) + 1 - len(fixed))]
        for place in places:
            saved = saved_mapping(snapshots, str(place))
            name = saved_entry(saved, "name")
            frozen = saved_mapping(saved, "policy")
            if not isinstance(name, str):
                raise SavedValueError(f"the entry 'name' of the snapshot at place {place} is not a text")
            self.members[place] = Member(
                name,
                saved_count(saved, "player"),
                snapshot(frozen),
                saved_count(saved, "step"),
                saved_count(saved, "version"),
                FrozenState(frozen),
                saved_bool(saved, "guest"),
            )
        for name in ("window", "guests"):
            listed = saved_entry(state, name)
            if not isinstance(listed, list) or any(str(place) not in snapshots for place in listed):
                raise SavedValueError(f"the entry {name!r} names places without a snapshot")
            setattr(self, name, [int(place) for place in listed])
        self.window = self.window[-self.size :]
        policies = [None if member is None else member.policy for member in self.members]
        self.mix = PolicyMix(policies, np.zeros(0, np.int64))

    def fill_places(self, target: NDArray[np.int64], state: Mapping[str, Any], name: str) -> None:
        """Copy ``state[name]``, places or -1 for none, into ``target``. Raises SavedValueError for a free place."""
        fill(target, state, name)
        for place in np.unique(target).tolist():
            if place != -1 and (not 0 <= place < len(self.members) or self.members[place] is None):
                raise SavedValueError(f"the entry {name!r} names place {place}, where no policy is")
