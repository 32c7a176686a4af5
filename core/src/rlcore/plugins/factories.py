"""Creates the objects that records describe, through the factory hooks of plugins.

Core's own answer to such a hook is the record's target, imported and called. Every object is checked against its
protocol, so that an error names the plugin that created it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from rlcore.errors import PluginError, UnsupportedSpace
from rlcore.plugins.contract import PORTING, added
from rlcore.plugins.discover import Plugin
from rlcore.plugins.failures import blamed, failure
from rlcore.plugins.manager import HookManager
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
    from rlcore.settings.blocks import BehaviorSettings, EnvironmentSettings, ExportSettings


class Factories:
    """The methods of :class:`rlcore.Plugins` that create what records describe.

    Each method raises PluginError if the created object does not fit its protocol, or if its plugin raises.
    """

    def __init__(self, manager: HookManager, selection: Selection, found: tuple[Plugin, ...]) -> None:
        self._manager = manager
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
        with self._manager.leaving_out(without):
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

        return cast(Curriculum, self._called(Curriculum, spec, settings=settings, run=run))

    def create_exporter(self, spec: ExporterSpec, settings: ExportSettings, run: RunContext) -> Exporter:
        """Create an exporter, and check it. Raises PluginError."""
        from rlcore.contracts.exporters import Exporter

        return cast(Exporter, self._called(Exporter, spec, settings=settings, run=run))

    def create_environment(self, spec: EnvironmentSpec, settings: EnvironmentSettings, run: RunContext) -> Environment:
        """Create an environment with ``rlcore_create_environment``, and check it. Raises PluginError."""
        from rlcore.contracts.environment import Environment

        created = self._create("rlcore_create_environment", Environment, spec, settings=settings, run=run)
        return cast(Environment, created)

    def _called(self, protocol: type, spec: Record, **arguments: Any) -> object:
        """The answer of the record's target, for which there is no hook."""
        created = call_target(spec, f"{type(spec).__name__}.target", **arguments)
        require_protocol(created, protocol, spec.described)
        return created

    def _create(self, hook: str, protocol: type, spec: Record, **arguments: Any) -> object:
        """The first answer to a factory hook, which must fit ``protocol``; plugins that took part are noted.

        Raises PluginError if one is missing that took part when the checkpoint of the run was saved.
        """
        from rlcore.plugins.context import RunContext

        run = arguments["run"]
        if isinstance(run, RunContext):  # tests of plugins may give something else
            now = self._manager.implementing(hook)
            run.factories.check(hook, run.purpose == "train", now, self.found, self.selection)

        def target_called(spec: Record, **given: Any) -> object:
            return call_target(spec, hook, **given)

        created, took_part, makers = self._manager.create(hook, target_called, spec=spec, **arguments)
        named = " or ".join(dict.fromkeys(plugin.described for plugin in makers))
        require_protocol(created, protocol, f"{named}: {hook}" if named else spec.described)
        if isinstance(run, RunContext):
            # A measurement does without a block of a behavior whose plugin is absent, and training refuses the block.
            blocks = arguments["settings"].sections if hook == "rlcore_create_trainer" else {}
            claimed = [name for name, block in blocks.items() if block is not None]
            owners = [run.plugins.record(BehaviorSection, name).plugin for name in claimed]
            run.factories.add(hook, [plugin for plugin in took_part if plugin not in owners])
        return created


def call_target(record: Record, hook: str, **arguments: Any) -> Any:
    """Core's answer to a factory hook: the record's target called with ``arguments``. The record is to blame."""
    target = record.resolve()
    with blamed(record.described, f"in {hook}"):
        return target(**arguments)


def require_space(spec: TrainerSpec, behavior: BehaviorSpec) -> None:
    """UnsupportedSpace if the behavior's actions are not of a kind that the trainer's record declares."""
    if behavior.continuous and behavior.discrete:
        kind = "hybrid"
    else:
        kind = "continuous" if behavior.continuous else "discrete"
    if kind not in spec.spaces:
        raise UnsupportedSpace(
            f"behavior {behavior.name!r} has {kind} actions and trainer {spec.name!r} learns "
            f"{' or '.join(sorted(spec.spaces))} ones only; choose another trainer_type"
        )


def require_protocol(value: object, protocol: type, described: str) -> None:
    """PluginError naming what ``value`` lacks of a protocol class."""
    members = {
        name
        for name, member in vars(protocol).items()
        if (callable(member) or isinstance(member, property)) and not name.startswith("_")
    }
    members |= set(getattr(protocol, "__annotations__", {}))
    try:
        missing = sorted(member for member in members if not hasattr(value, member))
    except (Exception, SystemExit) as error:  # a property may raise anything
        raise failure(f"{described} returned a {type(value).__name__} that", "in a property", error) from error
    if missing:
        new = [*filter(None, (added(f"{protocol.__name__}.{member}") for member in missing))]
        hint = "; ".join(["", *new, PORTING]) if len(new) == len(missing) else ""
        raise PluginError(
            f"{described} returned a {type(value).__name__}, which is not a {protocol.__name__}: "
            f"it lacks {', '.join(missing)}{hint}"
        )
