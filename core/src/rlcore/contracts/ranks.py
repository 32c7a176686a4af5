"""The contract of an exchange between ranks, and the one rank of a run in a single process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import attrs

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Number = TypeVar("Number", bound=np.generic)

__all__ = ["OneRank", "Ranks"]

T = TypeVar("T")


class Ranks(Protocol):
    """The K processes of a run. All of them call the same methods in the same order.

    Values are trees: mappings and sequences of numpy arrays and JSON values. Mappings and sequences arrive as
    dictionaries and lists. Every method raises :class:`rlcore.RanksFailed` if a rank ended or does not answer.

    Attributes:
        rank: Number of this process, from 0. Rank 0 alone writes files.
        size: K, the number of processes.
        exchange_seconds: Seconds that exchanges took so far, with those in which this process waited for others.
    """

    @property
    def exchange_seconds(self) -> float:
        """Seconds that exchanges took so far."""
        ...

    @property
    def rank(self) -> int:
        """Number of this process, from 0."""
        ...

    @property
    def size(self) -> int:
        """The number of processes."""
        ...

    def sum(self, values: NDArray[Number]) -> NDArray[Number]:
        """Return the sums over all ranks of ``values``, an array of the same shape and type in each."""
        ...

    def all_gather(self, value: Any) -> list[Any]:
        """Return the values of all ranks, in the order of the ranks."""
        ...

    def gather(self, value: Any) -> list[Any] | None:
        """Return the values of all ranks in rank 0, and None in the others."""
        ...

    def scatter(self, values: Sequence[Any] | None) -> Any:
        """Return ``values[rank]`` of rank 0, which alone gives values."""
        ...

    def share(self, value: T) -> T:
        """Return the value of rank 0. The values of other ranks are ignored."""
        ...

    def any(self, flag: bool) -> bool:
        """Return whether the flag of any rank is true."""
        ...

    def wait_for_all(self, doing: str) -> None:
        """Return when all ranks have called this. ``doing``, such as ``starting``, is for the message if one does not.

        Waits for minutes: for what takes ranks a long and different time.
        """
        ...

    def close(self, error: BaseException | None = None) -> None:
        """End the exchange. The other ranks report ``error`` as the reason if they still wait for this one."""
        ...


@attrs.frozen
class OneRank:
    """The ranks of a run in one process: nothing is exchanged.

    Attributes:
        rank: 0.
        size: 1.
        exchange_seconds: 0.
    """

    rank: int = 0
    size: int = 1
    exchange_seconds: float = 0.0

    def sum(self, values: NDArray[Number]) -> NDArray[Number]:
        """Return ``values``, of any shape."""
        return values

    def all_gather(self, value: Any) -> list[Any]:
        """Return a list with ``value``."""
        return [value]

    def gather(self, value: Any) -> list[Any] | None:
        """Return a list with ``value``."""
        return [value]

    def scatter(self, values: Sequence[Any] | None) -> Any:
        """Return the only one of ``values``."""
        assert values is not None
        return values[0]

    def share(self, value: T) -> T:
        """Return ``value``."""
        return value

    def any(self, flag: bool) -> bool:
        """Return ``flag``."""
        return flag

    def wait_for_all(self, doing: str) -> None:
        """Return at once."""

    def close(self, error: BaseException | None = None) -> None:
        """Do nothing."""
