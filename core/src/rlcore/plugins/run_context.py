"""The object that describes a run to plugins."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import attrs

from rlcore.files.paths import user_path, working_directory
from rlcore.files.patterns import pattern_problem

if TYPE_CHECKING:
    from rlcore.environment import BehaviorSpec
    from rlcore.plugins.records import Record, RewardProviderSpec
    from rlcore.recordings import Recording
    from rlcore.rewards import RewardProvider
    from rlcore.settings import BehaviorSettings, RunConfig


R = TypeVar("R", bound="Record")


class RunPlugins(Protocol):
    """The methods of :class:`rlcore.plugins.Plugins` that plugins may call, as ``run.plugins``."""

    def record(self, record_class: type[R], reference: str) -> R: ...

    def records(self, kind: str) -> tuple[Record, ...]: ...

    def reward_provider(self, reference: str) -> RewardProviderSpec: ...

    def create_reward_provider(
        self, spec: RewardProviderSpec, settings: Any, behavior: BehaviorSpec, run: RunContext
    ) -> RewardProvider: ...

    def read_recording(self, path: str | Path, behavior: str, start: Path = ...) -> Recording: ...

    def recorded_behavior(self, path: str | Path, behavior: str, start: Path = ...) -> BehaviorSpec: ...


@attrs.define(eq=False)
class RunContext:
    """A run as plugins see it: the argument ``run`` of factories and notifications.

    ``directory`` is the run directory; it exists, and the path is absolute. ``seed`` is the run's seed, never -1.
    ``offline`` is True if the run learns from recorded data and steps no environment. ``resumed_steps`` has the agent
    steps of each behavior in the checkpoint that the run resumed from. ``video`` is the directory for films if the
    environment is to record them. Relative paths of the configuration are relative to ``working_directory``.
    """

    config: RunConfig
    plugins: RunPlugins
    directory: Path
    seed: int
    num_envs: int
    inference: bool = False
    offline: bool = False
    resumed_steps: dict[str, int] = attrs.field(factory=dict)
    video: Path | None = None
    working_directory: Path = attrs.field(factory=working_directory)
    _files: list[str] = attrs.field(factory=list, init=False)

    def own_files(self, *patterns: str) -> None:
        """Declare the files that a plugin writes into ``directory``, so that ``--force`` deletes them with the run.

        Call it when the run starts. Patterns are relative to the directory; ``*`` matches anything but a slash, and
        ``{behavior}`` the name of each behavior. A pattern that matches a folder means everything in it. Other files
        are a user's, and rlcore never deletes them. Raises ValueError for a pattern that leaves the directory or
        matches any name.
        """
        for pattern in patterns:
            problem = pattern_problem(pattern)
            if problem:
                raise ValueError(problem)
        self._files += patterns

    @property
    def files(self) -> tuple[str, ...]:
        """The patterns that plugins declared with :meth:`own_files`."""
        return tuple(self._files)

    @property
    def run_id(self) -> str:
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

        While policies are measured, a reward whose plugin is absent is an :class:`rlcore.rewards.AbsentReward`.
        """
        return [self._reward_provider(name, block, behavior) for name, block in settings.reward_signals.items()]

    def _reward_provider(self, name: str, block: Any, behavior: BehaviorSpec) -> RewardProvider:
        from rlcore.rewards import AbsentReward
        from rlcore.settings.trainers import AbsentRewardSettings

        if isinstance(block, AbsentRewardSettings):
            return AbsentReward(name, block.gamma, block.strength)
        return self.plugins.create_reward_provider(self.plugins.reward_provider(name), block, behavior, self)

    def read_recording(self, path: str | Path, behavior_name: str) -> Recording:
        """Return the recorded episodes that ``path`` names.

        ``path`` is a recording, a directory with a recording named after the behavior, or a name that an installed
        format knows, such as an id of Minari's. Raises ConfigError if there is no such recording.
        """
        return self.plugins.read_recording(path, behavior_name, self.working_directory)

    def recorded_behavior(self, path: str | Path, behavior_name: str) -> BehaviorSpec:
        """Return the observations and actions of the recording that ``path`` names; its episodes are not read."""
        return self.plugins.recorded_behavior(path, behavior_name, self.working_directory)
