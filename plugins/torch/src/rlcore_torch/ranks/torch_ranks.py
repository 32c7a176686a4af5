"""Ranks that exchange with ``torch.distributed``: gloo between processors, nccl between GPUs.

``torchrun`` starts the processes and holds the store that they find each other by. Whatever is exchanged between
processors goes through gloo as bytes without pickle, so that a message cannot run code. The sum of gradients on a GPU
goes through nccl.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import cache, partial
from time import monotonic, perf_counter, sleep
from typing import Any, TypeVar
from uuid import uuid4

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.distributed.rendezvous import rendezvous

from rlcore import Launch, Ranks, RanksFailed, SlotShare, StopRequests, echo, one_line
from rlcore_torch.arrays import Array
from rlcore_torch.messages import decoded, encoded
from rlcore_torch.ranks.checkpoint import gather_state, scatter_state
from rlcore_torch.ranks.episodes import EpisodeRanks
from rlcore_torch.ranks.shared_memory import SharedMemory
from rlcore_torch.ranks.store import RankStore, StoreLost, in_thread
from rlcore_torch.ranks.watchdog import Watchdog, end_process

T = TypeVar("T")
Number = TypeVar("Number", bound=np.generic)

START_SECONDS = 600.0  # for what takes ranks a long and different time, such as starting simulators
ANSWER_SECONDS = 5.0  # for the ranks that are still there to say so after an exchange has failed
LOOK_SECONDS = 0.05
HERE = "127.0.0.1"
LOOPBACK = ("lo", "lo0")  # of Linux, of macOS
# In an error of gloo: a rank did not answer. Where a connection was closed, the process at its other end has ended.
SILENT = ("timed out", "timeout", "no route", "unreachable")


class TorchRanks(EpisodeRanks):
    """The ranks of a run under ``torchrun``; one object for each process.

    Attributes:
        timeout: Seconds that an exchange waits for the other ranks.
    """

    def __init__(self, launch: Launch, timeout: float, stops: StopRequests) -> None:
        """Meet the other ranks.

        Raises RanksFailed if one of them does not come, or if a stop is requested meanwhile.
        """
        super().__init__(launch.rank, launch.size, stops)
        self.timeout = timeout
        self._waits = 0
        self._gpus: dist.ProcessGroup | None = None
        # nccl refuses ranks that share a GPU; gloo copies through the memory of the processor.
        ranks_here = int(os.environ.get("LOCAL_WORLD_SIZE", launch.size))
        self._own_gpu = torch.cuda.device_count() >= ranks_here
        self._failed = False
        self._memory: SharedMemory | None = None
        self._hosts: list[str] = []  # of all ranks, when they have met
        self._host_of_store = os.environ["MASTER_ADDR"]
        self._watchdog = Watchdog(stops, self._end)
        place = f"{self._host_of_store}:{os.environ['MASTER_PORT']}"
        try:
            store = in_thread(partial(_meeting_place, launch), START_SECONDS)
            self._store = RankStore(store, "rlcore")
            self._store = self._store.within(self._meet())
            with self._watchdog.within(timeout):
                dist.init_process_group(
                    "gloo",
                    store=self._store.store,
                    rank=self.rank,
                    world_size=self.size,
                    timeout=timedelta(seconds=timeout),
                )
        except (OSError, RuntimeError, ValueError) as error:
            raise RanksFailed(f"rank {self.rank} could not meet the others at {place}: {one_line(error)}") from error
        self._hosts = self.all_gather(socket.gethostname())
        self._memory = SharedMemory.of(self, timeout)

    # ------------------------------------------------------------ the contract

    def sum(self, values: NDArray[Number]) -> NDArray[Number]:
        """Return the sums of ``values``, of any shape, over all ranks."""
        total = np.array(values)
        with self._exchange():
            self._add(total)
        return total

    def all_gather(self, value: Any) -> list[Any]:
        """Return the value of each rank, to all ranks."""
        encoded_value = encoded(value)

        def read(messages: list[memoryview]) -> list[Any]:
            return [decoded(message) for message in messages]

        with self._exchange():
            if self._memory is not None:
                values = self._memory.exchange(encoded_value, read)
                if values is not None:
                    return values
            # gloo gathers tensors of one size: first the sizes, then messages that are filled up to the longest.
            message = _bytes(encoded_value)
            lengths = [torch.zeros(1, dtype=torch.int64) for _ in range(self.size)]
            dist.all_gather(lengths, torch.tensor([len(message)]))
            self._watchdog.expect(self.timeout)
            sizes = [int(length) for length in lengths]
            padded = torch.zeros(max(sizes), dtype=torch.uint8)
            padded[: len(message)] = message
            parts = [torch.empty_like(padded) for _ in range(self.size)]
            dist.all_gather(parts, padded)
        messages = [part[:size].numpy() for part, size in zip(parts, sizes, strict=True)]
        return [decoded(message.data) for message in messages]

    def gather(self, value: Any) -> list[Any] | None:
        """Return the value of each rank to rank 0, and None to the others."""
        if self.rank:
            self._send(encoded(value), 0)
            return None
        return [value, *(self._receive(rank) for rank in range(1, self.size))]

    def scatter(self, values: Sequence[Any] | None) -> Any:
        """Return to each rank its own of the ``values`` that rank 0 has."""
        if self.rank:
            return self._receive(0)
        assert values is not None
        for rank in range(1, self.size):
            self._send(encoded(values[rank]), rank)
        return values[0]

    def share(self, value: T) -> T:
        """Return the value of rank 0 to all ranks."""
        if self.rank == 0:
            self.all_gather(value)
            return value
        first: T = self.all_gather(None)[0]
        return first

    def wait_for_all(self, doing: str) -> None:
        """Wait until all ranks have come here, for ten minutes at most.

        Raises :class:`rlcore.RanksFailed` if a rank ended, or does not come.
        """
        self._waits += 1
        keys = [f"waits/{self._waits}/{rank}" for rank in range(self.size)]

        def look() -> list[int]:
            return [rank for rank, key in enumerate(keys) if not self._store.has(key)]

        with suppress(RuntimeError):  # the store is gone; looking into it fails too
            self._store.set(keys[self.rank], "")
        self._wait(doing, look)

    def close(self, error: BaseException | None = None) -> None:
        """Leave the others, and tell them the ``error`` that ended this rank."""
        # A rank whose exchange failed knows no more than the others: the rank at fault gives the reason.
        if error is not None and not self._failed:
            reason = " ".join(str(error).split()) or type(error).__name__
            with suppress(RuntimeError):
                self._store.set(f"failed/{self.rank}", reason)
        if self._memory is not None:
            self._memory.close()
        if dist.is_initialized():
            with suppress(RuntimeError), self._watchdog.within(0.0):
                dist.destroy_process_group()
        self._watchdog.close()

    def save_state(self, state: dict[str, Any]) -> dict[str, Any]:
        """Return, in rank 0, the state of all ranks for a checkpoint, of which each has its ``state``."""
        return gather_state(state, self)

    def load_state(self, state: dict[str, Any] | None) -> dict[str, Any] | None:
        """Return the state that this rank saved, from that of a checkpoint that rank 0 read; None if there is none."""
        return scatter_state(self.of_this_number(state), self)

    # ------------------------------------------------------------ tensors

    def sum_tensor(self, values: Tensor) -> None:
        """Replace ``values``, of any shape, by the sums over all ranks, in place and on their device."""
        with self._exchange():
            group = None
            if values.device.type == "cuda" and self._own_gpu:
                if self._gpus is None:
                    self._gpus = dist.new_group(backend="nccl", timeout=timedelta(seconds=self.timeout))
                group = self._gpus
            if values.device.type == "cpu" and values.is_contiguous():
                self._add(values.detach().numpy())
            else:
                dist.all_reduce(values, group=group)

    # ------------------------------------------------------------ inside

    def _add(self, values: Array) -> None:
        """Replace ``values``, contiguous in memory, by the sums over all ranks, added in the order of the ranks."""

        def add(messages: list[memoryview]) -> bool:
            arrays = [np.frombuffer(message, values.dtype) for message in messages]
            first, *others = arrays
            values[...] = first.reshape(values.shape)
            for of_rank in others:
                values[...] += of_rank.reshape(values.shape)
            return True

        if self._memory is not None:
            message = values.reshape(-1).view(np.uint8).data
            if self._memory.exchange(message, add):
                return
        dist.all_reduce(torch.from_numpy(values))

    def _meet(self) -> str:
        """Return the name that rank 0 gives this run, when all ranks know it.

        The store has the names of earlier runs, and of attempts whose processes are gone. Therefore each rank answers
        with a word of its own, which only a rank 0 that still waits repeats. PyTorch would handle no signal meanwhile.
        """
        word = uuid4().hex
        name = word  # in rank 0
        others = range(1, self.size)

        def look() -> list[int]:
            nonlocal name
            if self.rank == 0:
                missing = [rank for rank in others if not self._store.has(f"{name}/{rank}")]
                if not missing:
                    for rank in others:
                        answer = self._store.get(f"{name}/{rank}")
                        self._store.set(f"{name}/{answer}", "")
                return missing
            if not self._store.has("name"):
                return [0]
            name = self._store.get("name")
            self._store.set(f"{name}/{self.rank}", word)
            if self._store.has(f"{name}/{word}"):
                return []
            return [0]

        if self.rank == 0:
            self._store.set("name", name)
        self._wait("meeting", look)
        return name

    def _wait(self, doing: str, look: Callable[[], list[int]]) -> None:
        """Wait until ``look`` finds no missing rank. Raises RanksFailed if it does not, or a stop is requested."""
        seconds = max(START_SECONDS, self.timeout)
        deadline = monotonic() + seconds
        while True:
            try:
                missing = look()
                reasons = self._reasons(missing)
            except RuntimeError as error:
                self._failed = True
                raise RanksFailed(f"{self._gone(error)}; this rank was {doing}") from error
            if not missing:
                return
            if reasons or self._stops.first is not None or monotonic() > deadline:
                break
            sleep(LOOK_SECONDS)
        self._failed = True
        if reasons:
            raise RanksFailed(_because(reasons))
        if monotonic() > deadline:
            raise RanksFailed(f"{self._named(missing)} did not come within {seconds:g} seconds while {doing}")
        raise RanksFailed(f"stopped while {self._named(missing)} was {doing}")

    def _send(self, message: bytes, rank: int) -> None:
        with self._exchange():
            dist.send(torch.tensor([len(message)]), rank)
            self._watchdog.expect(self.timeout)
            dist.send(_bytes(message), rank)

    def _receive(self, rank: int) -> Any:
        size = torch.zeros(1, dtype=torch.int64)
        with self._exchange():
            dist.recv(size, rank)
            self._watchdog.expect(self.timeout)
            message = torch.empty(int(size), dtype=torch.uint8)
            dist.recv(message, rank)
        return decoded(message.numpy().data)

    @contextmanager
    def _exchange(self) -> Iterator[None]:
        """Turn an error of the exchange into one that names the rank."""
        started = perf_counter()
        self._watchdog.expect(self.timeout)
        try:
            yield
        except RuntimeError as error:
            self._watchdog.arrived()
            self._failed = True
            raise RanksFailed(self._why(error)) from error
        finally:
            self._watchdog.arrived()
            self.exchange_seconds += perf_counter() - started

    def _why(self, error: RuntimeError) -> str:
        """Name the ranks that ended: every rank whose exchange failed says that it is there, the others do not.

        It also says how its exchange failed. If a rank does not answer, the first one that has waited long enough
        closes its connections, and to a third one it looks as if a rank had ended.
        """
        others = [rank for rank in range(self.size) if rank != self.rank]
        silent = any(word in str(error).lower() for word in SILENT)
        try:
            self._store.set(f"there/{self.rank}", "silent" if silent else "closed")
            deadline = monotonic() + ANSWER_SECONDS
            while True:
                missing = [rank for rank in others if not self._store.has(f"there/{rank}")]
                reasons = self._reasons(missing)
                if reasons:
                    return _because(reasons)
                if not missing or monotonic() > deadline:
                    break
                sleep(LOOK_SECONDS)
            there = [self._store.get(f"there/{rank}") for rank in others if rank not in missing]
        except RuntimeError as lost:
            return self._gone(lost)
        if missing and (silent or "silent" in there):
            return f"{self._named(missing)} did not answer for {self.timeout:g} seconds"
        if missing:
            return f"{self._named(missing)} ended"
        return f"an exchange between the ranks failed: {one_line(error)}"

    def _gone(self, error: RuntimeError) -> str:
        """Say what it means that an answer of the store failed with ``error``."""
        host = self._host_of_store
        if isinstance(error, StoreLost):
            return f"{host} does not answer: {error}; {host} was lost, or this host is cut off"
        return f"the store of the ranks on {host} is gone, with its torchrun, rank 0 or the host: {one_line(error)}"

    def _end(self, limit: str) -> None:
        """End the process, whose main thread is blocked."""
        echo(f"error: rank {self.rank}: an exchange with the other ranks did not end within {limit}", err=True)
        end_process(RanksFailed.exit_code)

    def _named(self, ranks: Sequence[int]) -> str:
        """``rank 2``; with its host, if the ranks are on several."""
        if len(set(self._hosts)) < 2:
            return _named(ranks)
        of_host: dict[str, list[int]] = {}
        for rank in ranks:
            of_host.setdefault(self._hosts[rank], []).append(rank)
        return ", ".join(f"{_named(numbers)} on {host}" for host, numbers in of_host.items())

    def _reasons(self, missing: Sequence[int]) -> dict[int, str]:
        """What the ranks among ``missing`` said that failed."""
        reasons = {}
        for rank in missing:
            key = f"failed/{rank}"
            if self._store.has(key):
                reasons[rank] = self._store.get(key)
        return reasons


def start_store(address: str) -> tuple[object, int]:
    """Start the store in which ranks find each other, at an IP ``address`` of this host; return it and its port.

    It ends with the object. PyTorch alone would listen on all network interfaces.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = socket.create_server((address, 0), family=family)
    port = int(listener.getsockname()[1])
    store = dist.TCPStore(  # type: ignore[attr-defined]
        address, port, is_master=True, wait_for_workers=False, master_listen_fd=listener.detach()
    )
    return store, port


