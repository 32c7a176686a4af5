"""Refusals of what a run in several ranks does not support."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rlcore import BehaviorSection, BehaviorSettings, ConfigError, Registry, RewardProviderSpec, RunConfig, TrainerSpec
from rlcore_torch.hookspecs import ReplaySamplerSpec

UNIFORM = "rlcore_torch.off_policy.replay_sampler:UniformSampler"
ONE = "run it in one process, without torchrun"


def refuse_in_ranks(config: RunConfig, plugins: Registry, size: int) -> None:
    """Raise ConfigError for a run that ``size`` ranks do not support."""
    if config.checkpoint_settings.inference:
        raise ConfigError(f"--inference acts in one process and learns nothing; {ONE}")
    blocks: list[tuple[tuple[str, ...], BehaviorSettings | None]] = [
        *((("behaviors", name), settings) for name, settings in config.behaviors.items()),
        (("default_settings",), config.default_settings),
    ]
    for block, settings in blocks:
        if settings is None:
            continue
        for record, *key in _records_of(settings, plugins):
            if not record.ranks:
                raise ConfigError(
                    f"{record.described} does not declare that it learns in several ranks (`ranks` of its record); "
                    f"{ONE}",
                    key=(*block, *key),
                )
        _refuse_sampler(block, settings, plugins)
    if config.num_envs < size:
        raise ConfigError(
            f"is {config.num_envs}, and torchrun started {size} ranks: each rank steps at least one of the "
            f"environments; raise it, or start {config.num_envs}",
            key=("environment", "num_envs"),
        )


def _refuse_sampler(block: tuple[str, ...], settings: BehaviorSettings, plugins: Registry) -> None:
    """Raise ConfigError for a replay sampler of a plugin: the ranks draw uniform samples of their joined buffers."""
    chosen = getattr(settings.hyperparameters, "replay_sampler", None)
    if chosen is None:
        return
    record = plugins.record(ReplaySamplerSpec, chosen.type)
    # By its target, which a plugin cannot have by declaring a name.
    if record.target != UNIFORM:
        raise ConfigError(
            f"{record.described} declares that it learns in several ranks, and ranks sample uniformly from their "
            f"joined replay buffers, without it; leave replay_sampler out, or {ONE}",
            key=(*block, "hyperparameters", "replay_sampler", "type"),
        )


def _records_of(settings: BehaviorSettings, plugins: Registry) -> Iterator[tuple[Any, ...]]:
    """The records of what learns in a behavior, each with the keys that name it in the behavior's block."""
    yield plugins.record(TrainerSpec, settings.trainer_type), "trainer_type"
    for reference in settings.reward_signals:
        yield plugins.record(RewardProviderSpec, reference), "reward_signals", reference
    sampler = getattr(settings.hyperparameters, "replay_sampler", None)
    if sampler is not None:
        yield plugins.record(ReplaySamplerSpec, sampler.type), "hyperparameters", "replay_sampler", "type"
    for section, block in settings.sections.items():
        if block is not None:
            yield plugins.record(BehaviorSection, section), section
