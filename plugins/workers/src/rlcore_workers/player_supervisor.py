"""Restarts of a player that fails: it is started again, or the run ends with an error that says why."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import attrs

from rlcore import EnvSettings
from rlcore_workers.player_process import PlayerEnded, PlayerFailed
from rlcore_workers.supervisor import Restarts

First = TypeVar("First")  # what a player that was started again says first


@attrs.define(eq=False)
class PlayerSupervisor:
    """Decides about one player of an environment, which starts it and talks with it.

    Attributes:
        name: What errors call the player.
        short_name: What warnings call it.
        logger: Gets the warnings.
        log: The file that the player writes to.
        limits: How often it may be started again.
        by_hand: Whether a person starts it, in an editor.
        restarts: How often it was started again.
    """

    name: str
    short_name: str
    logger: logging.Logger
    log: Path
    limits: EnvSettings
    by_hand: bool
    restarts: Restarts = attrs.field(factory=Restarts)

    @contextmanager
    def ending_run(self, doing: str) -> Iterator[None]:
        """Raise the error of the run if the player fails in ``doing``."""
        try:
            yield
        except PlayerFailed as failure:
            failure.end(self.name, doing, self.log)

    def restart(
        self, doing: str, failure: PlayerFailed, close: Callable[[], None], start: Callable[[], First]
    ) -> First:
        """Return what ``start`` returns, called again while the player fails there and may be started again.

        Raises the error of the run if the player ended in order, or must not be started again. Otherwise ``close`` is
        called before each start.
        """
        while True:
            if isinstance(failure, PlayerEnded):
                failure.end(self.name, doing, self.log)
            close()
            refused = "the editor starts it" if self.by_hand else self.restarts.refused(self.limits)
            if refused is not None:
                failure.end(self.name, doing, self.log, f"; it is not started again, because {refused}")
            self.logger.warning(
                "%s failed in %s: %s; it is started again, and its open episodes are dropped",
                self.short_name,
                doing,
                failure,
            )
            self.restarts.add()
            try:
                return start()
            except PlayerFailed as again:
                failure = again
                doing = "its start"
