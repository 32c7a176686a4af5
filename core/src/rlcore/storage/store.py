"""Read and write the directory of a run: checkpoints, training status, configuration, result."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs

from rlcore.config.dump import config_text, content_sha256, sealed
from rlcore.config.reading import parse_document, read_document
from rlcore.errors import EnvironmentFailed, PluginError, RlcoreError, RunStateError, one_line
from rlcore.files.reading import failing_as
from rlcore.plugins.call import Plugins
from rlcore.plugins.context import RunContext
from rlcore.plugins.discover import Plugin
from rlcore.plugins.factories import FACTORIES
from rlcore.settings import BehaviorSettings, RunConfig
from rlcore.storage.checkpoint import CONFIGURATION
from rlcore.storage.checkpoint_state import RUN, require_run
from rlcore.storage.checkpoints import (
    Checkpoint,
    CheckpointSave,
    by_score,
    find_checkpoints,
    is_intact,
    most_kept,
    newest_intact,
    remove_lower_best,
    rotate,
    save_best,
)
from rlcore.storage.directory import ResultsDirectory
from rlcore.storage.fingerprint import (
    ANOTHER_CONFIGURATION,
    Fingerprint,
    changes,
    described,
    differences,
    fingerprint,
    learning_part,
    other_plugins,
)
from rlcore.storage.fingerprint import ENTRY as FINGERPRINT
from rlcore.storage.frozen_files import FlushedFiles
from rlcore.storage.mark import TIMERS, outcome_in
from rlcore.storage.status import training_status

Kept = tuple[list[Checkpoint], list[Checkpoint]]  # those that stay and those that were deleted, oldest first


@attrs.define(eq=False)
class PendingSave:
    """A checkpoint of a run that was begun. :meth:`write` may run in another thread after :meth:`detach`.

    Attributes:
        step: Agent steps of the checkpoint.
        path: Its directory.
        failure: The error of a plugin that reported its section of the status.
        stay: Intact checkpoints after :meth:`write`, oldest first.
        removed: Checkpoints that :meth:`write` deleted, oldest first.
    """

    step: int
    path: Path
    _save: CheckpointSave | None = None  # None in ranks other than 0, which write nothing
    _delete_old: Callable[[], Kept] = lambda: ([], [])
    failure: PluginError | None = None
    stay: list[Checkpoint] = attrs.field(factory=list, init=False)
    removed: list[Checkpoint] = attrs.field(factory=list, init=False)

    @property
    def nbytes(self) -> int:
        """Bytes that :meth:`detach` copies."""
        return 0 if self._save is None else self._save.nbytes

    def detach(self) -> None:
        """Copy what is to be written, so that the training may continue before :meth:`write`."""
        if self._save is not None:
            self._save.detach()

    def write(self) -> None:
        """Write the checkpoint, and delete those beyond ``keep_checkpoints``."""
        if self._save is not None:
            with _of_plugins(self.step):
                self._save.finish()
            self.stay, self.removed = self._delete_old()  # only now: the new checkpoint is verified


@contextmanager
def _of_plugins(step: int) -> Iterator[None]:
    """For a block that writes a state: one that no checkpoint can hold is a PluginError."""
    try:
        yield
    except (TypeError, RecursionError) as error:
        what = "a state contains itself" if isinstance(error, RecursionError) else str(error)
        raise PluginError(f"checkpoint of step {step}: {what}") from error


class CheckpointStore:
    """Reads and writes the files of a run, in a directory whose lock this process holds.

    The checkpoint is the truth, the training status a view of the newest one: it is written after the checkpoint and
    never read back by the run itself. In a read-only directory, that of ranks other than 0, nothing is written.
    """

    def __init__(self, directory: ResultsDirectory, plugins: Plugins) -> None:
        self.directory = directory
        self.plugins = plugins
        self.saved_step: int | None = None  # agent steps of the checkpoint last written or read
        self._older: list[Checkpoint] = []  # the checkpoints before it in the directory
        self._found: dict[str, Checkpoint] = {}  # the checkpoints that were seen in the directory, by name
        self._listed: dict[int, Mapping[str, Any]] = {}  # what the status lists of them, by step
        self._configuration = ""  # as checkpoints hold it
        self._fingerprint: Fingerprint = {}  # of this process
        self._flushed = FlushedFiles()
        self._intact: dict[int, bool] = {}  # by step: whether a checkpoint that was read back is undamaged

    # ------------------------------------------------------------ reading

    def newest_state(self) -> dict[str, Any]:
        """The state of the newest undamaged checkpoint, or of the one that ``checkpoint_settings.checkpoint`` names.

        Raises RunStateError if there is none.
        """
        checkpoints = find_checkpoints(self.directory.checkpoints)
        if not checkpoints:
            raise RunStateError(self.directory.no_checkpoint())
        step = self._chosen_step(checkpoints)
        choice = "start over with --force" if step is None else "choose another --checkpoint"
        checkpoint, state = newest_intact(
            self.directory.checkpoints,
            f"{self.directory.path}",
            f"; restore one from a backup or {choice}",
            step,
            check=require_run,
        )
        if step is not None and checkpoints[-1].step > step:
            self.directory.rewind(step)
        self._intact[checkpoint.step] = True
        self.saved_step = checkpoint.step
        self._older = [older for older in checkpoints if older.step < checkpoint.step]
        return state

    def _chosen_step(self, checkpoints: Sequence[Checkpoint]) -> int | None:
        """The step that ``checkpoint_settings.checkpoint`` names; None for the newest one."""
        chosen = self.directory.settings.checkpoint
        if chosen is None:
            return None
        advice = ""
        if chosen == "best":
            ranked = by_score(find_checkpoints(self.directory.best))
            if ranked:
                best = ranked[-1]
                chosen = str(best.step)
                advice = f"{best.path} has weights only, for behaviors.NAME.init_path of a new run; "
        steps = [str(checkpoint.step) for checkpoint in checkpoints]
        if chosen in steps:
            return int(chosen)
        raise RunStateError(
            f"{self.directory.path}: there is no checkpoint {chosen[:60]!r} to resume from; {advice}there are "
            f"{', '.join(steps)}"
        )

    def restore_status(self, context: RunContext) -> None:
        """Gives plugins the status of the checkpoint that was read, made from the checkpoints alone."""
        if not self.directory.read_only:
            self.plugins.restore_status(context, self._status())

    def differences(self, saved: Mapping[str, Any]) -> list[str]:
        """The differences from the fingerprint in the checkpoint's state ``saved``, in words."""
        found = differences(saved[RUN][FINGERPRINT], self._fingerprint)
        if ANOTHER_CONFIGURATION not in found:
            return found
        changed = self.configuration_changes(learning=True)
        if changed is None:
            return found
        found.remove(ANOTHER_CONFIGURATION)
        if changed:
            found.append(f"{ANOTHER_CONFIGURATION} ({described(changed)})")
        return found

    def other_plugins(self, saved: Mapping[str, Any]) -> list[str]:
        """The differences between the loaded plugins that no number of the training depends on, in words."""
        return other_plugins(saved[RUN][FINGERPRINT], self._fingerprint)

    def configuration_changes(self, learning: bool = False) -> list[str] | None:
        """The keys of the configuration that differ from those in the checkpoint that was read; None if it has none.

        With ``learning``, only keys that a training depends on.
        """
        path = self.directory.checkpoints / str(self.saved_step) / CONFIGURATION
        if self.directory.read_only or not path.is_file():
            return None
        before: Mapping[str, Any] = read_document(path).data
        now: Mapping[str, Any] = parse_document(self._configuration, CONFIGURATION).data
        if learning:
            before = learning_part(before, self.plugins)
            now = learning_part(now, self.plugins)
        return changes(before, now)

    def is_done(self) -> bool:
        """Whether ``result.json`` says that the run is done."""
        return outcome_in(self.directory.path) == "done"

    # ------------------------------------------------------------ writing

    def configure(self, config: RunConfig, ranks: int = 1, took_part: Iterable[Plugin] = ()) -> None:
        """Sets the configuration that checkpoints of this run, of ``ranks`` processes, hold.

        ``took_part`` are the plugins that made or wrapped objects of the run.
        """
        self._configuration = sealed(config_text(config))
        self._fingerprint = fingerprint(self.plugins, config, ranks, took_part)

    @property
    def configuration_sha256(self) -> str:
        """The checksum of the configuration that :meth:`configure` set."""
        return content_sha256(self._configuration)

    def write_configuration(self) -> None:
        """Writes ``configuration.yaml``. Raises RunStateError."""
        with failing_as(f"{self.directory.configuration}"):
            self.directory.write(self.directory.configuration, self._configuration)

    def begin_save(
        self,
        step: int,
        state: dict[str, Any],
        behaviors: Mapping[str, BehaviorSettings],
        context: RunContext,
        parameters: Mapping[str, Mapping[str, Any]],
    ) -> PendingSave:
        """Begin a checkpoint. Write it with :meth:`PendingSave.write`, then call :meth:`saved`.

        ``parameters`` are the status sections of environment parameters, by name. Plugins report their sections before
        the checkpoint is written. If one of them fails, the checkpoint is still written, with the sections of the
        checkpoint before, and :meth:`saved` raises the error.
        """
        path = self.directory.checkpoints / str(step)
        _require_mappings(state, behaviors)
        if self.directory.read_only:
            return PendingSave(step, path)
        self.directory.require()
        failure: PluginError | None = None
        try:
            sections = self.plugins.report_status(context, parameters, behaviors)
        except PluginError as error:
            failure = error
            sections = {} if self.saved_step is None else self._saved.values()[RUN]["sections"]
        run = state[RUN]
        run["sections"] = {**sections, **parameters}
        run[FINGERPRINT] = self._fingerprint
        run[FACTORIES] = context.factories.to_json()
        scores = run.get("evaluation") or {}
        keep = most_kept(settings.keep_checkpoints for settings in behaviors.values())
        with _of_plugins(step):
            # A run that keeps one checkpoint has no second one that a damaged file could spare.
            save = CheckpointSave(path.parent, step, state, self._configuration, self._flushed, apart=keep != 1)

        def delete_old() -> Kept:
            self._intact[step] = True  # its save has just verified it
            remove_lower_best(self.directory.best, scores.get("best_step"))
            return rotate(path.parent, keep, step, self._is_intact, context.held_checkpoints, self._found)

        return PendingSave(step, path, save, delete_old, failure)

    def saved(self, pending: PendingSave) -> Path:
        """Write the status of a checkpoint that was written. Returns its path."""
        self.saved_step = pending.step
        self._older = [checkpoint for checkpoint in pending.stay if checkpoint.step < pending.step]
        with _status_after(pending.step):
            if pending.failure is not None:
                raise pending.failure
            self.write_status()
        return pending.path

    def _is_intact(self, checkpoint: Checkpoint) -> bool:
        """Whether a checkpoint is undamaged. Each is read back once in the life of a process."""
        if checkpoint.step not in self._intact:
            self._intact[checkpoint.step] = is_intact(checkpoint)
        return self._intact[checkpoint.step]

    def save_best(self, step: int, models: Mapping[str, Any], about: Mapping[str, Any]) -> None:
        """Writes the policies of the best evaluation so far; see :func:`rlcore.storage.checkpoints.save_best`."""
        if self.directory.read_only:
            return
        self.directory.require()
        save_best(self.directory.best, step, models, about, self._configuration)

    def write_status_of_exports(self) -> None:
        """Writes the status of the newest checkpoint again, after its policies were exported."""
        with _status_after(self._saved.step):
            self.write_status()

    def write_status(self, final: bool = False) -> None:
        """Writes the status of the newest checkpoint; ``final`` names that one as the trained model."""
        if not self.directory.read_only:
            self.plugins.write_status(self._status(final), self.directory.logs)

    def _status(self, final: bool = False) -> dict[str, Any]:
        return training_status(self._saved, self._older, final, self._listed)

    @property
    def _saved(self) -> Checkpoint:
        """The checkpoint last written or read."""
        assert self.saved_step is not None, "no checkpoint was written or read"
        return Checkpoint(self.saved_step, self.directory.checkpoints / str(self.saved_step))

    def forget_result(self) -> None:
        """Deletes the result of an earlier process, because the run continues. Raises RunStateError."""
        with failing_as(f"{self.directory.result}: cannot be deleted"):
            self.directory.delete(self.directory.result)

    def write_result(self, result: Mapping[str, Any], timers: Mapping[str, Any]) -> None:
        """Writes ``result.json`` and ``timers.json``. Raises RunStateError."""
        self.directory.require()
        files = {self.directory.result: result, self.directory.logs / TIMERS: timers}
        for path, content in files.items():
            text = json.dumps(content, indent=4) + "\n"
            with failing_as(f"{path}: the result cannot be written"):
                self.directory.write(path, text)


@contextmanager
def _status_after(step: int) -> Iterator[None]:
    """For a block that writes the status: its errors say that the checkpoint of ``step`` is saved."""
    try:
        yield
    except Exception as error:
        kind = PluginError if isinstance(error, PluginError) else RunStateError
        what = str(error) if isinstance(error, RlcoreError) else one_line(error)
        raise kind(
            f"checkpoint of step {step} is saved, its status is not: {what}; fix that and resume with --resume"
        ) from error


def _require_mappings(state: Mapping[str, Any], behaviors: Mapping[str, BehaviorSettings]) -> None:
    """Raises an error if a trainer or an environment returned a state that cannot be restored."""
    for name, settings in behaviors.items():
        if not isinstance(state[name], Mapping):
            kind = type(state[name]).__name__
            raise PluginError(
                f"behavior {name!r}: trainer {settings.trainer_type!r}: state_dict returned a {kind}, not a mapping"
            )
    environment = state[RUN]["environment"]
    if environment is not None and not isinstance(environment, Mapping):
        kind = type(environment).__name__
        raise EnvironmentFailed(f"the environment's state_dict returned a {kind}, not a mapping")
