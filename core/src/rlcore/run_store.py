"""What a run keeps in its directory: checkpoints, training status, result."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from time import time
from typing import Any

from rlcore.behavior_run import BehaviorRun
from rlcore.checkpoint import find_checkpoints, newest_good, rotate, save_checkpoint, sweep, write_atomically
from rlcore.errors import RunStateError
from rlcore.plugins.calls import Plugins
from rlcore.run_context import RunContext
from rlcore.run_directory import RunDirectory
from rlcore.status import metadata, plugin_versions
from rlcore.timers import Timers

log = logging.getLogger(__name__)


class RunStore:
    """Reads and writes the run directory; its lock is held by whoever holds this."""

    def __init__(self, directory: RunDirectory, plugins: Plugins) -> None:
        self.directory = directory
        self.plugins = plugins
        self.saved_step: int | None = None  # agent steps of the checkpoint last written or read
        self._index: dict[str, list[dict[str, Any]]] = {}  # ML-Agents' list of checkpoints, by behavior

    # ------------------------------------------------------------ reading

    def newest_state(self) -> dict[str, Any]:
        """The state of the newest checkpoint that is whole. Raises RunStateError if there is none."""
        sweep(self.directory.checkpoints)
        problems = []
        for checkpoint, state, problem in newest_good(self.directory.checkpoints):
            if state is not None:
                self.saved_step = checkpoint.step
                return state
            log.warning("%s; going on from an older checkpoint", problem)
            problems.append(problem)
        if problems:
            raise RunStateError(
                f"{self.directory.path}: no checkpoint of this run is usable ({problems[0]}); "
                "restore one from a backup or start over with --force"
            )
        raise RunStateError(f"{self.directory.path}: this run has no checkpoint yet; start over with --force")

    def restore_status(self, context: RunContext, behaviors: Mapping[str, BehaviorRun]) -> None:
        """Takes the status file up again and hands its sections to the plugins."""
        status = self.plugins.read_status(self.directory.logs)
        if status is None:
            log.warning("%s: there is no status file; its sections start anew", self.directory.logs)
            return
        kept = {checkpoint.step for checkpoint in find_checkpoints(self.directory.checkpoints)}
        for name in behaviors:
            entries = status.get(name, {}).get("checkpoints", [])
            self._index[name] = [entry for entry in entries if entry.get("run_steps") in kept]
        then: Mapping[str, str] = status.get("metadata", {}).get("plugins", {})
        now = plugin_versions(self.plugins)
        for name in sorted(then.keys() | now.keys()):
            if then.get(name) != now.get(name):
                was, is_now = then.get(name, "not loaded"), now.get(name, "not loaded")
                log.warning("plugin %r: %s when the run was saved, %s now", name, was, is_now)
        self.plugins.restore_status(context, status)

    def models_of_run(self, run_id: str) -> dict[str, Any]:
        """Saved models by behavior of another run in the same results directory."""
        checkpoints = self.directory.path.parent / run_id / "checkpoints"
        return saved_models(checkpoints, f"checkpoint_settings.initialize_from {run_id!r}")

    # ------------------------------------------------------------ writing

    def save(
        self, step: int, state: Mapping[str, Any], behaviors: Mapping[str, BehaviorRun], context: RunContext
    ) -> Path:
        """Writes a checkpoint and the status, and deletes checkpoints beyond ``keep_checkpoints``."""
        path = save_checkpoint(self.directory.checkpoints, step, state)
        keep = [behavior.settings.keep_checkpoints for behavior in behaviors.values()]
        stay = rotate(self.directory.checkpoints, 0 if min(keep) <= 0 else max(keep), newest=step)
        kept = {checkpoint.step for checkpoint in stay}
        relative = path.relative_to(self.directory.path)
        now = time()
        for name, behavior in behaviors.items():
            older = [entry for entry in self._index.get(name, []) if entry["run_steps"] in kept - {step}]
            entry = {
                "steps": behavior.trainer.steps,
                "run_steps": step,
                "file_path": str(relative / f"{name}.safetensors"),
                "reward": behavior.mean_reward,
                "creation_time": now,
                "auxillary_file_paths": [str(relative / "state.json")],  # ML-Agents' spelling
            }
            self._index[name] = [*older, entry]
        self.saved_step = step
        self.write_status(context)
        return path

    def write_status(self, context: RunContext, final: bool = False) -> None:
        """Rewrites the status; ``final`` names the last checkpoint as the trained model."""
        status = self.plugins.report_status(context)
        for name, entries in self._index.items():
            section: dict[str, Any] = {"checkpoints": entries}
            if final and entries:
                section["final_checkpoint"] = entries[-1]
            status[name] = {**section, **status.get(name, {})}
        status["metadata"] = metadata(plugin_versions(self.plugins))
        self.plugins.write_status(status, self.directory.logs)

    def write_result(self, result: Mapping[str, Any], timers: Timers) -> None:
        """Writes ``result.json`` and ``timers.json``."""
        try:
            write_atomically(self.directory.result, (json.dumps(result, indent=4) + "\n").encode())
            timers.write(self.directory.logs / "timers.json")
        except OSError as error:
            raise RunStateError(f"{self.directory.path}: cannot write the result: {error.strerror or error}") from error


def saved_models(checkpoints: Path, origin: str, step: int | None = None) -> dict[str, Any]:
    """The ``model`` entry of every behavior in the newest good checkpoint, or in the one of ``step``.

    ``origin`` is what the user wrote, for the message of the RunStateError raised if there is none.
    """
    for checkpoint, state, problem in newest_good(checkpoints):
        if step is not None and checkpoint.step != step:
            continue
        if state is not None:
            return {name: entry["model"] for name, entry in state.items() if name != "run"}
        log.warning("%s", problem)
    raise RunStateError(f"{origin}: there is no usable checkpoint in {checkpoints}")


def model_of_path(path: Path, behavior: str, origin: str) -> Any:
    """The model of ``behavior`` in a run directory or a checkpoint directory."""
    if (path / "checkpoints").is_dir():
        models = saved_models(path / "checkpoints", origin)
    elif path.name.isdecimal():
        models = saved_models(path.parent, origin, int(path.name))
    else:
        raise RunStateError(f"{origin}: is neither a run directory nor one of its checkpoints")
    return model_of(models, behavior, origin)


def model_of(models: Mapping[str, Any], behavior: str, origin: str) -> Any:
    if behavior not in models:
        raise RunStateError(f"{origin}: that run has no behavior {behavior!r}; it has {', '.join(sorted(models))}")
    return models[behavior]
