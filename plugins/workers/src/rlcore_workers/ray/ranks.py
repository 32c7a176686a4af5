"""Ranks of one run on a cluster: what ``torchrun`` is on one machine, with Ray's placement.

Every attempt has actors and a placement group of its own. Rank 0 is on the host of the command, because it writes the
run directory.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from importlib.metadata import version
from threading import Thread
from time import monotonic
from typing import Any, NoReturn
from uuid import uuid4

import attrs

from rlcore import EnvironmentFailed, ExitCode, RlcoreError, one_line
from rlcore_workers.ray.process_actor import Place, process_actor
from rlcore_workers.ray.room import free_room
from rlcore_workers.ray.session import reachable
from rlcore_workers.ray.terminal import noted_signals, print_line, say

LOOK_SECONDS = 0.5
# For ranks to report after one of them has failed with an error, which all notice at about the same time. They can save
# nothing without it.
END_SECONDS = 4.0
KILL_SECONDS = 2.0  # for Ray to kill an actor; without its head, or on a host that is cut off, it does so much later
HEAD_SECONDS = 2.0  # for Ray's head to take a connection, before ranks start again
WAIT_SECONDS = 10.0  # between two lines that say what the command waits for
SAME_AGAIN = (ExitCode.CONFIG, ExitCode.PLUGIN, ExitCode.RUN_STATE)  # another attempt would end with the same error
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")  # Ray sets the first one


class Stopped(Exception):
    """A signal ended the command before the ranks were started."""


@attrs.define(eq=False)
class Rank:
    """A process of the run.

    Attributes:
        actor: The actor that has the process.
        place: Where the actor is.
        code: Exit code of the process, negative for a signal; None until it has ended. A process whose actor or host is
            lost ended by SIGKILL.
        lost: Whether the actor or its host was lost, other than by :attr:`killed`.
        killed: Whether the command killed it because another rank had failed.
    """

    actor: Any
    place: Place
    code: int | None = None
    lost: bool = False
    killed: bool = False


@attrs.frozen
class RankJob:
    """The ranks of one run.

    Attributes:
        count: Number of ranks.
        reserved: Amounts that Ray reserves for each rank, by Ray's names.
        wait: Seconds to wait until the cluster has room for all ranks.
        max_restarts: How often all ranks are started again after one has failed.
    """

    count: int
    reserved: Mapping[str, float]
    wait: float
    max_restarts: int
    _job: str = attrs.field(factory=lambda: str(uuid4()), init=False)

    def run(self, arguments: Sequence[str]) -> int:
        """Run ``rlcore ARGUMENTS`` in every rank, and return the exit code of the run.

        Raises EnvironmentFailed if the cluster has no room, ConfigError for a host that cannot run a rank.
        """
        with noted_signals() as signals:
            for attempt in range(self.max_restarts + 1):
                try:
                    ended, lost_head = self._attempt(arguments, attempt, signals)
                except Stopped:
                    return 128 + signals[0]
                code = exit_code(ended)
                fails_again = any(rank.code in SAME_AGAIN for rank in ended)
                if code == ExitCode.DONE or signals or fails_again:
                    return code
                left = self.max_restarts - attempt
                if not left:
                    say(_failures(ended))
                    return code
                if lost_head is not None:
                    say(
                        f"{_failures(ended)}; the ranks cannot start again, because Ray's head at {lost_head} does "
                        "not answer: start Ray again on all hosts, then this command with --resume"
                    )
                    return code
                say(f"{_failures(ended)}; all ranks start again (restarts left: {left - 1})")
        return code

    def _attempt(self, arguments: Sequence[str], attempt: int, signals: list[int]) -> tuple[list[Rank], str | None]:
        """Start all ranks, and return them when all have ended, with the address of Ray's head if it is lost."""
        import ray

        with ThreadPoolExecutor(1) as other:
            with self._placed(signals) as ranks:
                variables = _variables(ranks, attempt, self._job)
                if attempt == 0:
                    say(_described(ranks))
                starts = []
                for rank, variables_of_rank in zip(ranks, variables, strict=True):
                    starts.append(rank.actor.start.remote(list(arguments), variables_of_rank, list(sys.path)))
                _answers(starts)
                _follow(ranks, signals)
                head = str(ray.get_runtime_context().gcs_address)
                answers = other.submit(reachable, head, HEAD_SECONDS)  # while the actors are killed
            return ranks, None if answers.result() else head

    @contextmanager
    def _placed(self, signals: list[int]) -> Iterator[list[Rank]]:
        """The ranks in their order; those of a host follow each other."""
        import ray
        from ray.util.placement_group import placement_group
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

        here = ray.get_runtime_context().get_node_id()
        anywhere: list[dict[str, str]] = [{}] * (self.count - 1)
        group = placement_group(
            [dict(self.reserved) or {"CPU": 0.001}] * self.count,  # Ray refuses an empty bundle
            strategy="PACK",
            bundle_label_selector=[{"ray.io/node-id": here}, *anywhere],
        )
        actors: list[Any] = []
        try:
            self._wait_for_room(group, signals)
            for index in range(self.count):
                strategy = PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=index)
                actors.append(process_actor(self.reserved, strategy))
            answers = [actor.place.remote(os.getcwd(), version("rlcore")) for actor in actors]
            places: list[Place] = _answers(answers)
            if signals:
                raise Stopped
            ranks = [Rank(actor, place) for actor, place in zip(actors, places, strict=True)]
            # Host by host, as torchrun numbers ranks: a local rank is the place among those of its host.
            nodes = [place.node for place in places]
            yield sorted(ranks, key=lambda rank: nodes.index(rank.place.node))
        finally:
            clear(actors, group)

    def _wait_for_room(self, group: Any, signals: list[int]) -> None:
        import ray

        began = monotonic()
        said = began
        ready = group.ready()
        while not ray.wait([ready], timeout=LOOK_SECONDS)[0]:
            now = monotonic()
            if signals:
                raise Stopped
            if now - began > self.wait:
                raise EnvironmentFailed(f"{self._no_room()}, also after {self.wait:g} s (--wait)")
            if now - said > WAIT_SECONDS:
                said = now
                say(f"waiting: {self._no_room()}")

    def _no_room(self) -> str:
        ranks = f"{self.count} ranks of {_amounts(self.reserved)}, one of them on this host"
        return f"the cluster has no room for {ranks}: {free_room(self.reserved)} is free"


