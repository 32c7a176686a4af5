"""The fixtures that authors of plugins use: rlcore's own tests are their first user."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rlcore import Plugins, TrainerSpec, hookimpl, load_plugins, selection_from
from rlcore_devkit.fixtures import clean_import, hook_calls, installed_plugin, plugins, run_rlcore

__all__ = ["clean_import", "hook_calls", "installed_plugin", "plugins", "run_rlcore"]


class Trainers:
    """A plugin of trainers."""

    def __init__(self, *records: TrainerSpec) -> None:
        self.records = records

    @hookimpl
    def rlcore_trainers(self) -> tuple[TrainerSpec, ...]:
        return self.records


@pytest.fixture
def plugin_of() -> Callable[..., object]:
    """``plugin_of(record, ...)``: a plugin with these trainers."""
    return Trainers


@pytest.fixture
def bare() -> Plugins:
    """The plugin of the core, and a trainer."""
    loaded = load_plugins(selection_from(None, {}, (), True))
    loaded.register(Trainers(TrainerSpec(name="ppo", target="a:b", settings="rlcore:RewardSettings")), "trainers")
    return loaded
