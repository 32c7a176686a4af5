"""Actors that play for a run from the hosts of a cluster: ``rlcore actor`` processes, each in the care of a Ray actor.

They need no common start and no common end: each is started again by itself, on any host with room.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from threading import Thread
from time import monotonic
from typing import Any

import attrs

from rlcore import ExitCode, RlcoreError, one_line
from rlcore_workers.ray.process_actor import Place, process_actor
from rlcore_workers.ray.ranks import THREAD_VARIABLES, clear
from rlcore_workers.ray.room import free_room
from rlcore_workers.ray.terminal import noted_signals, print_line, say

LOOK_SECONDS = 0.5
WAIT_SECONDS = 10.0  # before a line says what an actor waits for


class Stopped(Exception):
    """A signal ended the command before an actor was started."""


@attrs.frozen
class PlayingJob:
    """Actors that play for one run.

    Attributes:
        count: Number of actors.
        reserved: Amounts that Ray reserves for each actor, by Ray's names.
        max_restarts: How often each actor is started again after it, or its host, was lost.
    """

    count: int
    reserved: Mapping[str, float]
    max_restarts: int

    def run(self, arguments: Sequence[str]) -> int:
        """Keep ``rlcore actor ARGUMENTS`` playing until all have ended; return an exit code that is not 0, if any."""
        with noted_signals() as signals:
            playing = [Playing(number, self, signals) for number in range(1, self.count + 1)]
            threads = [Thread(target=each.play, args=(arguments,), daemon=True) for each in playing]
            for thread in threads:
                thread.start()
            passed_on = 0
            for thread in threads:
                while thread.is_alive():
                    thread.join(LOOK_SECONDS)
                    for number in signals[passed_on:]:
                        passed_on += 1
                        for each in playing:
                            each.send(number)
        if signals:
            return 128 + signals[0]
        return next((each.code for each in playing if each.code), ExitCode.DONE)


@attrs.define(eq=False)
class Playing:
    """One of the actors.

    Attributes:
        number: Which one, from 1 on.
        job: What it is of.
        signals: Those that the command got; an actor is not started again after one.
        code: Exit code of the process; 128 and the signal that ended it.
    """

    number: int
    job: PlayingJob
    signals: Sequence[int]
    code: int = ExitCode.DONE
    _actor: Any = None
    _place: Place | None = None

    def play(self, arguments: Sequence[str]) -> None:
        """Play until the run ends, or the actor was lost too often."""
        for left in reversed(range(self.job.max_restarts + 1)):
            self._place = None
            try:
                code = self._played(arguments)
            except Stopped:
                return
            if code >= 0 or self.signals:
                self.code = code if code >= 0 else 128 - code
                return
            self.code = 128 - code
            outlook = f"; it is started again (restarts left: {left - 1})" if left else ""
            say(f"{self._named}: the process or its host was lost{outlook}")

    def send(self, number: int) -> None:
        """Send a signal to the process, if there is one."""
        if self._place is not None:
            self._actor.send.remote(number)

    @property
    def _named(self) -> str:
        """Not by the number of a place: the run gives places to whoever comes first."""
        where = "" if self._place is None else f" on {self._place.host}"
        return f"process {self.number} of {self.job.count}{where}"

    def _played(self, arguments: Sequence[str]) -> int:
        """Start the process and print its output until it ends; return its exit code, -SIGKILL if it was lost."""
        import ray

        self._actor = actor = process_actor(self.job.reserved, "SPREAD")
        try:
            self._place = self._placed(actor.place.remote(os.getcwd(), version("rlcore")))
            say(f"{self._named} plays")
            variables = {name: os.environ.get(name) for name in THREAD_VARIABLES}
            ray.get(actor.start.remote(["actor", *arguments], variables, list(sys.path)))
            if self.signals:  # one that came before there was a process to send it to
                raise Stopped
            while True:
                for entry in ray.get(actor.read.remote()):
                    if isinstance(entry, int):
                        return entry
                    print_line(*entry)
        except ray.exceptions.RayError as error:
            cause = getattr(error, "cause", None)
            if not isinstance(cause, RlcoreError):
                return -signal.SIGKILL
            say(f"{self._named}: {one_line(cause)}")
            return int(cause.exit_code)
        finally:
            clear([actor])

    def _placed(self, answer: Any) -> Place:
        """Wait until Ray has started the actor, and say once what it waits for."""
        import ray

        began = monotonic()
        said = False
        while not ray.wait([answer], timeout=LOOK_SECONDS)[0]:
            if self.signals:
                raise Stopped
            if not said and monotonic() - began > WAIT_SECONDS:
                said = True
                say(f"{self._named} waits for room: {free_room(self.job.reserved)} is free")
        place: Place = ray.get(answer)
        return place
