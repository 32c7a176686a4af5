"""The object that describes a run to plugins."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

import attrs

from rlcore.errors import ConfigError, UnsupportedSpace, dotted
from rlcore.plugins.factory_plugins import FactoryPlugins
from rlcore.plugins.holds import CheckpointHold, CheckpointHolds
from rlcore.plugins.plugin import PLUGIN_NAME
from rlcore.plugins.stash import Stash
from rlcore.plugins.stopping import Stop, StopRequests
from rlcore.ranks.ranks import OneRank, Ranks
from rlcore.storage.files.paths import pattern_problem, user_path, working_directory

if TYPE_CHECKING:
    from rlcore.contracts.environment import BehaviorSpec
    from rlcore.contracts.policy import Policy
    from rlcore.contracts.recordings import Recording, Recordings
    from rlcore.contracts.rewards import RewardProvider
    from rlcore.contracts.trainer import Trainer
    from rlcore.records import OpponentSpec, Record, RewardProviderSpec, TrainerSpec
    from rlcore.settings import BehaviorSettings, OpponentSettings, RunConfig

__all__ = ["Purpose", "RunContext", "RunPlugins"]


R = TypeVar("R", bound="Record")

Purpose = Literal["train", "evaluate", "inference"]
"""The purpose of a run; see :class:`RunContext`."""

# The loggers of plugins are below this one.
PLUGIN_LOGGERS = "rlcore.plugin"


class RunPlugins(Protocol):
    """The methods of :class:`rlcore.Plugins` that plugins may call, as ``run.plugins``."""

    def record(self, record_class: type[R], reference: str) -> R:
        """Return the record of this class called NAME or DIST/NAME.

        Raises NotInstalled if no plugin has it, PluginError if several do.
        """
        ...

    def records(self, kind: str) -> tuple[Record, ...]:
        """Return all records of a kind, such as ``"trainer"``, sorted by name."""
        ...

    def reward_provider(self, reference: str) -> RewardProviderSpec:
        """Return the record of a reward called NAME or DIST/NAME."""
        ...

    def create_trainer(
        self,
        spec: TrainerSpec,
        settings: BehaviorSettings,
        behavior: BehaviorSpec,
        run: RunContext,
        *,
        without: str | None = ...,
    ) -> Trainer:
        """Create a trainer with the hook ``rlcore_create_trainer``. The plugin called ``without`` is not asked.

        A plugin that answers this hook, and creates a trainer inside its own, gives its own name.
        """
        ...

    def create_reward_provider(
        self, spec: RewardProviderSpec, settings: Any, behavior: BehaviorSpec, run: RunContext
    ) -> RewardProvider:
        """Create a reward provider with the hook ``rlcore_create_reward_provider``."""
        ...

    def create_opponent(
        self, spec: OpponentSpec, settings: OpponentSettings, behavior: BehaviorSpec, run: RunContext
    ) -> Policy:
        """Create the opponent of ``spec``; :meth:`RunContext.create_opponents` creates all of a block."""
        ...

    def recordings(self, what: str) -> Recordings:
        """Return what reads and writes recorded episodes. Raises ConfigError, about ``what``, without such a plugin."""
        ...


@attrs.define(eq=False)
class RunContext:
    """A run as plugins see it: the argument ``run`` of factories and notifications.

    rlcore creates it. A plugin that shapes rewards in an environment leaves scores unchanged by doing so only if
    ``purpose`` is ``"train"``.

    Attributes:
        config: The complete configuration. Must not be changed.
        plugins: The plugins of the run: their records, and objects that they create.
        directory: The run directory, an absolute path; it exists.
        seed: The run's seed, never -1.
        num_envs: N, the number of environments in this process.
        first_env: Number, in the run, of the first environment of this process; 0 where one process has them all.
        purpose: Purpose of the created objects: ``"train"``; ``"evaluate"`` for environments and curricula of
            evaluations within a run, and for everything in ``rlcore evaluate``; ``"inference"`` under ``--inference``.
        offline: Whether the run learns from recorded data and steps no environment.
        behaviors: The behaviors that trainers are created for, those of the environment or of the recorded data; empty
            before.
        resumed_steps: Agent steps of each behavior in the checkpoint that the run resumed from; empty for a new run.
        video: Directory for films if the environment is to record them; None otherwise.
        working_directory: Directory that relative paths of the configuration are relative to.
        stash: The values that plugins keep for this run; evaluations within a run share it.
        ranks: The processes of the run, and the exchange between them; see :mod:`rlcore.ranks`.
    """

    config: RunConfig
    plugins: RunPlugins
    directory: Path
    seed: int
    num_envs: int
    purpose: Purpose = "train"
    offline: bool = False
    behaviors: Mapping[str, BehaviorSpec] = attrs.field(factory=dict, repr=False)
    resumed_steps: dict[str, int] = attrs.field(factory=dict)
    video: Path | None = None
    working_directory: Path = attrs.field(factory=working_directory)
    stash: Stash = attrs.field(factory=Stash, repr=False)
    first_env: int = 0
    ranks: Ranks = attrs.field(factory=OneRank, repr=False)
    # Shared with the context of evaluations, which is an evolved copy.
    _stops: StopRequests = attrs.field(factory=StopRequests, repr=False)
    _holds: CheckpointHolds = attrs.field(factory=CheckpointHolds, repr=False)
    _files: list[str] = attrs.field(factory=list)
    _factories: FactoryPlugins = attrs.field(factory=FactoryPlugins, repr=False)

    @property
    def inference(self) -> bool:
        """Whether nothing is learned: ``purpose`` is not ``"train"``. Files of the run must not be changed then."""
        return self.purpose != "train"

    def request_stop(self, reason: str, exit_code: int = 0) -> None:
        """Request that the run saves a checkpoint and ends after the current environment step, as ``interrupted``.

        ``result.json`` has ``reason`` and ``exit_code`` under ``stop``, and ``rlcore run`` ends with this exit code.
        The run can be resumed. An update is finished first; an evaluation is abandoned. The first request counts. It
        has no effect if training ends in the same step anyway. May be called from any hook and thread. Raises
        ValueError for an empty reason, and for an exit code outside 0 to 255.
        """
        if not reason.strip():
            raise ValueError("request_stop needs a reason; result.json has it")
        if not 0 <= exit_code <= 255:
            raise ValueError(f"exit code {exit_code} is not between 0 and 255")
        self._stops.add(Stop(" ".join(reason.split()), exit_code))

    def hold_checkpoint(self, step: int) -> CheckpointHold:
        """Keep the checkpoint of ``step`` from being deleted until the hold is released, for example during an upload.

        ``step`` is that of ``rlcore_checkpoint_saved``. The checkpoint does not count towards ``keep_checkpoints``. May
        be called in another thread. Raises RunStateError if the run has no such checkpoint (any more).
        """
        return self._holds.hold(self.directory / "checkpoints" / str(step), step)

    def logger(self, name: str) -> logging.Logger:
        """Return the logger of the plugin called ``name``, whose messages ``rlcore`` commands print after this name.

        It is Python's ``logging.getLogger("rlcore.plugin.NAME")``, which hooks without a run may use too. Raises
        ValueError unless ``name`` is the name of a plugin, such as ``acme-hooks``.
        """
        if not PLUGIN_NAME.fullmatch(name):
            raise ValueError(f"logger {name!r}: a plugin's name must match {PLUGIN_NAME.pattern}")
        return logging.getLogger(f"{PLUGIN_LOGGERS}.{name}")

    def own_files(self, *patterns: str) -> None:
        """Declare the files that a plugin writes into ``directory``, so that ``--force`` deletes them with the run.

        May be called at any time: a plugin that chooses a name during the run declares exactly that name, because a
        pattern may match a user's file. ``glob.escape`` makes a pattern of a name. Patterns are relative to the
        directory; ``*`` matches anything but a slash, and ``{behavior}`` the name of each behavior. A pattern that
        matches a folder means everything in it. Other files are a user's, and rlcore never deletes them. Raises
        ValueError for a pattern that leaves the directory or matches any name.
        """
        for pattern in patterns:
            problem = pattern_problem(pattern)
            if problem:
                raise ValueError(problem)
        self._files += patterns

    @property
    def factories(self) -> FactoryPlugins:
        """The plugins that took part in making the objects of the run."""
        return self._factories

    @property
    def held_checkpoints(self) -> CheckpointHolds:
        """The holds that :meth:`hold_checkpoint` gave."""
        return self._holds

    @property
    def files(self) -> tuple[str, ...]:
        """The patterns that plugins declared with :meth:`own_files`."""
        return tuple(self._files)

    @property
    def run_id(self) -> str:
        """The id of the run, the name of its directory."""
        return self.config.checkpoint_settings.run_id

    @property
    def behavior_names(self) -> tuple[str, ...]:
        """The names of the behaviors in the configuration; an environment with one agent uses the only one."""
        return tuple(self.config.behaviors)

    def absolute(self, path: str | Path) -> Path:
        """Return the absolute path for a user's path: ``~`` is expanded, the rest is below ``working_directory``."""
        return self.working_directory / user_path(path)

    def create_reward_providers(self, behavior: BehaviorSpec, settings: BehaviorSettings) -> list[RewardProvider]:
        """Create the behavior's reward providers, in the order of its ``reward_signals``.

        While policies are measured, a reward whose plugin is absent is an :class:`rlcore.AbsentReward`.
        """
        return [self._reward_provider(name, block, behavior) for name, block in settings.reward_signals.items()]

    def _reward_provider(self, name: str, block: Any, behavior: BehaviorSpec) -> RewardProvider:
        from rlcore.contracts.rewards import AbsentReward
        from rlcore.settings.trainers import AbsentRewardSettings

        if isinstance(block, AbsentRewardSettings):
            return AbsentReward(name, block.gamma, block.strength)
        spec, key = self.plugins.reward_provider(name), ("behaviors", behavior.name, "reward_signals", name)
        try:
            return self.plugins.create_reward_provider(spec, block, behavior, self)
        except UnsupportedSpace as error:
            raise UnsupportedSpace(f"{dotted(key)}: {error}") from error
        except ConfigError as error:
            raise ConfigError(error.message, key=(*key, *error.key)) from error

    def create_opponents(
        self, opponents: Mapping[str, OpponentSettings], behavior: BehaviorSpec, key: tuple[str, ...]
    ) -> dict[str, Policy]:
        """Create the opponents of a block, by name, each a policy that plays for rows of ``behavior`` and never learns.

        ``key`` is the path of the block, such as ``("evaluation", "opponents")``. Raises ConfigError, with the
        key, for an opponent that cannot be created, and UnsupportedSpace for one that cannot play.
        """
        return {name: self._opponent(name, settings, behavior, key) for name, settings in opponents.items()}

    def _opponent(self, name: str, settings: OpponentSettings, behavior: BehaviorSpec, key: tuple[str, ...]) -> Policy:
        from rlcore.records import OpponentSpec

        try:
            spec = self.plugins.record(OpponentSpec, settings.type or name)
            return self.plugins.create_opponent(spec, settings, behavior, self)
        except UnsupportedSpace as error:
            raise UnsupportedSpace(f"{dotted((*key, name))}: {error}") from error
        except ConfigError as error:
            raise ConfigError(error.message, key=(*key, name, *error.key)) from error

    def read_recording(self, path: str | Path, behavior_name: str) -> Recording:
        """Return the recorded episodes that ``path`` names.

        ``path`` is a recording, a directory with a recording named after the behavior, or a name that an installed
        format knows, such as an id of Minari's. Raises ConfigError if there is no such recording.
        """
        return self._recordings(path).read(path, behavior_name, self.working_directory)

    def recorded_behavior(self, path: str | Path, behavior_name: str) -> BehaviorSpec:
        """Return the observations and actions of the recording that ``path`` names; its episodes are not read."""
        return self._recordings(path).behavior(path, behavior_name, self.working_directory)

    def _recordings(self, path: str | Path) -> Recordings:
        return self.plugins.recordings(f"recording {str(path)!r}")
