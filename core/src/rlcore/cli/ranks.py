"""The output of a rank of ``torchrun``: rank 0 prints all that a run prints, the others only errors of their own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from time import sleep

from rlcore.contracts.ranks import Launch
from rlcore.errors import ConfigError, RlcoreError
from rlcore.run.ranks.launch import launched

# For the first rank of a machine to print its error before torchrun ends it because another rank has ended.
SECONDS_TO_REPORT = 10.0


@contextmanager
def first_rank_reports(launch: Launch | None) -> Iterator[None]:
    """Leave an error of the block, which all ranks of a machine have, to the first of them."""
    try:
        yield
    except RlcoreError as error:
        if launch is not None and launch.local_rank:
            sleep(SECONDS_TO_REPORT)
            os._exit(error.exit_code)
        raise


def named(text: str) -> str:
    """``text`` of an error with the rank that it is of, if there are several."""
    try:
        launch = launched()
    except ConfigError:  # which is the error: the variables of torchrun say nothing
        launch = None
    return text if launch is None or launch.size == 1 else f"rank {launch.rank}: {text}"
