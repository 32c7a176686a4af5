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
from time import monotonic, sleep
from typing import Any

import attrs

from rlcore import ExitCode, RlcoreError, one_line
from rlcore_workers.ray.process_actor import Place, process_actor
from rlcore_workers.ray.ranks import THREAD_VARIABLES, clear
from rlcore_workers.ray.room import free_room
from rlcore_workers.ray.session import reachable
from rlcore_workers.ray.terminal import noted_signals, print_line, say

LOOK_SECONDS = 0.5
WAIT_SECONDS = 10.0  # before a line says what an actor waits for
END_SECONDS = 10.0  # for actors to end after one has ended with the run, or after a signal
RUN_SECONDS = 3.0  # for the run to take a connection, before an actor that gave it up starts again


class Stopped(Exception):
    """A signal, or the end of the run, came before an actor was started."""


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
        """Keep ``rlcore actor ARGUMENTS`` playing until all have ended; return an exit code that is not 0, if any.

        The first of the arguments is the address of the run.
        """
        with noted_signals() as signals:
            playing = [Playing(number, self, signals) for number in range(1, self.count + 1)]
            threads = [Thread(target=each.play, args=(arguments,), daemon=True) for each in playing]
            for thread in threads:
                thread.start()
            passed_on = 0
            deadline = float("inf")
            while any(thread.is_alive() for thread in threads) and monotonic() < deadline:
                sleep(LOOK_SECONDS)
                for number in signals[passed_on:]:
                    passed_on += 1
                    for each in playing:
                        each.send(number)
                if signals or any(each.code == ExitCode.DONE for each in playing):
                    deadline = min(deadline, monotonic() + END_SECONDS)
            ended = []
            for each, thread in zip(playing, threads, strict=True):
                if thread.is_alive():  # on a host that is lost, which Ray has not noticed yet
                    say(f"{each.named} does not answer, and is not waited for")
                elif each.code is not None:
                    ended.append(each.code)
        if signals:
            return 128 + signals[0]
        return next(filter(None, ended), ExitCode.DONE if ended else ExitCode.ENVIRONMENT)


@attrs.define(eq=False)
class Playing:
    """One of the actors.

    Attributes:
        number: Which one, from 1 on.
        job: What it is of.
        signals: Those that the command got; an actor is not started again after one.
        code: Exit code of the latest process; 128 and the signal that ended it. None if there was none, or if the run
            ended before another one was started.
    """

    number: int
    job: PlayingJob
    signals: Sequence[int]
    code: int | None = None
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
            self.code = code if code >= 0 else 128 - code
            if code == ExitCode.DONE or self.signals:
                return
            how = "the process or its host was lost" if code < 0 else f"it ended with exit code {code}"
            # An actor that was cut off for long gives its run up, and environments may fail on one host only.
            again = left and (code < 0 or (code == ExitCode.ENVIRONMENT and reachable(arguments[0], RUN_SECONDS)))
            say(f"{self.named}: {how}" + (f"; it is started again (restarts left: {left - 1})" if again else ""))
            if not again:
                return

    def send(self, number: int) -> None:
        """Send a signal to the process, if there is one."""
        if self._place is not None:
            self._actor.send.remote(number)

    @property
    def named(self) -> str:
        """Not by the number of a place: the run gives places to whoever comes first."""
        where = "" if self._place is None else f" on {self._place.host}"
        return f"process {self.number} of {self.job.count}{where}"

    def _played(self, arguments: Sequence[str]) -> int:
        """Start the process and print its output until it ends; return its exit code, -SIGKILL if it was lost."""
        import ray

        self._actor = actor = process_actor(self.job.reserved, "SPREAD")
        try:
            self._place = self._placed(actor.place.remote(os.getcwd(), version("rlcore")), arguments[0])
            say(f"{self.named} plays")
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
            say(f"{self.named}: {one_line(cause)}")
            return int(cause.exit_code)
        finally:
            clear([actor])

    def _placed(self, answer: Any, run: str) -> Place:
        """Wait until Ray has started the actor, and say once what it waits for.

        Raises Stopped if a signal comes, or if this actor has played before and the run is over.
        """
        import ray

        looked = monotonic()
        said = False
        while not ray.wait([answer], timeout=LOOK_SECONDS)[0]:
            if self.signals:
                raise Stopped
            if monotonic() - looked < WAIT_SECONDS:
                continue
            if not said:
                said = True
                say(f"{self.named} waits for room: {free_room(self.job.reserved)} is free")
            if self.code is not None and not reachable(run):
                say(f"{self.named} is not started again: nothing answers at {run}")
                self.code = None
                raise Stopped
            looked = monotonic()
        place: Place = ray.get(answer)
        return place
