"""A process that saves checkpoints with parts that never change, and is killed at one of its calls of the system."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from rlcore import FrozenState, save_checkpoint
from rlcore.storage.checkpoints import is_intact, rotate

CHANGES = ("fsync", "link", "unlink", "rmdir", "rename", "replace", "mkdir", "chmod")  # functions of os


def policy(seed: int) -> dict[str, Any]:
    return {"model": {"weights": np.random.default_rng(seed).standard_normal(50).astype(np.float32)}, "step": seed}


def save(directory: Path, step: int) -> None:
    """Save the policies of the steps around ``step``; neighbors have two of three in common. Two checkpoints stay."""
    pool = [FrozenState(policy(seed)) for seed in range(step - 1, step + 2)]
    save_checkpoint(directory, step, {"Agent": {"pool": pool}})
    rotate(directory, 2, step, is_intact)


def save_until_killed(directory: str, calls: int) -> None:
    """Save the checkpoint of step 3 after those of 1 and 2; SIGKILL comes before the call after that many."""
    place, left = Path(directory), calls
    save(place, 1)
    save(place, 2)

    def killing(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **keywords: Any) -> Any:
            nonlocal left
            left -= 1
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return original(*arguments, **keywords)

        return call

    assert shutil.rmtree.avoids_symlink_attacks  # it deletes with os.unlink and os.rmdir
    for name in CHANGES:
        setattr(os, name, killing(getattr(os, name)))
    save(place, 3)
