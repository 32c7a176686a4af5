"""Rules for a run in several ranks: what ranks do not support is refused before the first step."""

from __future__ import annotations

from typing import Any, Protocol

from rlcore.contracts.trainer import Trainer, TrainerWrapper
from rlcore.errors import ConfigError
from rlcore.plugins.call import Plugins
from rlcore.ranks.shares import share_environments
from rlcore.records import BehaviorSection
from rlcore.settings import BehaviorSettings, RunConfig

_ONE = "run it in one process, without torchrun"


class _Declares(Protocol):
    """A record that says whether it may be used in several ranks."""

    @property
    def described(self) -> str: ...

    @property
    def ranks(self) -> bool: ...


def refuse_in_ranks(config: RunConfig, plugins: Plugins, offline: bool, size: int) -> None:
    """Raise ConfigError for a run that ``size`` ranks, more than one, do not support."""
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


def _require(record: _Declares, key: tuple[str, ...]) -> None:
    if not record.ranks:
        raise ConfigError(
            f"{record.described} does not declare that it learns in several ranks (`ranks` of its record); {_ONE}",
            key=key,
        )