def sum_over_ranks(ranks: Ranks, values: Tensor) -> None:
    """Replace ``values``, of any shape, by the sums over all ranks, in place."""
    if isinstance(ranks, TorchRanks):
        ranks.sum_tensor(values)
    elif ranks.size > 1:
        total = ranks.sum(values.cpu().numpy())
        values.copy_(torch.from_numpy(total))


def sum_gradients(ranks: Ranks, parameters: Sequence[nn.Parameter], share: float) -> None:
    """Replace the gradients of ``parameters`` by those of the minibatch of all ranks, in one exchange.

    The loss is a mean over rows, and ``share`` the share of this rank's rows: the gradient of all rows is the sum of
    the gradients of the ranks, each times its share. A parameter without a gradient in any rank stays without one.
    """
    if ranks.size == 1:
        return
    gradients = []
    has_gradient = []
    for parameter in parameters:
        gradient = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        gradients.append(gradient.reshape(-1))
        has_gradient.append(float(parameter.grad is not None))
    gradient = torch.cat(gradients) * share
    flat = torch.cat([gradient, gradient.new_tensor(has_gradient)])
    sum_over_ranks(ranks, flat)
    sizes = [parameter.numel() for parameter in parameters]
    *sums, counts = flat.split([*sizes, len(sizes)])  # type: ignore[no-untyped-call]
    for parameter, total, count in zip(parameters, sums, counts.tolist(), strict=True):
        of_all = total.view_as(parameter)
        if parameter.grad is not None:
            parameter.grad.copy_(of_all)
        elif count:
            parameter.grad = of_all.clone()


