"""The training status: a view of a run's newest checkpoint, in ML-Agents' shape, with a section for each plugin.

Everything in it comes from checkpoints, and from the run's mark, which lists exported policies; it can be made again at
any time. It is written after each checkpoint, and again after its exports, to ``training_status.json`` or to where a
plugin keeps it. ``rlcore status`` and runs that start with another run's lessons
read it; a resumed run does not.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from rlcore.contracts.saved_values import COUNT, NUMBER, has_form
from rlcore.errors import RunStateError
from rlcore.storage.checkpoint_state import RUN
from rlcore.storage.checkpoints import Checkpoint, find_checkpoints
from rlcore.storage.fingerprint import ENTRY as FINGERPRINT
from rlcore.storage.mark import exports_in

log = logging.getLogger(__name__)

# ML-Agents' number for this shape of the file.
STATS_FORMAT_VERSION = "0.3.0"
MOST_LISTED = 20  # of the checkpoints of a run, the newest: a list of all would make each save longer than the last
_ENTRY = {"run_steps": COUNT, "steps": COUNT, "reward?": NUMBER}  # what rlcore reads of a listed checkpoint


def training_status(
    newest: Checkpoint,
    older: Sequence[Checkpoint] | None = None,
    final: bool = False,
    listed: dict[int, Mapping[str, Any]] | None = None,
) -> dict[str, Any]:
    """The status of a run at its ``newest`` checkpoint, with the ones before it listed, ``MOST_LISTED`` at most in all.

    Without ``older``, those before it are looked for.

    ``final``: the training is done. ``listed`` remembers by step, for the next call, what is listed of a checkpoint.
    Raises RunStateError if the newest checkpoint cannot be used. An older one is skipped if its state cannot be read;
    arrays are not read, so a listed checkpoint may still be damaged.
    """
    run = newest.values()[RUN]
    if older is None:
        checkpoints = find_checkpoints(newest.path.parent)
        older = [checkpoint for checkpoint in checkpoints if checkpoint.step < newest.step]
    known = {} if listed is None else listed
    older = older[-(MOST_LISTED - 1) :]
    for unlisted in known.keys() - {checkpoint.step for checkpoint in older}:
        del known[unlisted]
    entries_by_checkpoint = []
    for checkpoint in older:
        try:
            if checkpoint.step not in known:
                known[checkpoint.step] = _entries(checkpoint, checkpoint.values()[RUN])
            entries_by_checkpoint.append(known[checkpoint.step])
        except (RunStateError, OSError) as error:  # OSError: the run is training, and has just deleted it
            log.debug("%s; the training status does not list it", error)
    of_newest = _entries(newest, run)
    entries_by_checkpoint.append(of_newest)
    exports = exports_in(newest.path.parent.parent)
    exported: dict[int | None, list[str]] = {}
    for file, step in exports.items():
        exported.setdefault(step, []).append(file)
    status = dict(run["sections"])
    # ML-Agents' shape: a section for each behavior, whose checkpoints are in the order of their steps.
    for name, newest_entry in of_newest.items():
        of_behavior = []
        for entries in entries_by_checkpoint:
            if name in entries:
                entry = entries[name]
                files = _beside(name, exported.get(entry["run_steps"], ()))
                of_behavior.append(_with_files(entry, files))
        section: dict[str, Any] = {"checkpoints": of_behavior}
        if final:
            files = of_end(name, newest.step, of_newest, exports)
            if not files:
                files = _beside(name, exported.get(newest.step, ()))
            section["final_checkpoint"] = _with_files(newest_entry, files)
        of_plugin = status.get(name)
        if isinstance(of_plugin, Mapping):
            section |= of_plugin
        status[name] = section
    status["metadata"] = _metadata(newest.step, run)
    return status


def _metadata(step: int, run: Mapping[str, Any]) -> dict[str, Any]:
    made_with = run[FINGERPRINT]
    metadata: dict[str, Any] = {"stats_format_version": STATS_FORMAT_VERSION}
    for name, version in made_with["libraries"].items():
        metadata[f"{name}_version"] = version
    metadata["plugins"] = dict(made_with["loaded"])
    metadata["run_steps"] = step
    metadata["resume"] = run["resume"]
    scores = run.get("evaluation")
    if scores and scores.get("score") is not None:
        metadata["evaluation"] = scores
    return metadata


def _beside(behavior: str, exported: Iterable[str]) -> list[str]:
    """Return the files beside a checkpoint, of all that were ``exported`` with it, in their order."""
    return [name for name in exported if name.startswith(f"{behavior}/")]


def of_end(behavior: str, step: int, behaviors: Iterable[str], exports: Mapping[str, int | None]) -> list[str]:
    """The exported files in the run directory with the policy of ``step``; ``behaviors`` are all those of the run.

    ``A.b.onnx`` is of the behavior ``A.b``, not of ``A``.
    """
    files = []
    for name, exported_step in exports.items():
        if exported_step != step or "/" in name:
            continue
        owners = [owner for owner in behaviors if name.startswith(f"{owner}.")]
        if max(owners, key=len, default=None) == behavior:
            files.append(name)
    return files


def _with_files(entry: Mapping[str, Any], exported: Sequence[str]) -> Mapping[str, Any]:
    """The entry of a checkpoint that was exported: the first file stands where ML-Agents has its ``.onnx`` file."""
    files = [*exported, entry["file_path"]]
    files += entry["auxillary_file_paths"]
    return {**entry, "file_path": files[0], "auxillary_file_paths": files[1:]}


def _entries(checkpoint: Checkpoint, run: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The checkpoint in the list of each behavior, as ML-Agents writes it. ``run`` is its entry of the run.

    ``run_steps`` are those of all behaviors.
    """
    place = f"{checkpoint.path.parent.name}/{checkpoint.path.name}"
    created = checkpoint.created
    return {
        name: {
            "steps": int(steps),
            "run_steps": checkpoint.step,
            "file_path": f"{place}/{name}.safetensors",
            "reward": mean(run["behaviors"][name]["recent"]),
            "creation_time": created,
            "auxillary_file_paths": [f"{place}/state.json"],  # ML-Agents' spelling
        }
        for name, steps in run["steps"].items()
    }


def mean(values: Sequence[float]) -> float | None:
    """The mean; None without values."""
    if not values:
        return None
    return float(np.mean(np.asarray(values, np.float64)))


# ---------------------------------------------------------------- reading a status that may be edited or damaged


def metadata_of(status: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """The ``metadata`` of a status; empty if there is none."""
    metadata = (status or {}).get("metadata")
    return metadata if isinstance(metadata, Mapping) else {}


def listed_checkpoints(section: Any) -> list[Mapping[str, Any]]:
    """The list of checkpoints in a behavior's section, without entries that rlcore could not have written."""
    listed = section.get("checkpoints") if isinstance(section, Mapping) else None
    if not isinstance(listed, list):
        return []
    return [entry for entry in listed if has_form(entry, _ENTRY)]
