"""Ranks of one run on a cluster: what ``torchrun`` is on one machine, with Ray's placement.

Every attempt has actors and a placement group of its own. Rank 0 is on the host of the command, because it writes the
run directory.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import Any
from uuid import uuid4

import attrs

from rlcore import EXIT_CONFIG, EXIT_DONE, EXIT_INTERNAL, EXIT_PLUGIN, EXIT_RUN_STATE, EnvironmentFailed
from rlcore_ray.remote import RemoteProcess, Reserved, Signals, print_line, wait_for_news

__all__ = ["RankJob"]

LOOK_SECONDS = 0.5
END_SECONDS = 15.0  # for ranks to report after one of them has failed with an error; they can save nothing without it
WAIT_SECONDS = 10.0  # between two lines that say what the command waits for
SAME_AGAIN = (EXIT_CONFIG, EXIT_PLUGIN, EXIT_RUN_STATE)  # another attempt would end with the same error


class Stopped(Exception):
    """A signal ended the command before the ranks were started."""


@attrs.frozen
class RankJob:
    """The ranks of one run.

    Attributes:
        count: Number of ranks.
        reserved: What Ray reserves for each rank.
        wait: Seconds to wait until the cluster has room for all ranks.
        max_restarts: How often all ranks are started again after one has failed.
    """

    count: int
    reserved: Reserved
    wait: float
    max_restarts: int
    _job: str = attrs.field(factory=lambda: str(uuid4()), init=False)

    def run(self, arguments: Sequence[str]) -> int:
        """Run ``rlcore ARGUMENTS`` in every rank, and return the exit code of the run.

        Raises EnvironmentFailed if the cluster has no room, ConfigError for a host that cannot run a rank.
        """
        with Signals() as signals:
            for attempt in range(self.max_restarts + 1):
                try:
                    ended = self._attempt(arguments, attempt, signals)
                except Stopped:
                    return signals.exit_code
                code = exit_code(ended)
                if code == EXIT_DONE or signals.first is not None:
                    return code
                if any(each.code in SAME_AGAIN for each in ended):
                    return code
                left = self.max_restarts - attempt
                _say(_failures(ended) + (f"; all ranks start again (restarts left: {left - 1})" if left else ""))
        return code

    def _attempt(self, arguments: Sequence[str], attempt: int, signals: Signals) -> list[RemoteProcess]:
        """Start all ranks, and return them when all have ended."""
        with self._placed(signals) as ranks:
            variables = _variables(ranks, attempt, self._job)
            if attempt == 0:
                _say(_described(ranks))
            for rank, own in zip(ranks, variables, strict=True):
                rank.start(arguments, own)
            _follow(ranks, signals)
            return ranks

    @contextmanager
    def _placed(self, signals: Signals) -> Iterator[list[RemoteProcess]]:
        """The actors in the order of their ranks; those of a host follow each other."""
        import ray
        from ray.util.placement_group import placement_group, remove_placement_group
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

        here = ray.get_runtime_context().get_node_id()
        group = placement_group(
            [self.reserved.bundle or {"CPU": 0.001}] * self.count,
            strategy="PACK",
            bundle_label_selector=[{"ray.io/node-id": here}, *({} for _ in range(self.count - 1))],
        )
        actors: list[RemoteProcess] = []
        try:
            self._wait_for_room(group, signals)
            for index in range(self.count):
                strategy = PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=index)
                actors.append(RemoteProcess(self.reserved, scheduling_strategy=strategy))
            waiting = list(actors)
            while waiting:
                for actor in wait_for_news(waiting, LOOK_SECONDS):
                    actor.take()
                    if actor.lost:
                        raise EnvironmentFailed(f"an actor of the ranks ended before it was used: {actor.lost}")
                waiting = [each for each in actors if each.place is None]
                if signals.first is not None:
                    raise Stopped
            first, *others = actors
            of_node = {each.place.node: number for number, each in reversed(list(enumerate(actors))) if each.place}
            others.sort(key=lambda each: of_node[each.place.node] if each.place else 0)
            yield [first, *others]
        finally:
            for actor in actors:
                actor.kill()
            remove_placement_group(group)

    def _wait_for_room(self, group: Any, signals: Signals) -> None:
        import ray

        began = monotonic()
        ready, said = group.ready(), began
        while not ray.wait([ready], timeout=LOOK_SECONDS)[0]:
            now = monotonic()
            if signals.first is not None:
                raise Stopped
            if now - began > self.wait:
                raise EnvironmentFailed(f"{self._no_room()}, also after {self.wait:g} s (--wait)")
            if now - said > WAIT_SECONDS:
                said = now
                _say(f"waiting: {self._no_room()}")

    def _no_room(self) -> str:
        import ray

        free = {name: amount for name, amount in ray.available_resources().items() if _is_countable(name)}
        has = ", ".join(f"{amount:g} {name}" for name, amount in free.items()) or "nothing"
        ranks = f"{self.count} ranks of {self.reserved}, one of them on this host"
        return f"the cluster has no room for {ranks}: {has} is free"


def exit_code(ranks: Sequence[RemoteProcess]) -> int:
    """The exit code of a run whose ranks have ended: that of rank 0, or of the first rank that failed by itself."""
    codes = [EXIT_INTERNAL if each.code is None else each.code for each in ranks]
    code = next((code for code in codes if code > 0), min(codes, default=EXIT_DONE))
    return code if code >= 0 else 128 - code


def _follow(ranks: Sequence[RemoteProcess], signals: Signals) -> None:
    """Print the output of the ranks and pass signals on, until all have ended."""
    deadline: float | None = None
    while running := [each for each in ranks if each.code is None]:
        for rank in wait_for_news(running, LOOK_SECONDS):
            for stream, line in rank.take():
                print_line(stream, line)
        for number in signals.taken():
            for rank in running:
                rank.send(number)
        codes = [each.code for each in ranks if each.code]
        if codes and deadline is None and signals.first is None:
            deadline = monotonic() + (0.0 if min(codes) < 0 else END_SECONDS)
        if deadline is not None and monotonic() >= deadline:
            for rank in running:
                rank.kill()


def _variables(ranks: Sequence[RemoteProcess], attempt: int, job: str) -> list[dict[str, str]]:
    """The variables that ``torchrun`` sets, for each rank. The store is in the actor of rank 0."""
    places = [each.place for each in ranks if each.place is not None]
    port = ranks[0].store() if len(ranks) > 1 else 0
    shared = {
        "WORLD_SIZE": str(len(ranks)),
        "MASTER_ADDR": places[0].address,
        "MASTER_PORT": str(port),
        "TORCHELASTIC_RESTART_COUNT": str(attempt),
        "TORCHELASTIC_RUN_ID": job,
        "TORCHELASTIC_USE_AGENT_STORE": "True",
    }
    found = []
    for rank, place in enumerate(places):
        same = [number for number, each in enumerate(places) if each.node == place.node]
        gpus = list(dict.fromkeys(gpu for number in same for gpu in places[number].gpus))
        own = {"RANK": str(rank), "LOCAL_RANK": str(same.index(rank)), "LOCAL_WORLD_SIZE": str(len(same))}
        if gpus:
            own["CUDA_VISIBLE_DEVICES"] = ",".join(gpus)  # the rank takes the one with its local number
        if place.interface:
            own |= _interfaces(place.interface)
        found.append({**shared, **own})
    return found


def _interfaces(name: str) -> Mapping[str, str]:
    """The variables that let gloo and nccl listen on one network interface, unless they are set here."""
    names = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")
    return {variable: os.environ.get(variable, name) for variable in names}


def _described(ranks: Sequence[RemoteProcess]) -> str:
    """``4 ranks: 0 to 1 on a.example, 2 to 3 on b.example``."""
    of_host: dict[tuple[str, str], list[int]] = {}
    for number, rank in enumerate(ranks):
        if rank.place is not None:
            of_host.setdefault((rank.place.node, rank.place.host), []).append(number)
    parts = []
    for (_, host), numbers in of_host.items():
        shown = str(numbers[0]) if len(numbers) == 1 else f"{numbers[0]} to {numbers[-1]}"
        parts.append(f"{shown} on {host}")
    return f"{len(ranks)} rank{'s' * (len(ranks) > 1)}: {', '.join(parts)}; rank 0 writes the run directory here"


def _failures(ranks: Sequence[RemoteProcess]) -> str:
    """What ended by itself: ranks that a signal ended or that were lost, or else those with an exit code."""
    codes = {number: each.code for number, each in enumerate(ranks) if each.code and not (each.killed and each.lost)}
    failed = [number for number, code in codes.items() if code < 0] or list(codes)
    parts = []
    for number in failed:
        code = ranks[number].code
        assert code is not None
        how = (
            "its host or actor was lost"
            if ranks[number].lost
            else f"signal {-code}"
            if code < 0
            else f"exit code {code}"
        )
        parts.append(f"rank {number} ended ({how})")
    return ", ".join(parts)


def _is_countable(name: str) -> bool:
    return "memory" not in name and not name.startswith("node:")


def _say(text: str) -> None:
    from rlcore import echo

    sys.stdout.flush()
    echo(text, err=True)
