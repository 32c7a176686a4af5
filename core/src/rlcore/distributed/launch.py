"""The environment variables with which ``torchrun`` starts a rank."""

from __future__ import annotations

import os
from collections.abc import Mapping

import attrs

from rlcore.errors import ConfigError

NAMES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")


@attrs.frozen
class Launch:
    """How ``torchrun`` started this process.

    Attributes:
        rank: Number of the process, from 0.
        size: Number of processes.
        local_rank: Number of the process on its machine, which is the number of its GPU.
        restarts: How often ``torchrun`` started the processes again after one had failed.
    """

    rank: int
    size: int
    local_rank: int
    restarts: int = 0

    @property
    def leads(self) -> bool:
        """Whether the process is rank 0, which writes and prints."""
        return self.rank == 0


def launched(environ: Mapping[str, str] = os.environ) -> Launch | None:
    """How ``torchrun`` started this process; None if it did not. Raises ConfigError for variables that do not fit.

    Processes of ``torchrun`` have all of the variables; another launcher may set some, and they mean nothing then.
    """
    if any(name not in environ for name in NAMES):
        return None
    numbers = {}
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "TORCHELASTIC_RESTART_COUNT"):
        text = environ.get(name, "0")
        if not text.isdecimal():
            raise ConfigError(f"the environment variable {name} is {text!r}, not a whole number; use torchrun")
        numbers[name] = int(text)
    rank, size = numbers["RANK"], numbers["WORLD_SIZE"]
    if not rank < size:
        raise ConfigError(f"the environment variable RANK is {rank}, and WORLD_SIZE {size}; use torchrun")
    return Launch(rank, size, numbers["LOCAL_RANK"], numbers["TORCHELASTIC_RESTART_COUNT"])
