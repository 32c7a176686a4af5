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
from time import monotonic, sleep
from typing import Any, TypeVar

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor
from torch.distributed.rendezvous import rendezvous

from rlcore.distributed.launch import Launch
from rlcore.distributed.messages import decoded, encoded
from rlcore.distributed.ranks import OneRank, Ranks
from rlcore.errors import RanksFailed, one_line

__all__ = ["TorchRanks", "start_store", "sum_over_ranks"]

T = TypeVar("T")
Number = TypeVar("Number", bound=np.generic)

START_SECONDS = 600.0  # for what takes ranks a long and different time, such as starting simulators
ANSWER_SECONDS = 5.0  # for the ranks that are still there to say so after an exchange has failed
LOOK_SECONDS = 0.05


class TorchRanks:
    """The ranks of a run under ``torchrun``; one object for each process.

    Attributes:
        rank: Number of this process.
        size: Number of processes.
        timeout: Seconds that an exchange waits for the other ranks.
    """

    def __init__(self, launch: Launch, timeout: float, stop_requested: Callable[[], bool]) -> None:
        """Meet the other ranks.

        Raises RanksFailed if one of them does not come, or if ``stop_requested`` returns True meanwhile.
        """
        self.rank = launch.rank
        self.size = launch.size
        self.timeout = timeout
        self._stop_requested = stop_requested
        self._waits = 0
        self._gpus: dist.ProcessGroup | None = None
        # nccl refuses ranks that share a GPU; gloo copies through the memory of the processor.
        self._own_gpu = torch.cuda.device_count() >= int(os.environ.get("LOCAL_WORLD_SIZE", launch.size))
        self._failed = False
        place = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
        try:
            store, _, _ = next(rendezvous("env://", timeout=timedelta(seconds=START_SECONDS)))
            # The store of torchrun has the keys of earlier attempts of the job, and of earlier runs of the processes.
            attempt = f"rlcore/{launch.restarts}"
            run = store.add(f"{attempt}/runs of {self.rank}", 1)
            self._store = dist.distributed_c10d.PrefixStore(f"{attempt}/{run}", store)
            self.wait_for_all("meeting")  # not in PyTorch, which would handle no signal
            kept = timedelta(seconds=timeout)
            dist.init_process_group("gloo", store=self._store, rank=self.rank, world_size=self.size, timeout=kept)
        except (RuntimeError, ValueError) as error:
            raise RanksFailed(f"rank {self.rank} could not meet the others at {place}: {one_line(error)}") from error

    # ------------------------------------------------------------ the contract

    def sum(self, values: NDArray[Number]) -> NDArray[Number]:
        """Implement :meth:`rlcore.distributed.Ranks.sum`."""
        total = torch.from_numpy(np.array(values))
        with self._exchange():
            dist.all_reduce(total)
        return total.numpy()

    def all_gather(self, value: Any) -> list[Any]:
        """Implement :meth:`rlcore.distributed.Ranks.all_gather`."""
        own = _bytes(encoded(value))
        with self._exchange():
            sizes = [torch.zeros(1, dtype=torch.int64) for _ in range(self.size)]
            dist.all_gather(sizes, torch.tensor([len(own)]))
            longest = max(int(size) for size in sizes)
            padded = torch.zeros(longest, dtype=torch.uint8)
            padded[: len(own)] = own
            parts = [torch.empty(longest, dtype=torch.uint8) for _ in range(self.size)]
            dist.all_gather(parts, padded)
        return [decoded(part.numpy()[: int(size)].data) for part, size in zip(parts, sizes, strict=True)]

    def gather(self, value: Any) -> list[Any] | None:
        """Implement :meth:`rlcore.distributed.Ranks.gather`."""
        if self.rank:
            self._send(encoded(value), 0)
            return None
        return [value, *(self._receive(rank) for rank in range(1, self.size))]

    def scatter(self, values: Sequence[Any] | None) -> Any:
        """Implement :meth:`rlcore.distributed.Ranks.scatter`."""
        if self.rank:
            return self._receive(0)
        assert values is not None
        for rank in range(1, self.size):
            self._send(encoded(values[rank]), rank)
        return values[0]

    def share(self, value: T) -> T:
        """Implement :meth:`rlcore.distributed.Ranks.share`."""
        message = _bytes(encoded(value)) if self.rank == 0 else None
        size = torch.tensor([0 if message is None else len(message)])
        with self._exchange():
            dist.broadcast(size, 0)
            if message is None:
                message = torch.empty(int(size), dtype=torch.uint8)
            dist.broadcast(message, 0)
        return value if self.rank == 0 else decoded(message.numpy().data)

    def any(self, flag: bool) -> bool:
        """Implement :meth:`rlcore.distributed.Ranks.any`."""
        return bool(self.sum(np.array([flag], np.int32))[0])

    def wait_for_all(self, doing: str) -> None:
        """Implement :meth:`rlcore.distributed.Ranks.wait_for_all`. Waits for ten minutes.

        Raises :class:`rlcore.errors.RanksFailed` if a rank ended, or does not come.
        """
        self._waits += 1
        keys = [f"waits/{self._waits}/{rank}" for rank in range(self.size)]
        with suppress(RuntimeError):  # the store is gone with torchrun; the next exchange fails
            self._store.set(keys[self.rank], "")
        deadline = monotonic() + max(START_SECONDS, self.timeout)
        while monotonic() < deadline:
            missing = [rank for rank, key in enumerate(keys) if not self._has(key)]
            reasons = self._reasons(missing)
            if not missing:
                return
            if reasons or self._stop_requested():
                self._failed = True
                raise RanksFailed(_because(reasons) if reasons else f"stopped while {_named(missing)} was {doing}")
            sleep(LOOK_SECONDS)
        self._failed = True
        raise RanksFailed(
            f"{_named(missing)} did not come within {max(START_SECONDS, self.timeout):g} seconds while {doing}"
        )

    def close(self, error: BaseException | None = None) -> None:
        """Implement :meth:`rlcore.distributed.Ranks.close`."""
        if error is not None and not self._failed:
            with suppress(RuntimeError):
                self._store.set(f"failed/{self.rank}", " ".join(str(error).split()) or type(error).__name__)
        if dist.is_initialized():
            with suppress(RuntimeError):
                dist.destroy_process_group()

    # ------------------------------------------------------------ tensors

    def sum_tensor(self, values: Tensor) -> None:
        """Replace ``values``, of any shape, by the sums over all ranks, in place and on their device."""
        group = None
        if values.device.type == "cuda" and self._own_gpu:
            if self._gpus is None:
                self._gpus = dist.new_group(backend="nccl", timeout=timedelta(seconds=self.timeout))
            group = self._gpus
        with self._exchange():
            dist.all_reduce(values, group=group)

    # ------------------------------------------------------------ inside

    def _send(self, message: bytes, rank: int) -> None:
        with self._exchange():
            dist.send(torch.tensor([len(message)]), rank)
            dist.send(_bytes(message), rank)

    def _receive(self, rank: int) -> Any:
        size = torch.zeros(1, dtype=torch.int64)
        with self._exchange():
            dist.recv(size, rank)
            message = torch.empty(int(size), dtype=torch.uint8)
            dist.recv(message, rank)
        return decoded(message.numpy().data)

    @contextmanager
    def _exchange(self) -> Iterator[None]:
        """Turn an error of the exchange into one that names the rank."""
        try:
            yield
        except RuntimeError as error:
            self._failed = True
            raise RanksFailed(self._why(error)) from error

    def _why(self, error: RuntimeError) -> str:
        """Name the ranks that ended: every rank whose exchange failed says that it is there, the others do not."""
        others = [rank for rank in range(self.size) if rank != self.rank]
        with suppress(RuntimeError):
            self._store.set(f"there/{self.rank}", "")
            deadline = monotonic() + ANSWER_SECONDS
            while True:
                missing = [rank for rank in others if not self._has(f"there/{rank}")]
                reasons = self._reasons(missing)
                if reasons:
                    return _because(reasons)
                if not missing or monotonic() > deadline:
                    break
                sleep(LOOK_SECONDS)
            if missing:
                hangs = "timed out" in str(error).lower()
                return f"{_named(missing)} {f'did not answer for {self.timeout:g} seconds' if hangs else 'ended'}"
        return f"an exchange between the ranks failed: {one_line(error)}"

    def _reasons(self, missing: Sequence[int]) -> dict[int, str]:
        """What the ranks among ``missing`` said that failed."""
        return {rank: self._store.get(f"failed/{rank}").decode() for rank in missing if self._has(f"failed/{rank}")}

    def _has(self, key: str) -> bool:
        return bool(self._store.check([key]))


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
    elif not isinstance(ranks, OneRank):
        values.copy_(torch.from_numpy(ranks.sum(values.cpu().numpy())))


def _bytes(message: bytes) -> Tensor:
    return torch.frombuffer(bytearray(message), dtype=torch.uint8)


def _named(ranks: Sequence[int]) -> str:
    return f"{'rank' if len(ranks) == 1 else 'ranks'} {', '.join(map(str, ranks))}"


def _because(reasons: dict[int, str]) -> str:
    rank, reason = next(iter(reasons.items()))
    return f"rank {rank} failed: {reason}"