def end_process(code: int) -> NoReturn:
    """End this process at once with ``code``, after flushing its output."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):  # lost; None, where it was closed before the start
            stream.flush()
    os._exit(code)


def exit_code(ranks: Sequence[Rank]) -> int:
    """The exit code of a run whose ranks have ended: that of rank 0, or of the first rank that failed by itself."""
    codes = [ExitCode.INTERNAL if rank.code is None else rank.code for rank in ranks]
    errors = [code for code in codes if code > 0]
    if errors:  # a rank that a signal ended may have been killed because of them
        return errors[0]
    code = min(codes, default=ExitCode.DONE)
    return code if code >= 0 else 128 - code  # as a shell reports a signal


def _follow(ranks: Sequence[Rank], signals: list[int]) -> None:
    """Print the output of the ranks and pass signals on, until all have ended."""
    import ray

    reading = {rank.actor.read.remote(): rank for rank in ranks}
    passed_on = 0
    deadline = float("inf")
    while reading:
        for answer in ray.wait(list(reading), timeout=LOOK_SECONDS)[0]:
            rank = reading.pop(answer)
            try:
                news = ray.get(answer)
            except ray.exceptions.RayError:
                rank.lost = not rank.killed
                news = [-signal.SIGKILL]
            for entry in news:
                if isinstance(entry, int):
                    rank.code = entry
                else:
                    print_line(*entry)
            if rank.code is None:
                reading[rank.actor.read.remote()] = rank
        for number in signals[passed_on:]:
            passed_on += 1
            for rank in reading.values():
                rank.actor.send.remote(number)
        codes = [rank.code for rank in ranks if rank.code]
        if codes and not signals:
            # The others wait for a rank that a signal ended, and would do so until a timeout of PyTorch.
            seconds = 0.0 if min(codes) < 0 else END_SECONDS
            deadline = min(deadline, monotonic() + seconds)
        if monotonic() >= deadline + KILL_SECONDS:
            for rank in reading.values():
                rank.code = -signal.SIGKILL
            return
        if monotonic() >= deadline:
            left = [rank for rank in reading.values() if not rank.killed]
            for rank in left:
                rank.killed = True
            clear([rank.actor for rank in left])


def clear(actors: Sequence[Any], group: Any = None) -> None:
    """Kill actors with their processes, and remove their placement group, or leave that to Ray when it answers again.

    Ray answers nothing while its head cannot be reached. It ends what is left with the job.
    """
    import ray
    from ray.util.placement_group import remove_placement_group

    def kill() -> None:
        for actor in actors:
            with suppress(ray.exceptions.RayError, ValueError):
                ray.kill(actor)
        if group is not None:
            with suppress(ray.exceptions.RayError, ValueError):
                remove_placement_group(group)

    thread = Thread(target=kill, name="rank cleaner", daemon=True)
    thread.start()
    thread.join(KILL_SECONDS)


def _answers(references: Sequence[Any]) -> list[Any]:
    """What actors answer before their ranks run. Raises what they raised, or EnvironmentFailed."""
    import ray

    try:
        return list(ray.get(list(references)))
    except ray.exceptions.RayError as error:
        cause = getattr(error, "cause", None) or error
        if isinstance(cause, RlcoreError):
            raise cause from error
        raise EnvironmentFailed(f"the ranks cannot be started: {one_line(cause)}") from error


def _variables(ranks: Sequence[Rank], attempt: int, job: str) -> list[dict[str, str | None]]:
    """The variables of each rank: those of rlcore that are set here, and those that ``torchrun`` sets.

    The store of the ranks is in the actor of rank 0.
    """
    places = [rank.place for rank in ranks]
    port = 0
    if len(ranks) > 1:
        (port,) = _answers([ranks[0].actor.store.remote(places[0].address)])
    shared: dict[str, str | None] = {name: os.environ.get(name) for name in THREAD_VARIABLES}
    shared |= {name: value for name, value in os.environ.items() if name.startswith("RLCORE_")}
    shared |= {
        "WORLD_SIZE": str(len(ranks)),
        "MASTER_ADDR": places[0].address,
        "MASTER_PORT": str(port),
        "TORCHELASTIC_RESTART_COUNT": str(attempt),
        "TORCHELASTIC_RUN_ID": job,
        "TORCHELASTIC_USE_AGENT_STORE": "True",
    }
    variables = []
    for rank, place in enumerate(places):
        local = [number for number, other in enumerate(places) if other.node == place.node]
        variables_of_rank = {
            "RANK": str(rank),
            "LOCAL_RANK": str(local.index(rank)),
            "LOCAL_WORLD_SIZE": str(len(local)),
        }
        gpus = dict.fromkeys(gpu for number in local for gpu in places[number].gpus)
        if gpus:
            variables_of_rank["CUDA_VISIBLE_DEVICES"] = ",".join(gpus)  # the rank takes the one with its local number
        if place.interface:  # for gloo and nccl to listen on it alone, unless the variables are set here
            for name in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"):
                variables_of_rank[name] = os.environ.get(name, place.interface)
        variables.append({**shared, **variables_of_rank})
    return variables


def _described(ranks: Sequence[Rank]) -> str:
    """``4 ranks: 0 to 1 on a.example, 2 to 3 on b.example``."""
    of_host: dict[tuple[str, str], list[int]] = {}
    for number, rank in enumerate(ranks):
        of_host.setdefault((rank.place.node, rank.place.host), []).append(number)
    parts = []
    for (_, host), numbers in of_host.items():
        which = str(numbers[0]) if len(numbers) == 1 else f"{numbers[0]} to {numbers[-1]}"
        parts.append(f"{which} on {host}")
    return f"{len(ranks)} rank{'s' * (len(ranks) > 1)}: {', '.join(parts)}; rank 0 writes the run directory here"


def _failures(ranks: Sequence[Rank]) -> str:
    """What ended by itself: ranks that a signal ended or that were lost, or else those with an exit code."""
    codes = {number: rank.code for number, rank in enumerate(ranks) if rank.code and not rank.killed}
    # Where a signal ended one rank, the exit codes of others say that they missed it.
    by_signal = {number: code for number, code in codes.items() if code < 0}
    parts = []
    for number, code in (by_signal or codes).items():
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        if ranks[number].lost:
            parts.append(f"rank {number} does not answer: its actor or {ranks[number].place.host} was lost")
        else:
            parts.append(f"rank {number} ended ({how})")
    return ", ".join(parts)


def _amounts(resources: Mapping[str, float]) -> str:
    return ", ".join(f"{amount:g} {name}" for name, amount in resources.items()) or "nothing"
