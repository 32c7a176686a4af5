"""The events of ``rlcore run --json``: one JSON object a line on standard output, all else on standard error.

docs/reference/json.md describes each event.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from typing import TYPE_CHECKING, Any, TextIO

import attrs

from rlcore.cli.error_records import error_records, exit_code_of
from rlcore.cli.progress import resuming
from rlcore.contracts.states import json_values

if TYPE_CHECKING:
    from rlcore.run.run import Run


@contextmanager
def output_for_events(own_process: bool) -> Iterator[None]:
    """Leave standard output to events while the block lasts.

    In a process of its own, the descriptor 1 becomes standard error, so that what workers and C libraries print is not
    between the events either.
    """
    if not own_process or sys.stdout is None:
        yield
        return
    sys.stdout.flush()
    output = os.dup(1)
    os.dup2(2, 1)
    with os.fdopen(output, "w", encoding="utf-8") as stream, redirect_stdout(stream):
        yield


class Events:
    """Prints the events of one run to ``stream``.

    Attributes:
        silent: Whether nothing is printed, because another rank prints the events of the run.
    """

    def __init__(self, stream: TextIO, file: str = "") -> None:
        self.silent = False
        self._stream = stream
        self._file = file  # the configuration, for errors of it
        self._run: Run | None = None

    def follow(self, run: Run) -> None:
        """Print the events of ``run`` from now on."""
        self._run = run
        run.plugins.listeners.append(self._notice)

    def started(self, run: Run) -> None:
        """Print what the run trains, from which steps on."""
        about = run.describe()
        behaviors = {}
        for behavior in about.behaviors:
            of_behavior = attrs.asdict(behavior)
            name = of_behavior.pop("name")
            behaviors[name] = of_behavior
        self._print(
            "start",
            run_id=run.config.checkpoint_settings.run_id,
            directory=str(about.directory),
            seed=about.seed,
            device=about.device,
            plugins={plugin.label: plugin.version for plugin in about.plugins},
            environment=None if about.environment is None else attrs.asdict(about.environment),
            behaviors=behaviors,
            resumed_from=None if run.resumed_from is None else str(run.resumed_from),
            resume=None if about.resume is None else about.resume.to_json(),
        )

    def ended(self, run: Run, code: int) -> None:
        """Print how a run without an error ended, also one that was interrupted before it started."""
        behaviors = {}
        for name, behavior in run.behaviors.items():
            behaviors[name] = {
                "steps": behavior.steps,
                "episodes": behavior.episodes.finished,
                "mean_reward": behavior.mean_reward,
            }
        evaluation = None
        if run.behaviors and run.scores.score is not None:
            scores = run.scores
            evaluation = {
                "score": scores.score,
                "best_score": scores.best_score,
                "best_step": scores.best_step,
                "stopped": scores.stopped,
            }
        done = run.outcome == "done" or run.config.checkpoint_settings.inference
        self._print(
            "end",
            outcome=run.outcome or "interrupted",
            reason=run.stop.reason if run.stop is not None else None,
            exit_code=code,
            directory=str(run.directory.path),
            steps=run.steps,
            behaviors=behaviors,
            evaluation=evaluation,
            failures=run.failures,
            resume_with=None if done else resuming(run),
        )

    def failed(self, error: BaseException) -> None:
        """Print the error that ended the command."""
        saved = None if self._run is None else self._run.saved_step
        errors = error_records(error, self._file)
        self._print("error", exit_code=int(exit_code_of(error)), errors=errors, saved_step=saved)

    def _notice(self, hook: str, arguments: Mapping[str, Any]) -> None:
        notice = _NOTICES.get(hook)
        if notice is not None:
            name, values = notice
            self._print(name, **values(arguments))

    def _print(self, event: str, **values: Any) -> None:
        if self.silent:
            return
        line = {"event": event, "time": round(time.time(), 3), **values}
        text = json.dumps(json_values(line), allow_nan=False)
        self._stream.write(f"{text}\n")
        self._stream.flush()


def _summary(arguments: Mapping[str, Any]) -> dict[str, Any]:
    means = {tag: summary.mean for tag, summary in arguments["stats"].items()}
    return {"behavior": arguments["behavior"], "step": arguments["step"], "stats": means}


def _checkpoint(arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {"step": arguments["step"], "path": str(arguments["path"])}


def _evaluation(arguments: Mapping[str, Any]) -> dict[str, Any]:
    result = arguments["result"]
    return {"step": arguments["step"], **result.to_json(), "score": result.score}


# The event and its values, by the notification that reports it.
_NOTICES: Mapping[str, tuple[str, Callable[[Mapping[str, Any]], dict[str, Any]]]] = {
    "rlcore_summary_written": ("summary", _summary),
    "rlcore_checkpoint_saved": ("checkpoint", _checkpoint),
    "rlcore_evaluated": ("evaluation", _evaluation),
}
