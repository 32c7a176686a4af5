"""Core's own answers to the factory hooks. They are called last, so that any plugin may answer first or wrap them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlcore.plugins.markers import hookimpl
from rlcore.plugins.targets import call_target
from rlcore.records import (
    CurriculumSpec,
    EnvironmentSpec,
    ExporterSpec,
    RewardProviderSpec,
    StatsWriterSpec,
    TrainerSpec,
)

if TYPE_CHECKING:
    from rlcore.contracts.environment import BehaviorSpec
    from rlcore.plugins.run_context import RunContext
    from rlcore.settings import BehaviorSettings, EnvironmentSettings, ExportSettings

DEFAULTS_NAME = "rlcore-defaults"


class CoreDefaults:
    """Factories import the record's target and call it; the status is kept in ``training_status.json``."""

    @hookimpl(trylast=True)
    def rlcore_create_trainer(
        self, spec: TrainerSpec, settings: BehaviorSettings, behavior: BehaviorSpec, run: RunContext
    ) -> Any:
        return call_target(spec, "rlcore_create_trainer", settings=settings, behavior=behavior, run=run)

    @hookimpl(trylast=True)
    def rlcore_create_reward_provider(
        self, spec: RewardProviderSpec, settings: Any, behavior: BehaviorSpec, run: RunContext
    ) -> Any:
        return call_target(spec, "rlcore_create_reward_provider", settings=settings, behavior=behavior, run=run)

    @hookimpl(trylast=True)
    def rlcore_create_stats_writer(self, spec: StatsWriterSpec, settings: Any, run: RunContext) -> Any:
        return call_target(spec, "rlcore_create_stats_writer", settings=settings, run=run)

    @hookimpl(trylast=True)
    def rlcore_create_environment(self, spec: EnvironmentSpec, settings: EnvironmentSettings, run: RunContext) -> Any:
        return call_target(spec, "rlcore_create_environment", settings=settings, run=run)

    @hookimpl(trylast=True)
    def rlcore_create_curriculum(self, spec: CurriculumSpec, settings: Mapping[str, Any], run: RunContext) -> Any:
        return call_target(spec, "rlcore_create_curriculum", settings=settings, run=run)

    @hookimpl(trylast=True)
    def rlcore_create_exporter(self, spec: ExporterSpec, settings: ExportSettings, run: RunContext) -> Any:
        return call_target(spec, "rlcore_create_exporter", settings=settings, run=run)

    @hookimpl(trylast=True)
    def rlcore_write_status(self, status: Mapping[str, Any], directory: Path) -> bool:
        from rlcore.plugins.status_file import write_status_file

        write_status_file(status, directory)
        return True

    @hookimpl(trylast=True)
    def rlcore_read_status(self, directory: Path) -> Mapping[str, Any] | None:
        from rlcore.plugins.status_file import read_status_file

        return read_status_file(directory)
