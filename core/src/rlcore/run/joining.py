"""Joins the ranks of a run, if ``torchrun`` started this process."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

import attrs

from rlcore.errors import ConfigError
from rlcore.plugins.known import RANKS
from rlcore.ranks.launch import Launch
from rlcore.ranks.ranks import OneRank, Ranks
from rlcore.settings import CheckpointSettings, RunConfig
from rlcore.storage.checkpoints import find_checkpoints
from rlcore.storage.directory import RunDirectory
from rlcore.storage.run_files import read_mark


def join_ranks(launch: Launch | None, config: RunConfig, stop_requested: Callable[[], bool]) -> Ranks:
    """Meet the other ranks of the run. Raises RanksFailed if one of them does not come, ConfigError without PyTorch."""
    if launch is None or launch.size == 1:
        return OneRank()
    try:
        module = import_module(RANKS)
    except ModuleNotFoundError as error:
        package = RANKS.partition(".")[0].replace("_", "-")
        raise ConfigError(f"ranks of torchrun exchange with PyTorch ({error}); pip install {package}") from error
    ranks: Ranks = module.TorchRanks(launch, config.torch_settings.rank_timeout, stop_requested)
    return ranks


def directory_of_rank(launch: Launch | None, settings: CheckpointSettings) -> RunDirectory:
    """The run directory as this rank uses it: rank 0 writes, and resumes what an earlier attempt of torchrun saved."""
    if launch is None:
        return RunDirectory(settings)
    if not launch.leads:
        return RunDirectory(settings, read_only=True)
    if launch.restarts and not settings.resume:
        settings = restarted(settings, launch.job)
    return RunDirectory(settings, launch.job)


def restarted(settings: CheckpointSettings, job: str) -> CheckpointSettings:
    """The settings of a run that torchrun started again: resume its last checkpoint, or replace a run without one.

    Settings stay as they are if the run that is there was not begun by an earlier attempt of the same ``job``.
    """
    there = RunDirectory(settings)
    mark = read_mark(there.path)
    if mark is None or mark.job != job:
        return settings
    if find_checkpoints(there.checkpoints):
        return attrs.evolve(settings, resume=True, force=False)
    return attrs.evolve(settings, force=True)
