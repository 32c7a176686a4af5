"""The run as its plugins see it."""

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
    """The part of :class:`rlcore.plugins.Plugins` that plugins may use."""

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
    """Passed to every factory and notification. ``directory`` exists and is absolute; ``seed`` is never -1."""

    config: RunConfig
    plugins: RunPlugins
    directory: Path
    seed: int
    num_envs: int
    inference: bool = False
    offline: bool = False  # learns from recorded data, so that no environment is stepped
    resumed_steps: dict[str, int] = attrs.field(factory=dict)  # by behavior, as in the checkpoint this run went on from
    video: Path | None = None  # where an environment that can record video is to write its films
    working_directory: Path = attrs.field(factory=working_directory)  # what relative paths of the configuration mean
    _files: list[str] = attrs.field(factory=list, init=False)

    def own_files(self, *patterns: str) -> None:
        """Declares what a plugin writes into ``directory``, when the run starts: ``--force`` deletes it with the run.

        Patterns are relative to the directory; ``*`` stands for no slash, ``{behavior}`` for the name of each behavior.
        A pattern that fits a folder means all that is in it. Files that are not declared are a user's: rlcore never
        deletes them. Raises ValueError for a pattern that leaves the directory or fits any name.
        """
        for pattern in patterns:
            problem = pattern_problem(pattern)
            if problem:
                raise ValueError(problem)
        self._files += patterns

    @property
    def files(self) -> tuple[str, ...]:
        """The patterns that plugins declared, as they did."""
        return tuple(self._files)

    @property
    def run_id(self) -> str:
        return self.config.checkpoint_settings.run_id

    @property
    def behavior_names(self) -> tuple[str, ...]:
        """Names the file gives; a single-agent environment takes the only one."""
        return tuple(self.config.behaviors)

    def absolute(self, path: str | Path) -> Path:
        """A path that a user wrote, absolute, with ``~`` expanded: an environment may change the working directory."""
        return self.working_directory / user_path(path)

    def create_reward_providers(self, behavior: BehaviorSpec, settings: BehaviorSettings) -> list[RewardProvider]:
        """The behavior's reward providers, in the order of its ``reward_signals``."""
        return [
            self.plugins.create_reward_provider(self.plugins.reward_provider(name), block, behavior, self)
            for name, block in settings.reward_signals.items()
        ]

    def read_recording(self, path: str | Path, behavior_name: str) -> Recording:
        """The recorded episodes that ``path`` names: a recording, a directory that holds one named after the behavior,
        or a name that an installed format knows, such as an id of Minari's. ConfigError if there are none.
        """
        return self.plugins.read_recording(path, behavior_name, self.working_directory)

    def recorded_behavior(self, path: str | Path, behavior_name: str) -> BehaviorSpec:
        """What that recording's agents saw and did, called ``behavior_name``, without reading the episodes."""
        return self.plugins.recorded_behavior(path, behavior_name, self.working_directory)
