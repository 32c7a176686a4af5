"""Whether buffers and networks fit into memory, asked before anything is allocated."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from rlcore import BehaviorSpec, ConfigError

__all__ = ["require_memory"]

_SMALL = 1_000_000  # weights, which fit anywhere


def choice_dtype(discrete: tuple[int, ...]) -> np.dtype[Any]:
    """The smallest unsigned integers that hold a choice of every branch."""
    return np.dtype(np.min_scalar_type(max(discrete, default=1) - 1))


def require_memory(behavior: BehaviorSpec, rows: int, *, beside: int = 0, what: str | None = None) -> None:
    """Raise ConfigError if ``rows`` transitions of ``behavior``, action masks included, do not fit into memory.

    ``beside`` is bytes of a row besides. The message begins with ``what``, the data at fault, or with the behavior's
    key ``hyperparameters.buffer_size``.
    """
    row = sum(o.size * o.dtype.itemsize for o in behavior.observations)  # bytes
    row += np.dtype(np.float32).itemsize * behavior.continuous
    row += choice_dtype(behavior.discrete).itemsize * len(behavior.discrete)
    row += behavior.mask_size + 4 + 1 + beside  # reward and flags
    available = available_memory()
    if rows * row <= available:
        return
    problem = (
        f"{rows} rows of behavior {behavior.name!r} need {_in_units(rows * row)} of memory and {_in_units(available)} "
        f"are available; at most {available // row} fits"
    )
    if what is not None:
        raise ConfigError(f"{what}: {problem}")
    raise ConfigError(problem, key=("behaviors", behavior.name, "hyperparameters", "buffer_size"))


def require_network_memory(width: int, layers: Sequence[int]) -> None:
    """Raises ConfigError if hidden layers of these widths, the first behind ``width`` inputs, do not fit into memory.

    A weight that is learned takes four numbers: itself, its gradient, and the two moments of Adam.
    """
    weights = sum(before * units for before, units in pairwise((width, *layers)))
    if weights <= _SMALL:
        return
    needed = 4 * np.dtype(np.float32).itemsize * weights
    available = available_memory()
    if needed > available:
        raise ConfigError(
            f"network_settings: {len(layers)} layers of up to {max(layers)} hidden_units behind {width} inputs need "
            f"{_in_units(needed)} of memory to be learned and {_in_units(available)} are available; lower hidden_units"
        )


def available_memory(root: Path = Path("/")) -> int:
    """Bytes this process can still allocate: of the machine, of `ulimit -v`, and of every control group with a limit.

    Files a group has read count as used by it but are given up when memory is short, so they count as available.
    """
    import psutil  # only where the question is asked: reading PPO's code should not need it

    try:
        rooms = [int(psutil.virtual_memory().available)]
    except OSError:  # no /proc: nothing is known
        return sys.maxsize
    rooms.append(_address_space())
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:  # not Linux
        return max(0, min(rooms))
    top = root / "sys/fs/cgroup"
    for line in lines:
        if not line.startswith("0::"):  # of version 1
            continue
        group = top / line.removeprefix("0::").lstrip("/")
        # The group and those around it; in a container some of them cannot be seen.
        groups = [path for path in (group, *group.parents) if path.is_relative_to(top)]
        rooms += [_room(path) for path in groups]
    return max(0, min(rooms))


def _address_space() -> int:
    """Bytes left below the limit of addresses, `ulimit -v`; a large number where there is none."""
    try:
        import resource  # only POSIX has it
    except ImportError:
        return sys.maxsize
    import psutil

    most, _ = resource.getrlimit(resource.RLIMIT_AS)
    if most == resource.RLIM_INFINITY:
        return sys.maxsize
    return most - int(psutil.Process().memory_info().vms)


def _room(group: Path) -> int:
    """Bytes left in a control group of version 2; a large number where it has no limit, or is not there."""
    try:
        most = int((group / "memory.max").read_text())
        used = int((group / "memory.current").read_text())
        lines = (group / "memory.stat").read_text().splitlines()
        statistics = dict(line.split() for line in lines)
        files = int(statistics.get("inactive_file", 0))
        return most - used + min(used, files)
    except (OSError, ValueError):
        return sys.maxsize


def _in_units(count: int) -> str:
    """``3.2 GiB``"""
    return f"{count / 2**30:.1f} GiB" if count >= 2**30 else f"{count / 2**20:.1f} MiB"
