"""What a run keeps in its directory: checkpoints, training status, result."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from time import time
from typing import Any, Protocol

from rlcore.config import read_document
from rlcore.config.document import parse_document
from rlcore.config.dump import config_text
from rlcore.config.seal import sealed
from rlcore.errors import EnvironmentFailed, PluginError, RlcoreError, RunStateError, one_line
from rlcore.files.atomic import write_atomically
from rlcore.files.paths import user_path
from rlcore.plugins.calls import Plugins
from rlcore.plugins.run_context import RunContext
from rlcore.plugins.status_file import DamagedStatusFile
from rlcore.settings import BehaviorSettings, RunConfig
from rlcore.storage.checkpoint import (
    CONFIGURATION,
    Checkpoint,
    find_checkpoints,
    is_good,
    load_without_arrays,
    newest_good,
    remove_checkpoints,
    rotate,
    save_checkpoint,
)
from rlcore.storage.configuration import Change, changes
from rlcore.storage.directory import RunDirectory
from rlcore.storage.run_files import outcome_in
from rlcore.storage.saved_state import require_models, require_run
from rlcore.storage.status import (
    SavedStatus,
    check_metadata,
    checkpoint_entry,
    metadata,
    plugin_versions,
)
from rlcore.storage.versions import library_versions

log = logging.getLogger(__name__)


class SavedBehavior(Protocol):
    """What a checkpoint and its status tell of a behavior."""

    settings: BehaviorSettings

    @property
    def steps(self) -> int: ...

    @property
    def mean_reward(self) -> float | None: ...


class RunStore:
    """Reads and writes the run directory; its lock is held by whoever holds this."""

    def __init__(self, directory: RunDirectory, plugins: Plugins) -> None:
        self.directory = directory
        self.plugins = plugins
        self.saved_step: int | None = None  # agent steps of the checkpoint last written or read
        self._index: dict[str, list[dict[str, Any]]] = {}  # ML-Agents' list of checkpoints, by behavior
        self._sections: dict[str, Any] = {}  # of plugins, as of that checkpoint
        self._evaluation: Mapping[str, Any] | None = None  # scores, as of that checkpoint
        self._saved: SavedStatus | None = None  # of the checkpoint last read
        self._configuration = ""  # as checkpoints hold it
        self._whole: dict[int, bool] = {}  # checkpoints by step that were read back, and whether they are whole

    # ------------------------------------------------------------ reading

    def newest_state(self) -> dict[str, Any]:
        """The state of the newest checkpoint that is whole. Raises RunStateError if there is none."""
        if not find_checkpoints(self.directory.checkpoints):
            raise RunStateError(self.directory.no_checkpoint())
        checkpoint, state = newest_good(
            self.directory.checkpoints,
            f"{self.directory.path}",
            "; restore one from a backup or start over with --force",
            check=require_run,
        )
        self.saved_step = checkpoint.step
        self._whole[checkpoint.step] = True
        self._saved = SavedStatus.of(checkpoint, state)
        self._sections = dict(self._saved.sections)
        self._evaluation = self._saved.evaluation
        return state

    def restore_status(self, context: RunContext, behaviors: Mapping[str, SavedBehavior]) -> None:
        """Takes the status up again and hands its sections to the plugins.

        Where it is not of the checkpoint the run goes on from, plugins get back what they reported for that one.
        """
        assert self._saved is not None
        found, status = find_checkpoints(self.directory.checkpoints), None
        try:
            status = self.plugins.read_status(self.directory.logs)
        except DamagedStatusFile as error:  # what a plugin keeps may be beyond writing too, so its errors stop the run
            log.warning("%s; going on with what the checkpoint holds of it", error)
        else:
            if status is None and len(found) > 1:  # a kill after the first checkpoint leaves none
                log.warning(
                    "%s: there is no status; going on with what the checkpoint holds of it", self.directory.logs
                )
        status = self._saved.applied(status, found)
        self._index = {name: status[name]["checkpoints"] for name in behaviors}
        self.plugins.restore_status(context, status)

    def compare_versions(self, saved: Mapping[str, Any]) -> None:
        """Warns of every library and plugin that is another one than when the checkpoint was saved."""
        then, now = saved["run"].get("versions", {}), self._versions
        for kind, what in (("libraries", "%s"), ("plugins", "plugin %r")):
            before, after = then.get(kind, {}), now[kind]
            for name in sorted(before.keys() | after.keys() if before else ()):
                if before.get(name) != after.get(name):
                    was, is_now = (side.get(name, "not loaded") or "without a version" for side in (before, after))
                    log.warning(f"{what}: %s when the run was saved, %s now", name, was, is_now)

    @cached_property
    def _versions(self) -> dict[str, dict[str, str]]:
        return {"libraries": dict(library_versions()), "plugins": plugin_versions(self.plugins)}

    def configuration_changes(self) -> list[Change]:
        """What the run was configured otherwise when the checkpoint last read was saved."""
        assert self._saved is not None
        path = self._saved.checkpoint.path / CONFIGURATION
        if not path.is_file():
            return []
        return changes(read_document(path).data, parse_document(self._configuration, CONFIGURATION).data)

    def status_of_run(self, run: str, origin: str) -> Mapping[str, Any]:
        """The status of another run, of rlcore or of ML-Agents: an id in the same results directory, or a directory.

        ``origin`` is what the user wrote. RunStateError if there is none, or one of neither.
        """
        beside = self.directory.path.parent / run
        given = self.directory.working_directory / user_path(run)
        if given.is_file():
            raise RunStateError(f"{origin}: is a file; name the run's directory, which has {self.directory.logs.name}")
        logs = (beside if beside.is_dir() else given) / self.directory.logs.name
        try:
            status = self.plugins.read_status(logs)
        except DamagedStatusFile as error:
            return _status_in_checkpoint(logs, origin, error)
        if status is None:
            return _status_in_checkpoint(logs, origin, RunStateError(f"{logs} holds no training status"))
        check_metadata(status, origin)
        return status

    def models_of_run(self, run_id: str) -> dict[str, Any]:
        """Saved models by behavior of another run in the same results directory."""
        checkpoints = self.directory.path.parent / run_id / "checkpoints"
        return saved_models(checkpoints, f"checkpoint_settings.initialize_from {run_id!r}")

    # ------------------------------------------------------------ writing

    def configure(self, config: RunConfig) -> None:
        """Takes the configuration that checkpoints of this run are to hold."""
        self._configuration = sealed(config_text(config))

    def write_configuration(self) -> None:
        """Writes ``configuration.yaml``. Raises RunStateError."""
        try:
            write_atomically(self.directory.configuration, self._configuration.encode())
        except OSError as error:
            raise RunStateError(f"{self.directory.configuration}: {error.strerror or error}") from error

    def save(
        self,
        step: int,
        state: dict[str, Any],
        behaviors: Mapping[str, SavedBehavior],
        context: RunContext,
        parameters: Mapping[str, Mapping[str, Any]],
    ) -> Path:
        """Writes a checkpoint and the status, and deletes checkpoints beyond ``keep_checkpoints``.

        ``parameters`` are the status sections of environment parameters, by name.
        """
        _require_mappings(state, behaviors)
        self.directory.require()
        failure: PluginError | None = None
        try:
            self._sections = self.plugins.report_status(context, parameters, behaviors) | dict(parameters)
        except PluginError as error:  # what was learned is saved all the same
            failure = error
        state["run"] |= {"sections": self._sections, "versions": self._versions}
        self._evaluation = state["run"]["evaluation"]
        try:
            path = save_checkpoint(self.directory.checkpoints, step, state, self._configuration)
        except (TypeError, RecursionError) as error:
            what = "a state holds itself" if isinstance(error, RecursionError) else str(error)
            raise PluginError(f"checkpoint of step {step}: {what}") from error
        self.saved_step = step
        self._whole[step] = True
        self._settle_best()
        keep = [behavior.settings.keep_checkpoints for behavior in behaviors.values()]
        stay = rotate(self.directory.checkpoints, 0 if min(keep) <= 0 else max(keep), step, self._is_whole)
        kept = {checkpoint.step for checkpoint in stay}
        now = time()
        for name, behavior in behaviors.items():
            older = [entry for entry in self._index.get(name, []) if entry["run_steps"] in kept - {step}]
            self._index[name] = [*older, checkpoint_entry(name, path, behavior.steps, behavior.mean_reward, now)]
        with self._status_of(step):
            if failure is not None:
                raise failure
            self.write_status()
        return path

    def update_status(
        self, context: RunContext, behaviors: Mapping[str, SavedBehavior], parameters: Mapping[str, Mapping[str, Any]]
    ) -> None:
        """Writes the status again if plugins report otherwise, now that they know that the checkpoint is saved."""
        with self._status_of(self.saved_step):
            sections = self.plugins.report_status(context, parameters, behaviors) | dict(parameters)
            if sections != self._sections:
                self._sections = sections
                self.write_status()

    @contextmanager
    def _status_of(self, step: int | None) -> Iterator[None]:
        """Says of an error that the checkpoint of ``step`` is whole all the same."""
        try:
            yield
        except Exception as error:
            kind = PluginError if isinstance(error, PluginError) else RunStateError
            what = str(error) if isinstance(error, RlcoreError) else one_line(error)
            raise kind(
                f"checkpoint of step {step} is saved, its status is not: {what}; mend that and go on with --resume"
            ) from error

    def _is_whole(self, checkpoint: Checkpoint) -> bool:
        """Whether a checkpoint is whole; one is read back once in the life of a process."""
        if checkpoint.step not in self._whole:
            self._whole[checkpoint.step] = is_good(checkpoint)
        return self._whole[checkpoint.step]

    def save_best(self, step: int, models: Mapping[str, Any], about: Mapping[str, Any]) -> None:
        """Writes the policies of the best evaluation so far beside the older ones.

        Older ones stay until a checkpoint knows of the new one: a run that is killed earlier still needs them. Policies
        of the same step with a higher score stay for good: they are of steps that were given up by a resume.
        """
        self.directory.require()
        there = by_score([each for each in find_checkpoints(self.directory.best) if each.step == step])
        if there and _score(there[0]) > about["score"]:
            log.warning("%s: has policies of a higher score, of steps that this run gave up; they stay", there[0].path)
            return
        state = {name: {"model": model} for name, model in models.items()}
        try:
            save_checkpoint(self.directory.best, step, state | {"run": about}, self._configuration)
        except TypeError as error:
            raise PluginError(f"best checkpoint, of step {step}: {error}") from error

    def _settle_best(self) -> None:
        """Deletes the best checkpoints that score less than the one that the checkpoint last written calls the best.

        One that scores more stays: it is of steps that this run gave up, as it was resumed from an older checkpoint.
        """
        best = None if self._evaluation is None else self._evaluation["best_step"]
        found = find_checkpoints(self.directory.best)
        if len(found) == 1 or best not in {checkpoint.step for checkpoint in found}:
            return
        ranked = by_score(found)
        steps = [checkpoint.step for checkpoint in ranked]
        if best not in steps:
            log.warning("%s: is damaged; the other best checkpoints stay", self.directory.best / str(best))
        else:
            remove_checkpoints(self.directory.best, ranked[: steps.index(best)])

    def write_status(self, final: bool = False) -> None:
        """Rewrites the status; ``final`` names the last checkpoint as the trained model."""
        status = dict(self._sections)
        for name, entries in self._index.items():
            section: dict[str, Any] = {"checkpoints": entries}
            if final and entries:
                section["final_checkpoint"] = entries[-1]
            status[name] = section | status.get(name, {})
        status["metadata"] = metadata(plugin_versions(self.plugins)) | {"run_steps": self.saved_step}
        if self._evaluation is not None and self._evaluation["score"] is not None:
            status["metadata"]["evaluation"] = self._evaluation
        self.plugins.write_status(status, self.directory.logs)

    def is_done(self) -> bool:
        """Whether ``result.json`` says that the run reached its end."""
        return outcome_in(self.directory.path) == "done"

    def forget_result(self) -> None:
        """Deletes the result of the process before: the run goes on. Raises RunStateError."""
        try:
            self.directory.result.unlink(missing_ok=True)
        except OSError as error:
            raise RunStateError(f"{self.directory.result}: cannot be deleted: {error.strerror or error}") from error

    def write_result(self, result: Mapping[str, Any], timers: Mapping[str, Any]) -> None:
        """Writes ``result.json`` and ``timers.json``."""
        self.directory.require()
        try:
            write_atomically(self.directory.result, (json.dumps(result, indent=4) + "\n").encode())
            write_atomically(self.directory.logs / "timers.json", (json.dumps(timers, indent=4) + "\n").encode())
        except OSError as error:
            what = error.filename2 or error.filename or self.directory.path
            raise RunStateError(f"{what}: the result cannot be written: {error.strerror or error}") from error


def _require_mappings(state: Mapping[str, Any], behaviors: Mapping[str, SavedBehavior]) -> None:
    """Refuses a state of a trainer or an environment that could not be taken up again."""
    for name, behavior in behaviors.items():
        if not isinstance(state[name], Mapping):
            kind, trainer = type(state[name]).__name__, behavior.settings.trainer_type
            raise PluginError(f"behavior {name!r}: trainer {trainer!r}: state_dict returned a {kind}, not a mapping")
    where = state["run"]["environment"]
    if where is not None and not isinstance(where, Mapping):
        raise EnvironmentFailed(f"the environment's state_dict returned a {type(where).__name__}, not a mapping")


def _status_in_checkpoint(logs: Path, origin: str, problem: RunStateError) -> Mapping[str, Any]:
    """What the newest checkpoint beside ``logs`` holds of a status that cannot be read: the ``problem``, if none is."""
    found = find_checkpoints(logs.parent / "checkpoints")
    if not found:
        raise RunStateError(f"{origin}: {problem}") from problem
    log.warning("%s: %s; taking what its newest checkpoint holds of it", origin, problem)
    checkpoint, state = newest_good(logs.parent / "checkpoints", origin, check=require_run)
    return SavedStatus.of(checkpoint, state).applied(None, found)


def by_score(checkpoints: Sequence[Checkpoint]) -> list[Checkpoint]:
    """The best checkpoints that are whole, the highest score last; of equal scores, the earlier step."""
    whole = [checkpoint for checkpoint in checkpoints if is_good(checkpoint)]
    return sorted(whole, key=lambda checkpoint: (_score(checkpoint), -checkpoint.step))


def _score(checkpoint: Checkpoint) -> float:
    """The score of the policies in a best checkpoint; they are the worst there can be if it tells none."""
    try:
        return float(load_without_arrays(checkpoint.path)["run"]["score"])
    except (RunStateError, LookupError, TypeError, ValueError):
        return -math.inf


def saved_models(checkpoints: Path, origin: str, step: int | None = None) -> dict[str, Any]:
    """The ``model`` entry of every behavior in the newest good checkpoint, or in the one of ``step``.

    ``origin`` is what the user wrote, for the message of the RunStateError raised if there is none.
    """
    _, state = newest_good(checkpoints, origin, step=step, check=require_models)
    return models_in(state)


def models_in(state: Mapping[str, Any]) -> dict[str, Any]:
    """The ``model`` entry of every behavior in the state of a checkpoint."""
    return {name: entry["model"] for name, entry in state.items() if name != "run"}


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
