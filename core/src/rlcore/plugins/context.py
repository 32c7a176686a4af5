"""A run as plugins see it: the object :class:`RunContext`, and the values that plugins keep for the run."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

import attrs

from rlcore.errors import ConfigError, UnsupportedSpace, dotted
from rlcore.files.paths import pattern_problem, user_path, working_directory
from rlcore.plugins.discover import Plugin
from rlcore.plugins.factories import FactoryPlugins
from rlcore.plugins.holds import CheckpointHold, CheckpointHolds
from rlcore.plugins.stops import Stop, StopRequests
from rlcore.records import RewardProviderSpec

if TYPE_CHECKING:
    from rlcore.contracts.behavior_spec import BehaviorSpec
    from rlcore.contracts.ranks import Ranks
    from rlcore.contracts.recordings import Recording, Recordings
    from rlcore.contracts.results import PhaseTimes
    from rlcore.contracts.rewards import RewardProvider
    from rlcore.plugins.registry import Registry
    from rlcore.settings.blocks import BehaviorSettings, RunConfig

T = TypeVar("T")

Purpose = Literal["train", "evaluate", "inference"]
"""The purpose of a run; see :class:`RunContext`."""

# The loggers of plugins are below this one.
PLUGIN_LOGGERS = "rlcore.plugin"


def _one_rank() -> Ranks:
    from rlcore.contracts.ranks import Ranks  # with numpy, which the module of a plugin's hooks may not import

    return Ranks()


class StashKey(Generic[T]):
    """A key of :class:`Stash` for a value of type ``T``. Create it once, at the top of the plugin's module::

        UPLOADER = StashKey[Uploader]()

    Two keys are never equal, so that plugins cannot read each other's values by accident.
    """

    __slots__ = ()


class Stash(dict[StashKey[Any], Any]):
    """Values by :class:`StashKey`: ``run.stash[UPLOADER] = Uploader()``, ``run.stash[UPLOADER].send(path)``.

    Use it instead of global variables of a module, which several runs of one process would share. The values are not
    saved; ``rlcore_report_status`` saves what a resumed run needs. All methods are those of a dict.
    """

    __slots__ = ()

    def __getitem__(self, key: StashKey[T]) -> T:
        """Return the value. Raises KeyError if there is none."""
        value: T = super().__getitem__(key)
        return value


@attrs.define(eq=False)
class RunContext:
    """A run as plugins see it: the argument ``run`` of factories and notifications.

    rlcore creates it. A plugin that shapes rewards in an environment leaves scores unchanged by doing so only if
    ``purpose`` is ``"train"``.

    Attributes:
        config: The complete configuration. Must not be changed.
        plugins: The records of the run's plugins, and what creates objects from them.
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
        given: What a Python program gave to ``Run(config, environment=...)``: an environment, or a function that makes
            one; None otherwise.
        video: Directory for films if the environment is to record them; None otherwise.
        working_directory: Directory that relative paths of the configuration are relative to.
        stash: The values that plugins keep for this run; evaluations within a run share it.
        ranks: The processes of the run, and the exchange between them; see :class:`rlcore.Ranks`.
        held_checkpoints: The holds that :meth:`hold_checkpoint` gave.
        factories: The plugins that took part in making the objects of the run.
        times: Where the time of the epoch went, also in ``rlcore_summary_written``; None before the first one.
    """

    config: RunConfig
    plugins: Registry
    directory: Path
    seed: int
    num_envs: int
    purpose: Purpose = "train"
    offline: bool = False
    behaviors: Mapping[str, BehaviorSpec] = attrs.field(factory=dict, repr=False)
    resumed_steps: dict[str, int] = attrs.field(factory=dict)
    given: Any = attrs.field(default=None, repr=False)
    video: Path | None = None
    working_directory: Path = attrs.field(factory=working_directory)
    stash: Stash = attrs.field(factory=Stash, repr=False)
    first_env: int = 0
    ranks: Ranks = attrs.field(factory=_one_rank, repr=False)
    # Shared with the context of evaluations, which is an evolved copy.
    _stops: StopRequests = attrs.field(factory=StopRequests, repr=False)
    held_checkpoints: CheckpointHolds = attrs.field(factory=CheckpointHolds, repr=False)
    factories: FactoryPlugins = attrs.field(factory=FactoryPlugins, repr=False)
    _files: list[str] = attrs.field(factory=list)
    # Have the mark of the run directory name new files before they are made. Shared, like the stops.
    _declare: Callable[[RunContext], None] = attrs.field(default=lambda run: None, repr=False)
    times: PhaseTimes | None = attrs.field(default=None, repr=False)

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
        one_line = " ".join(reason.split())
        self._stops.add(Stop(one_line, exit_code))

    @property
    def stop_requested(self) -> bool:
        """Whether the run is to end, after Ctrl-C for example.

        An environment that waits long for something outside its process looks at this while it waits, and raises
        :class:`rlcore.EnvironmentEnded` when it is True: the run then saves what was learned before the step.
        """
        return self._stops.first is not None

    def hold_checkpoint(self, step: int) -> CheckpointHold:
        """Keep the checkpoint of ``step`` from being deleted until the hold is released, for example during an upload.

        ``step`` is that of ``rlcore_checkpoint_saved``. The checkpoint does not count towards ``keep_checkpoints``. May
        be called in another thread. Raises RunStateError if the run has no such checkpoint (any more).
        """
        return self.held_checkpoints.hold(self.directory / "checkpoints" / str(step), step)

    def logger(self, name: str) -> logging.Logger:
        """Return the logger of the plugin called ``name``, whose messages ``rlcore`` commands print after this name.

        It is Python's ``logging.getLogger("rlcore.plugin.NAME")``, which hooks without a run may use too. Raises
        ValueError unless ``name`` is the name of a plugin, such as ``acme-hooks``.
        """
        if not Plugin.NAME.fullmatch(name):
            raise ValueError(f"logger {name!r}: a plugin's name must match {Plugin.NAME.pattern}")
        return logging.getLogger(f"{PLUGIN_LOGGERS}.{name}")

    def own_files(self, *patterns: str) -> None:
        """Declare the files that a plugin writes into ``directory``, so that they count as the run's.

        Declare a file before it is made: a run that is killed in between is otherwise refused when it starts again,
        because of a file that rlcore does not know. May be called at any time: a plugin that chooses a name during the
        run declares exactly that name, because a pattern may match a user's file. ``glob.escape`` makes a pattern of a
        name. Patterns are relative to the directory; ``*`` matches anything but a slash, and ``{behavior}`` the name of
        each behavior. A pattern that matches a folder means everything in it. Other files are a user's, and rlcore
        never deletes them. Raises ValueError for a pattern that leaves the directory or matches any name, and
        RunStateError if the directory cannot be written to.
        """
        for pattern in patterns:
            problem = pattern_problem(pattern)
            if problem:
                raise ValueError(problem)
        self._files += patterns
        self._declare(self)

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

        While policies are measured, a provider that gives 0 stands for a reward whose plugin is absent.
        """
        providers = []
        for name, block in settings.reward_signals.items():
            providers.append(self._reward_provider(name, block, behavior))
        return providers

    def _reward_provider(self, name: str, block: Any, behavior: BehaviorSpec) -> RewardProvider:
        from rlcore.contracts.rewards import AbsentReward
        from rlcore.settings.blocks import AbsentRewardSettings

        if isinstance(block, AbsentRewardSettings):
            return AbsentReward(name, block.gamma, block.strength)
        spec = self.plugins.record(RewardProviderSpec, name)
        key = ("behaviors", behavior.name, "reward_signals", name)
        try:
            created: RewardProvider = self.plugins.create(spec, settings=block, behavior=behavior, run=self)
        except UnsupportedSpace as error:
            raise UnsupportedSpace(f"{dotted(key)}: {error}") from error
        except ConfigError as error:
            raise ConfigError(error.message, key=(*key, *error.key)) from error
        return created

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
