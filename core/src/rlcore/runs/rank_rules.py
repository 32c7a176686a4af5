"""What a run in several ranks supports: everything else is refused before the first step, never silently wrong."""

from __future__ import annotations

from typing import Protocol

from rlcore.distributed.ranks import Ranks
from rlcore.errors import ConfigError
from rlcore.plugins.calls import Plugins
from rlcore.plugins.records import TrainerSpec
from rlcore.settings import BehaviorSettings, RunConfig

_ONE = "run it in one process, without torchrun"


class _Declares(Protocol):
    """A record that says whether it may be used in several ranks."""

    @property
    def described(self) -> str: ...

    @property
    def ranks(self) -> bool: ...


def refuse_config_in_ranks(config: RunConfig, offline: bool) -> None:
    """Raise ConfigError for a run that several ranks cannot do at all."""
    if config.checkpoint_settings.inference:
        raise ConfigError(f"--inference acts in one process and learns nothing; {_ONE}")
    if offline:
        raise ConfigError(f"trainers that learn from recorded data step no environment to share among ranks; {_ONE}")


def refuse_in_ranks(
    name: str, settings: BehaviorSettings, trainer: TrainerSpec, plugins: Plugins, ranks: Ranks
) -> None:
    """Raise ConfigError for a behavior that does not learn as one in several ranks."""
    if ranks.size == 1:
        return
    key = ("behaviors", name)
    _require(trainer, (*key, "trainer_type"))
    for reference in settings.reward_signals:
        _require(plugins.reward_provider(reference), (*key, "reward_signals", reference))
    if settings.behavioral_cloning is not None:
        raise ConfigError(f"does not learn in several ranks; {_ONE}", key=(*key, "behavioral_cloning"))
    for section, block in settings.sections.items():
        if block is not None:
            raise ConfigError(f"does not work in several ranks; {_ONE}", key=(*key, section))


def _require(record: _Declares, key: tuple[str, ...]) -> None:
    if not record.ranks:
        raise ConfigError(
            f"{record.described} does not declare that it learns in several ranks (`ranks` of its record); {_ONE}",
            key=key,
        )
