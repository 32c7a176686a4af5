"""Joins a run in several ranks: refuses what they do not support, chooses the directory, and meets the other ranks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from rlcore.contracts.ranks import Launch, OneRank, Ranks, share_environments
from rlcore.contracts.trainer import Trainer, TrainerWrapper
from rlcore.errors import ConfigError
from rlcore.plugins.call import Plugins
from rlcore.plugins.known import RANKS_ADVICE
from rlcore.records import BehaviorSection
from rlcore.settings import BehaviorSettings, CheckpointSettings, RunConfig
from rlcore.storage.checkpoints import find_checkpoints
from rlcore.storage.directory import RunDirectory
from rlcore.storage.run_files import read_mark

_ONE = "run it in one process, without torchrun"


def join_ranks(launch: Launch, config: RunConfig, plugins: Plugins, stop_requested: Callable[[], bool]) -> Ranks:
    """Meet the other ranks of the run.

    Raises RanksFailed if one of them does not come, and ConfigError if no plugin exchanges between ranks.
    """
    if launch.size == 1:
        return OneRank()
    ranks = plugins.create_ranks(launch, config, stop_requested)
    if ranks is None:
        raise ConfigError(f"torchrun started {launch.size} ranks, and no plugin exchanges between them; {RANKS_ADVICE}")
    return ranks


def directory_of_rank(launch: Launch, settings: CheckpointSettings) -> RunDirectory:
    """The run directory as this rank uses it: rank 0 writes, and resumes what an earlier attempt of torchrun saved."""
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


def refuse_in_ranks(config: RunConfig, plugins: Plugins, offline: bool, size: int) -> None:
    """Raise ConfigError for a run that ``size`` ranks do not support."""
    if size == 1:
        return
    if config.checkpoint_settings.inference:
        raise ConfigError(f"--inference acts in one process and learns nothing; {_ONE}")
    if offline:
        raise ConfigError(f"trainers that learn from recorded data step no environment to share among ranks; {_ONE}")
    share_environments(config.num_envs, 0, size)
    blocks: dict[tuple[str, ...], BehaviorSettings] = {
        ("behaviors", name): settings for name, settings in config.behaviors.items()
    }
    if config.default_settings is not None:
        blocks["default_settings",] = config.default_settings
    for key, settings in blocks.items():
        _refuse_behavior(key, settings, plugins)


def refuse_wrappers(trainer: Trainer, behavior: str) -> None:
    """Raise ConfigError for a trainer around ``trainer`` that does not declare that it learns in several ranks."""
    while isinstance(trainer, TrainerWrapper):
        if not trainer.learns_in_ranks:
            raise ConfigError(
                f"a plugin put a {type(trainer).__name__} around the trainer, which does not declare that it learns in "
                f"several ranks (`learns_in_ranks`); {_ONE}, or turn the plugin off",
                key=("behaviors", behavior),
            )
        trainer = trainer.trainer


def _refuse_behavior(key: tuple[str, ...], settings: BehaviorSettings, plugins: Plugins) -> None:
    """Raise ConfigError for a behavior that does not learn as one in several ranks."""
    _require(plugins.trainer(settings.trainer_type), (*key, "trainer_type"))
    for reference in settings.reward_signals:
        _require(plugins.reward_provider(reference), (*key, "reward_signals", reference))
    sampler = getattr(settings.hyperparameters, "replay_sampler", None)
    if sampler is not None:
        record: Any = plugins.record_of_kind("replay_sampler", sampler.type)
        _require(record, (*key, "hyperparameters", "replay_sampler", "type"))
    for section, block in settings.sections.items():
        if block is not None:
            _require(plugins.record(BehaviorSection, section), (*key, section))


def _require(record: Any, key: tuple[str, ...]) -> None:
    if not record.ranks:
        raise ConfigError(
            f"{record.described} does not declare that it learns in several ranks (`ranks` of its record); {_ONE}",
            key=key,
        )
