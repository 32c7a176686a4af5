"""Core's own answers to the factory hooks: asked last, so that any plugin may answer first or wrap them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlcore.plugins.markers import hookimpl
from rlcore.plugins.records import EnvironmentSpec, Record, RewardProviderSpec, StatsWriterSpec, TrainerSpec

if TYPE_CHECKING:
    from collections.abc import Callable

    from rlcore.environment import BehaviorSpec
    from rlcore.plugins.run_context import RunContext
    from rlcore.settings import BehaviorSettings, EnvironmentSettings

DEFAULTS_NAME = "rlcore-defaults"


class CoreDefaults:
    """Imports the target of a record and calls it with the arguments that the record's class documents."""

    def __init__(self, make: Callable[..., Any]) -> None:
        self._make = make  # make(record, hook, *arguments), the facade's: it knows whose record it is

    @hookimpl(trylast=True)
    def rlcore_create_trainer(
        self, spec: TrainerSpec, settings: BehaviorSettings, behavior: BehaviorSpec, run: RunContext
    ) -> Any:
        return self._call("rlcore_create_trainer", spec, behavior, settings, run)

    @hookimpl(trylast=True)
    def rlcore_create_reward_provider(
        self, spec: RewardProviderSpec, settings: Any, behavior: BehaviorSpec, run: RunContext
    ) -> Any:
        return self._call("rlcore_create_reward_provider", spec, settings, behavior, run)

    @hookimpl(trylast=True)
    def rlcore_create_stats_writer(self, spec: StatsWriterSpec, settings: Any, run: RunContext) -> Any:
        return self._call("rlcore_create_stats_writer", spec, settings, run)

    @hookimpl(trylast=True)
    def rlcore_create_environment(self, spec: EnvironmentSpec, settings: EnvironmentSettings, run: RunContext) -> Any:
        return self._call("rlcore_create_environment", spec, settings, run)

    @hookimpl(trylast=True)
    def rlcore_write_status(self, status: Mapping[str, Any], directory: Path) -> bool:
        from rlcore.plugins.status_file import write_status_file

        write_status_file(status, directory)
        return True

    @hookimpl(trylast=True)
    def rlcore_read_status(self, directory: Path) -> Mapping[str, Any] | None:
        from rlcore.plugins.status_file import read_status_file

        return read_status_file(directory)

    def _call(self, hook: str, record: Record, *arguments: Any) -> Any:
        return self._make(record, hook, *arguments)
