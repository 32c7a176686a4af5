"""Whether a run in several ranks is to stop: all ranks have to stop after the same step."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

import attrs

from rlcore.plugins.context import Stop, StopRequests
from rlcore.ranks.ranks import Ranks
from rlcore.run.joined_episodes import JoinedEpisodes

SECONDS = 0.5  # between two agreements, about
MOST_STEPS = 256  # of the environments between two agreements, for those that suddenly become slow


class StopAgreement:
    """Asks all ranks whether to stop: in one step of many, because an exchange takes as long as a fast step.

    The number of steps in between follows from the time that steps took, and is equal in all ranks.
    """

    def __init__(self, ranks: Ranks, joined: JoinedEpisodes, stopping: Callable[[], bool], stops: StopRequests) -> None:
        """``stopping`` returns whether this rank wants to stop, and ``stops`` has the requests."""
        self._ranks, self._joined, self._stopping, self._stops = ranks, joined, stopping, stops
        self._steps = 0  # since the latest agreement
        self._interval = 1
        self._since = monotonic()

    def after_step(self) -> bool:
        """Whether to stop; asked after every step of the environments."""
        self._steps += 1
        if self._steps < self._interval:
            return False
        microseconds = int((monotonic() - self._since) * 1e6)
        wanted, total = self._joined.agree(int(self._stopping()), microseconds)
        mean = total / self._ranks.size / self._steps
        self._interval = min(MOST_STEPS, max(1, int(SECONDS * 1e6 / max(mean, 1.0))))
        self._steps, self._since = 0, monotonic()
        return wanted > 0 and self._share_requests()

    def now(self) -> bool:
        """Whether to stop; asked between two epochs."""
        return self._ranks.any(self._stopping()) and self._share_requests()

    def _share_requests(self) -> bool:
        """Note the requests of all ranks in each. Returns True."""
        first = self._stops.first
        for request in self._ranks.all_gather(None if first is None else attrs.asdict(first)):
            if request is not None:
                self._stops.add(Stop(**request))
        return True
