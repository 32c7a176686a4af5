"""The run that tests of trainers give to a trainer that is made alone."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from rlcore import ExtrinsicReward, Ranks, Recording, RewardProvider, RunConfig, load_plugins

installed = cache(load_plugins)  # the runs of a property differ in other things


def run_of(
    *rewards: RewardProvider,
    seed: int = 1,
    inference: bool = False,
    read_recording: Callable[..., Recording] | None = None,
) -> Any:
    """One rank and the plugins that are installed. Without ``rewards``, that of the environment."""
    return SimpleNamespace(
        config=RunConfig(),
        seed=seed,
        ranks=Ranks(),
        first_env=0,
        inference=inference,
        create_reward_providers=lambda *_: [*rewards] or [ExtrinsicReward()],
        read_recording=read_recording,
        plugins=installed(),
        directory=Path("not-made"),
        stash={},
    )