def gather_slots(ranks: Ranks, share: SlotShare, *arrays: Array, lists: Sequence[list[float]] = ()) -> list[Array]:
    """Return arrays [T, S, ...] of this rank's slots as [T*, S*, ...] of all ranks, zero where a rank has fewer rows.

    Each of ``lists`` gets the numbers that the other ranks have in theirs. It is one exchange.
    """
    parts = ranks.all_gather({"slots": share.numbers, "arrays": arrays, "lists": lists})
    for k, numbers in enumerate(lists):
        numbers[:] = [number for part in parts for number in part["lists"][k]]
    longest = max(len(part["arrays"][0]) for part in parts)
    of_all = []
    for k, array in enumerate(arrays):
        everyone = np.zeros((longest, share.total, *array.shape[2:]), array.dtype)
        for part in parts:
            of_rank = part["arrays"][k]
            everyone[: len(of_rank), part["slots"]] = of_rank
        of_all.append(everyone)
    return of_all


def gather_rows(ranks: Ranks, values: Tensor) -> Tensor:
    """The rows of all ranks, one rank after the other. ``values`` are [rows, ...], with any number of rows."""
    if ranks.size == 1:
        return values
    arrays = ranks.all_gather(values.detach().cpu().numpy())
    parts = [torch.from_numpy(array) for array in arrays]
    return torch.cat(parts).to(values.device)


