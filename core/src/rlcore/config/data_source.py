"""Whether a run learns in an environment or from recorded data. One run cannot do both."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlcore.config.collected import Problems
from rlcore.errors import dotted
from rlcore.settings import BehaviorSettings, RunConfig

if TYPE_CHECKING:
    from rlcore.plugins.call import Plugins


def learns_offline(config: RunConfig, plugins: Plugins) -> bool:
    """Whether the trainers of ``config`` learn from recorded data, without an environment."""
    return any(_is_offline(settings, plugins) for settings in config.behaviors.values())


def check_data_source(config: RunConfig, plugins: Plugins, problems: Problems) -> None:
    """Refuse trainers of both kinds in one run, and recorded data without the name of its behavior."""
    defaults = config.default_settings
    if not config.behaviors and defaults is not None and _is_offline(defaults, plugins):
        problems.add(
            ("behaviors",),
            f"trainer {defaults.trainer_type!r} learns from recorded data, and no environment names the behavior; list "
            "the behavior here by the name it was recorded under",
        )
    offline = [name for name, settings in config.behaviors.items() if _is_offline(settings, plugins)]
    online = [name for name in config.behaviors if name not in offline]
    if offline and online:
        name, other = offline[0], online[0]
        problems.add(
            ("behaviors", name, "trainer_type"),
            f"{config.behaviors[name].trainer_type!r} learns from recorded data, but "
            f"{config.behaviors[other].trainer_type!r} of {dotted(('behaviors', other))} learns in an environment; one "
            "run cannot do both, so write a configuration for each",
        )


def _is_offline(settings: BehaviorSettings, plugins: Plugins) -> bool:
    return plugins.trainer(settings.trainer_type).offline
