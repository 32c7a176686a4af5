"""Creates the objects that records describe, through the factory hooks of plugins.

Every object is checked against its protocol, so that an error names the plugin that created it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from rlcore.plugins.discover import Plugin
from rlcore.plugins.factories import require_protocol, require_space
from rlcore.plugins.manager import Dispatch
from rlcore.plugins.select import Selection
from rlcore.records import (
    BehaviorSection,
    CurriculumSpec,
    EnvironmentSpec,
    ExporterSpec,
    Record,
    RewardProviderSpec,
    StatsWriterSpec,
    TrainerSpec,
)

if TYPE_CHECKING:
    from rlcore.contracts.curriculum import Curriculum
    from rlcore.contracts.environment import BehaviorSpec, Environment
    from rlcore.contracts.exporters import Exporter
    from rlcore.contracts.rewards import RewardProvider
    from rlcore.contracts.stats import StatsWriter
    from rlcore.contracts.trainer import Trainer
    from rlcore.plugins.context import RunContext
    from rlcore.settings import BehaviorSettings, EnvironmentSettings, ExportSettings

__all__ = ["Factories"]


class Factories:
    """The methods of :class:`rlcore.Plugins` that create what records describe.

    Each method raises PluginError if the created object does not fit its protocol, or if its plugin raises.
    """

    def __init__(self, dispatch: Dispatch, selection: Selection, found: tuple[Plugin, ...]) -> None:
        self._dispatch = dispatch
        self.selection = selection
        self.found = found

    def create_trainer(
        self,
        spec: TrainerSpec,
        settings: BehaviorSettings,
        behavior: BehaviorSpec,
        run: RunContext,
        *,
        without: str | None = None,
    ) -> Trainer:
        """The trainer of ``behavior``.

        ``without`` is the name of a plugin that is not asked: one that answers ``rlcore_create_trainer`` itself, with a
        trainer around this one. ``behavior`` and ``settings`` may differ from those that the plugin received.
        """
        from rlcore.contracts.trainer import Trainer

        require_space(spec, behavior)
        hook = "rlcore_create_trainer"
        with self._dispatch.leaving_out(without):
            return cast(Trainer, self._create(hook, Trainer, spec, settings=settings, behavior=behavior, run=run))

    def create_reward_provider(
        self, spec: RewardProviderSpec, settings: Any, behavior: BehaviorSpec, run: RunContext
    ) -> RewardProvider:
        """Create a reward provider with ``rlcore_create_reward_provider``, and check it. Raises PluginError."""
        from rlcore.contracts.rewards import RewardProvider

        hook = "rlcore_create_reward_provider"
        created = self._create(hook, RewardProvider, spec, settings=settings, behavior=behavior, run=run)
        return cast(RewardProvider, created)

    def create_stats_writer(self, spec: StatsWriterSpec, settings: Any, run: RunContext) -> StatsWriter:
        """Create a statistics writer with ``rlcore_create_stats_writer``, and check it. Raises PluginError."""
        from rlcore.contracts.stats import StatsWriter

        created = self._create("rlcore_create_stats_writer", StatsWriter, spec, settings=settings, run=run)
        return cast(StatsWriter, created)

    def create_curriculum(self, spec: CurriculumSpec, settings: Mapping[str, Any], run: RunContext) -> Curriculum:
        """The curriculum of all environment parameters in ``settings``, which holds the block of each."""
        from rlcore.contracts.curriculum import Curriculum

        created = self._create("rlcore_create_curriculum", Curriculum, spec, settings=settings, run=run)
        return cast(Curriculum, created)

    def create_exporter(self, spec: ExporterSpec, settings: ExportSettings, run: RunContext) -> Exporter:
        """Create an exporter with ``rlcore_create_exporter``, and check it. Raises PluginError."""
        from rlcore.contracts.exporters import Exporter

        created = self._create("rlcore_create_exporter", Exporter, spec, settings=settings, run=run)
        return cast(Exporter, created)

    def create_environment(self, spec: EnvironmentSpec, settings: EnvironmentSettings, run: RunContext) -> Environment:
        """Create an environment with ``rlcore_create_environment``, and check it. Raises PluginError."""
        from rlcore.contracts.environment import Environment

        created = self._create("rlcore_create_environment", Environment, spec, settings=settings, run=run)
        return cast(Environment, created)

    def _create(self, hook: str, protocol: type, spec: Record, **arguments: Any) -> object:
        """The first answer to a factory hook, which must fit ``protocol``; plugins that took part are noted.

        Raises PluginError if one is missing that took part when the checkpoint of the run was saved.
        """
        from rlcore.plugins.context import RunContext

        run = arguments["run"]
        if isinstance(run, RunContext):  # tests of plugins may give something else
            now = self._dispatch.implementing(hook)
            run.factories.check(hook, run.purpose == "train", now, self.found, self.selection)
        created, took_part, makers = self._dispatch.create(hook, spec=spec, **arguments)
        named = " or ".join(dict.fromkeys(plugin.described for plugin in makers))
        require_protocol(created, protocol, f"{named}: {hook}" if named else spec.described)
        if isinstance(run, RunContext):
            # A measurement does without a block of a behavior whose plugin is absent, and training refuses the block.
            blocks = arguments["settings"].sections if hook == "rlcore_create_trainer" else {}
            claimed = [name for name, block in blocks.items() if block is not None]
            owners = [run.plugins.record(BehaviorSection, name).plugin for name in claimed]
            run.factories.add(hook, [plugin for plugin in took_part if plugin not in owners])
        return created