def _meeting_place(launch: Launch) -> Any:
    """The store that torchrun holds, or that of rank 0 if torchrun holds none.

    If all ranks are on one machine, the store of rank 0 listens to this machine alone, and so does gloo, unless
    GLOO_SOCKET_IFNAME says where.
    """
    if int(os.environ.get("LOCAL_WORLD_SIZE", "0")) == launch.size:
        loopback = [name for _, name in socket.if_nameindex() if name in LOOPBACK]
        if loopback:
            os.environ.setdefault("GLOO_SOCKET_IFNAME", loopback[0])
        if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
            return _store_of_rank_0(int(os.environ["MASTER_PORT"]), launch.leads)
    timeout = timedelta(seconds=START_SECONDS)
    store, _, _ = next(rendezvous("env://", timeout=timeout))
    return store


@cache  # for all runs of a process
def _store_of_rank_0(port: int, leads: bool) -> Any:
    """A store that listens to this machine alone. One that PyTorch opens listens to every address of the machine."""
    listener = socket.create_server((HERE, port)).detach() if leads else -1
    timeout = timedelta(seconds=START_SECONDS)
    return dist.TCPStore(  # type: ignore[attr-defined]
        HERE, port, None, leads, timeout, wait_for_workers=False, master_listen_fd=listener
    )


def _bytes(message: bytes) -> Tensor:
    return torch.frombuffer(bytearray(message), dtype=torch.uint8)


def _named(ranks: Sequence[int]) -> str:
    return f"{'rank' if len(ranks) == 1 else 'ranks'} {', '.join(map(str, ranks))}"


def _because(reasons: dict[int, str]) -> str:
    rank, reason = next(iter(reasons.items()))
    return f"rank {rank} failed: {reason}"
