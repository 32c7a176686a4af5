"""Notify plugins of the events of a run."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from rlcore.contracts.curriculum import LessonChange
from rlcore.contracts.results import EvaluationResult
from rlcore.contracts.stats import StatSummary
from rlcore.errors import PluginError
from rlcore.plugins.call import Plugins
from rlcore.plugins.context import RunContext

log = logging.getLogger(__name__)


class Notifications:
    """Calls the hooks of a run. ``failure`` is the first error of a plugin that is to end the run.

    Such an error, raised only if plugins are strict or a plugin wants the process to end, waits until everything that
    was learned is saved.
    """

    def __init__(self, plugins: Plugins, context: RunContext) -> None:
        self.failure: PluginError | None = None
        self._plugins = plugins
        self._context = context

    @contextmanager
    def failing_later(self) -> Iterator[None]:
        """Keep a PluginError of the block as the ``failure`` unless there is one."""
        try:
            yield
        except PluginError as failure:
            self.failure = self.failure or failure

    def lesson_changed(self, step: int, change: LessonChange) -> None:
        log.info(
            "environment parameter %r: lesson %d (%s) after %d (%s) at step %d",
            change.parameter, change.lesson, change.name, change.previous, change.previous_name, step,
        )  # fmt: skip
        with self.failing_later():
            self._plugins.lesson_changed(self._context, step, change)

    def evaluated(self, step: int, result: EvaluationResult) -> None:
        with self.failing_later():
            self._plugins.evaluated(self._context, step, result)

    def summary_written(self, behavior: str, step: int, stats: Mapping[str, StatSummary]) -> None:
        with self.failing_later():
            self._plugins.summary_written(self._context, behavior, step, stats)

    def processed_summary(self, behavior: str, step: int, stats: dict[str, StatSummary]) -> dict[str, StatSummary]:
        """The summary as plugins change it; as it was if one of them fails and is to end the run."""
        with self.failing_later():
            return self._plugins.process_summary(self._context, behavior, step, stats)
        return stats

    def checkpoint_removed(self, step: int, path: Path) -> None:
        with self.failing_later():
            self._plugins.checkpoint_removed(self._context, step, path)

    def checkpoint_saved(self, step: int, path: Path) -> None:
        with self.failing_later():
            self._plugins.checkpoint_saved(self._context, step, path)


class NoNotifications(Notifications):
    """Calls no hook: the events of a run are those of rank 0, and the other ranks report nothing."""

    def lesson_changed(self, step: int, change: LessonChange) -> None:
        pass

    def evaluated(self, step: int, result: EvaluationResult) -> None:
        pass

    def summary_written(self, behavior: str, step: int, stats: Mapping[str, StatSummary]) -> None:
        pass

    def processed_summary(self, behavior: str, step: int, stats: dict[str, StatSummary]) -> dict[str, StatSummary]:
        return stats

    def checkpoint_removed(self, step: int, path: Path) -> None:
        pass

    def checkpoint_saved(self, step: int, path: Path) -> None:
        pass
