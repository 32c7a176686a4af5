"""The policies that other teams play as: snapshots in a window, fixed opponents, and the policy of the latest swap.

Each policy has a *place*, a number that it keeps while anyone needs it. Then a later policy takes the place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any

import attrs
import numpy as np

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
from rlcore_ghost.arrays import Ints
from rlcore_ghost.policy_mix import PolicyMix

__all__ = ["Member", "Pool"]


NO_ROWS: Ints = np.zeros(0, np.int64)  # of a mix of policies of which no row acts yet


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
        policies = [member.policy for member in fixed]
        self.mix = PolicyMix(policies, NO_ROWS)

    def member(self, place: int) -> Member:
        """The policy at a place that is not free."""
        member = self.members[place]
        assert member is not None
        return member

    @property
    def candidates(self) -> list[int]:
        """The places that opponents are chosen from: fixed opponents, the window, and guests."""
        window = self.window if self.plays_itself else []
        return [*self.fixed, *window, *self.guests]

    def find(self, version: int) -> int | None:
        """The place of the own snapshot that was taken after this many updates; None if there is none."""
        for place, member in enumerate(self.members):
            if member is not None and not member.guest and member.version == version:
                return place
        return None

    def invite(self, members: Sequence[Member]) -> None:
        """Make these policies of other trainers the guests."""
        places = {member.player: place for place, member in enumerate(self.members) if member is not None}
        self.guests = []
        for member in members:
            place = places.get(member.player)
            if place is None:
                place = self.add(attrs.evolve(member, guest=True))
            self.guests.append(place)

    def add(self, member: Member) -> int:
        """Give a policy a place, and return it."""
        place = len(self.members)
        if None in self.members:
            place = self.members.index(None)
        # The lowest free place, so that a resumed run gives the same ones. A slice also appends: [n:n+1] is empty at
        # the end of the list.
        self.members[place : place + 1] = [member]
        self.mix.policies[place : place + 1] = [member.policy]
        return place

    def push(self, place: int) -> None:
        """Make the snapshot at ``place`` the newest of the window; the oldest one leaves a full window."""
        if place not in self.window:
            self.window.append(place)
            del self.window[: -self.size]

    def free(self, needed: Set[int]) -> None:
        """Free the places that are neither candidates nor ``needed``."""
        # A game that is open is finished with the policy that it began with, though it left the window.
        kept = {*self.fixed, *self.window, *self.guests, *needed}
        for place in range(len(self.members)):
            if place not in kept:
                self.members[place] = None
                self.mix.policies[place] = None

    # ------------------------------------------------------------ state

    def state_dict(self) -> dict[str, Any]:
        """Every snapshot with its place, and the window."""
        snapshots = {}
        for place, member in enumerate(self.members):
            if member is not None and not member.fixed:
                snapshots[str(place)] = {
                    "name": member.name,
                    "player": member.player,
                    "step": member.step,
                    "version": member.version,
                    "policy": member.state,
                    "guest": member.guest,
                }
        return {
            "fixed": [self.member(place).name for place in self.fixed],
            "window": list(self.window),
            "guests": list(self.guests),
            "snapshots": snapshots,
        }

    def load_state_dict(self, state: Mapping[str, Any], snapshot: Callable[[Mapping[str, Any]], Snapshot]) -> None:
        """Continue from :meth:`state_dict`; ``snapshot`` makes a policy of a state.

        Raises RunStateError if the state does not fit; what was loaded before is in the pool then.
        """
        fixed = [self.member(place) for place in self.fixed]
        # Fixed opponents are made from the configuration, so a state has their names only.
        names = [member.name for member in fixed]
        self._require_fixed(saved_entry(state, "fixed"), names)
        snapshots = saved_mapping(state, "snapshots")
        places = [int(key) for key in snapshots if key.isdecimal()]
        first = len(fixed)
        if len(places) < len(snapshots) or min(places, default=first) < first:
            raise SavedValueError(f"the entry 'snapshots' has the places {', '.join(snapshots)}")
        size = max(places, default=first - 1) + 1
        self.members = [*fixed, *[None] * (size - first)]
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
        # A window that the configuration made smaller keeps the newest.
        self.window = _saved_places(state, "window", snapshots)[-self.size :]
        self.guests = _saved_places(state, "guests", snapshots)
        policies = [None if member is None else member.policy for member in self.members]
        self.mix = PolicyMix(policies, NO_ROWS)

    def _require_fixed(self, saved: Any, names: list[str]) -> None:
        """Raise SavedValueError unless the run had the fixed opponents ``names``, which have the first places."""
        if saved == names:
            return
        of_run = repr(saved)
        if isinstance(saved, list):
            of_run = ", ".join(map(str, saved)) or "none"
        raise SavedValueError(
            f"the run had the fixed_opponents {of_run}, this configuration has {', '.join(names) or 'none'}; resume "
            "with those it had"
        )

    def fill_places(self, target: Ints, state: Mapping[str, Any], name: str) -> None:
        """Copy ``state[name]``, places or -1 for none, into ``target``. Raises SavedValueError for a free place."""
        fill(target, state, name)
        used = [place for place, member in enumerate(self.members) if member is not None]
        for place in np.unique(target).tolist():
            if place != -1 and place not in used:
                raise SavedValueError(f"the entry {name!r} names place {place}, where no policy is")


def _saved_places(state: Mapping[str, Any], name: str, snapshots: Mapping[str, Any]) -> list[int]:
    places = saved_entry(state, name)
    if not isinstance(places, list) or any(str(place) not in snapshots for place in places):
        raise SavedValueError(f"the entry {name!r} names places without a snapshot")
    return [int(place) for place in places]
