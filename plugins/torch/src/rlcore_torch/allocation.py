"""How much memory buffers and networks need and how much there is, before anything is allocated."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from rlcore import BehaviorSpec, ConfigError

__all__ = ["require_memory"]

FANOUT = 16  # children of a node in the sum tree of priorities: a million leaves in five levels
_SMALL = 1_000_000  # weights, which fit anywhere


def choice_dtype(discrete: tuple[int, ...]) -> np.dtype[Any]:
    """The smallest unsigned integers that hold a choice of every branch."""
    return np.dtype(np.min_scalar_type(max(discrete, default=1) - 1))


def tree_lengths(size: int) -> list[int]:
    """Numbers stored at each level of a sum tree of ``size`` leaves, from the leaves (whole families) to the root."""
    lengths: list[int] = []
    while size > 1 or not lengths:
        families = -(-size // FANOUT)
        lengths.append(families * FANOUT)
        size = families
    return [*lengths, 1]


def estimate(
    behavior: BehaviorSpec,
    buffer_size: int,
    *,
    priorities: bool = False,
    masks: bool = False,
    groups: bool = False,
    beside: int = 0,
) -> int:
    """Bytes of a replay buffer of ``buffer_size`` rows: with priorities, and with the arrays that action masks and
    group rewards add when the first one is seen. ``beside`` bytes of a row are no replay buffer's.
    """
    rows = -(-buffer_size // behavior.slots) * behavior.slots
    of_a_row = sum(o.size * o.dtype.itemsize for o in behavior.observations)
    of_a_row += 4 * behavior.continuous + choice_dtype(behavior.discrete).itemsize * len(behavior.discrete)
    of_a_row += 4 + 1 + beside  # reward and flags
    of_a_row += behavior.mask_size * masks + 4 * groups
    return rows * of_a_row + (8 * sum(tree_lengths(rows)) if priorities else 0)


def require_memory(
    behavior: BehaviorSpec,
    buffer_size: int,
    *,
    priorities: bool = False,
    masks: bool = False,
    groups: bool = False,
    beside: int = 0,
    in_use: int = 0,
    available: int | None = None,
    what: str | None = None,
) -> None:
    """Raise ConfigError if a replay buffer of ``buffer_size`` rows does not fit into memory.

    ``priorities``, ``masks`` and ``groups`` say whether the rows have those; ``beside`` is bytes per row besides;
    ``in_use`` bytes of the buffer are taken already. The message says what the buffer needs, what is ``available``
    (bytes; by default what the system has), and the largest buffer_size that fits. It begins with ``what``, the data
    at fault, or with the behavior's key ``hyperparameters.buffer_size``.
    """
    there = (available_memory() if available is None else available) + in_use

    def needed(size: int) -> int:
        return estimate(behavior, size, priorities=priorities, masks=masks, groups=groups, beside=beside)

    if needed(buffer_size) <= there:
        return
    fits, too_large = 0, buffer_size
    while too_large - fits > 1:
        middle = (fits + too_large) // 2
        fits, too_large = (middle, too_large) if needed(middle) <= there else (fits, middle)
    largest = f"at most {fits} fits" if fits else "not even one row fits"
    raise ConfigError(
        f"{'' if what is None else f'{what}: '}{buffer_size} rows of behavior {behavior.name!r} need "
        f"{_in_units(needed(buffer_size))} of memory and {_in_units(there)} are available; {largest}",
        key=("behaviors", behavior.name, "hyperparameters", "buffer_size") if what is None else (),
    )


def require_network_memory(width: int, layers: Sequence[int], available: int | None = None) -> None:
    """Raises ConfigError if hidden layers of these widths, the first behind ``width`` inputs, do not fit into memory.

    A weight that is learned takes four numbers: itself, its gradient, and the two moments of Adam.
    """
    weights = sum(before * units for before, units in pairwise((width, *layers)))
    if weights <= _SMALL:
        return
    there = available_memory() if available is None else available
    needed = 4 * np.dtype(np.float32).itemsize * weights
    if needed > there:
        raise ConfigError(
            f"network_settings: {len(layers)} layers of up to {max(layers)} hidden_units behind {width} inputs need "
            f"{_in_units(needed)} of memory to be learned and {_in_units(there)} are available; lower hidden_units"
        )


def available_memory(root: Path = Path("/")) -> int:
    """Bytes this process can still allocate: of the machine, and of every control group with a limit that it is in.

    Files a group has read count as used by it but are given up when memory is short, so they count as available.
    """
    import psutil  # only where the question is asked: reading PPO's code should not need it

    try:
        rooms = [int(psutil.virtual_memory().available)]
    except OSError:  # no /proc: nothing is known
        return sys.maxsize
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:  # not Linux
        return rooms[0]
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if not controllers:  # version 2; beside version 1 its tree is mounted elsewhere, without the memory controller
            top, limit, usage, cache = root / "sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"
        elif "memory" in controllers.split(","):
            top, cache = root / "sys/fs/cgroup/memory", "total_inactive_file"
            limit, usage = "memory.limit_in_bytes", "memory.usage_in_bytes"
        else:
            continue
        group = top / path.lstrip("/")
        while True:  # the group and those around it; in a container some of them cannot be seen
            room = _room(group, limit, usage, cache)
            if room is not None:
                rooms.append(room)
            if group == top or top not in group.parents:
                break
            group = group.parent
    return max(0, min(rooms))


def _room(group: Path, limit: str, usage: str, cache: str) -> int | None:
    """Bytes left in a control group; None where it has no limit, or is not there."""
    try:
        most = (group / limit).read_text().strip()
        if most == "max":
            return None
        used = int((group / usage).read_text())
        statistics = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
        return int(most) - used + min(used, int(statistics.get(cache, 0)))
    except (OSError, ValueError):
        return None


def _in_units(count: int) -> str:
    """``3.2 GiB``"""
    return f"{count / 2**30:.1f} GiB" if count >= 2**30 else f"{count / 2**20:.1f} MiB"
