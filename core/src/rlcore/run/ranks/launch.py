"""The environment variables with which ``torchrun`` starts a rank."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from uuid import UUID

from rlcore.contracts.ranks import Launch
from rlcore.errors import ConfigError

NAMES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
_NUMBER = re.compile(r"[0-9]{1,9}")
_ADDRESS = re.compile(r"[A-Za-z0-9_.:%-]{1,255}")  # a name of a host, or an IPv4 or IPv6 address
_LARGEST_PORT = 65535


def launched(environ: Mapping[str, str] = os.environ) -> Launch | None:
    """How ``torchrun`` started this process; None if it did not. Raises ConfigError for variables that do not fit.

    Processes of ``torchrun`` have all of the variables; another launcher may set some, and they mean nothing then.
    """
    if any(name not in environ for name in NAMES):
        return None
    numbers = {}
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_PORT", "TORCHELASTIC_RESTART_COUNT"):
        text = environ.get(name, "0")
        if not _NUMBER.fullmatch(text):
            raise _wrong(name, f"{text[:40]!r}, not a whole number of at most nine digits")
        numbers[name] = int(text)
    rank, size, local_rank = numbers["RANK"], numbers["WORLD_SIZE"], numbers["LOCAL_RANK"]
    if not rank < size:
        raise _wrong("RANK", f"{rank}, and WORLD_SIZE {size}")
    if local_rank > rank:  # a machine has ranks in a row
        raise _wrong("LOCAL_RANK", f"{local_rank}, and RANK {rank}")
    if numbers["MASTER_PORT"] > _LARGEST_PORT:
        raise _wrong("MASTER_PORT", f"{numbers['MASTER_PORT']}, and the largest port is {_LARGEST_PORT}")
    if not _ADDRESS.fullmatch(environ["MASTER_ADDR"]):
        raise _wrong("MASTER_ADDR", f"{environ['MASTER_ADDR'][:40]!r}, not the name or address of a host")
    return Launch(rank, size, local_rank, numbers["TORCHELASTIC_RESTART_COUNT"], _job(environ))


def _job(environ: Mapping[str, str]) -> str:
    """The id of the job, if it is a random one; otherwise with the process that started this one, and its start."""
    name = environ.get("TORCHELASTIC_RUN_ID", "")[:200]
    with suppress(ValueError):
        return str(UUID(name))
    starter = os.getppid()
    started = ""
    with suppress(OSError, IndexError):  # Linux: numbers of processes are used again
        started = Path(f"/proc/{starter}/stat").read_text().rpartition(")")[2].split()[19]
    return f"{name} {starter} {started}"


def _wrong(name: str, problem: str) -> ConfigError:
    return ConfigError(f"the environment variable {name} is {problem}; use torchrun")
