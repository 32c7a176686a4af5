"""The training status: a view of a run's newest checkpoint, in ML-Agents' shape, with a section for each plugin.

Everything in it comes from checkpoints, and from the run's mark, which lists exported policies; it can be made again at
any time. It is written after each checkpoint, and again after its exports, to ``training_status.json`` or to where a
plugin keeps it. ``rlcore status`` and runs that start with another run's lessons
read it; a resumed run does not.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Self

import attrs
import numpy as np

from rlcore.errors import RunStateError
from rlcore.storage.checkpoint_state import RUN
from rlcore.storage.checkpoints import Checkpoint, find_checkpoints
from rlcore.storage.files.access import is_number, is_whole
from rlcore.storage.fingerprint import fingerprint_in
from rlcore.storage.run_files import ExportedFiles

log = logging.getLogger(__name__)

# ML-Agents' number for this shape of the file.
STATS_FORMAT_VERSION = "0.3.0"


@attrs.frozen
class ListedCheckpoint:
    """A checkpoint in the lists of the status."""

    step: int  # agent steps of all behaviors
    entries: Mapping[str, Mapping[str, Any]]  # by behavior

    @classmethod
    def of(cls, checkpoint: Checkpoint, run: Mapping[str, Any]) -> Self:
        """``run`` is the checkpoint's entry of the run."""
        entries = {
            name: _entry(name, checkpoint, int(steps), run["behaviors"][name]["recent"], checkpoint.created)
            for name, steps in run["steps"].items()
        }
        return cls(checkpoint.step, entries)


def listed_before(step: int, checkpoints: Sequence[Checkpoint]) -> list[ListedCheckpoint]:
    """The entries of the status for those ``checkpoints`` whose step is before ``step``, in their order.

    Skips checkpoints whose state cannot be read. Arrays are not read, so a listed checkpoint may still be damaged.
    """
    listed = []
    for checkpoint in checkpoints:
        if checkpoint.step >= step:
            continue
        try:
            listed.append(ListedCheckpoint.of(checkpoint, checkpoint.values()[RUN]))
        except (RunStateError, OSError) as error:  # OSError: the run is training, and has just deleted it
            log.debug("%s; the training status does not list it", error)
    return listed


def training_status(
    run: Mapping[str, Any],
    newest: ListedCheckpoint,
    older: Sequence[ListedCheckpoint],
    exported: ExportedFiles,
    final: bool = False,
) -> dict[str, Any]:
    """The status of a run at its ``newest`` checkpoint, with the older ones listed.

    ``run`` is the checkpoint's entry of the run. ``final``: the training is done.
    """
    status = dict(run["sections"])
    for name in newest.entries:
        listed = [each for each in (*older, newest) if name in each.entries]
        entries = [_with_files(each.entries[name], exported.of_checkpoint(name, each.step)) for each in listed]
        section: dict[str, Any] = {"checkpoints": entries}
        if final:
            files = exported.of_end(name, newest.step, newest.entries) or exported.of_checkpoint(name, newest.step)
            section["final_checkpoint"] = _with_files(newest.entries[name], files)
        shared = status.get(name)  # what a plugin adds
        status[name] = section | (dict(shared) if isinstance(shared, Mapping) else {})
    made_with = fingerprint_in(run)
    libraries = {f"{name}_version": version for name, version in made_with.get("libraries", {}).items()}
    metadata = {
        "stats_format_version": STATS_FORMAT_VERSION,
        **libraries,
        "plugins": dict(made_with.get("plugins", {})),
        "run_steps": newest.step,
    }
    if (run.get("evaluation") or {}).get("score") is not None:
        metadata["evaluation"] = run["evaluation"]
    if run.get("resume") is not None:  # an older checkpoint has none
        metadata["resume"] = run["resume"]
    return status | {"metadata": metadata}


def status_in_checkpoints(checkpoint: Checkpoint, final: bool = False) -> dict[str, Any]:
    """The status of the run at ``checkpoint``, with the checkpoints beside it listed.

    ``final``: the training is done. Raises RunStateError if the checkpoint cannot be used.
    """
    run = checkpoint.values()[RUN]
    older = listed_before(checkpoint.step, find_checkpoints(checkpoint.path.parent))
    exported = ExportedFiles.read(checkpoint.path.parent.parent)
    return training_status(run, ListedCheckpoint.of(checkpoint, run), older, exported, final)


def _with_files(entry: Mapping[str, Any], exported: Sequence[str]) -> Mapping[str, Any]:
    """The entry of a checkpoint that was exported: the first file stands where ML-Agents has its ``.onnx`` file."""
    files = [*exported, str(entry["file_path"]), *map(str, entry["auxillary_file_paths"])]
    return {**entry, "file_path": files[0], "auxillary_file_paths": files[1:]}


def _entry(
    behavior: str, checkpoint: Checkpoint, steps: int, recent: Sequence[float], created: float
) -> dict[str, Any]:
    """One checkpoint in a behavior's list, as ML-Agents writes it; ``run_steps`` are those of all behaviors."""
    place = f"{checkpoint.path.parent.name}/{checkpoint.path.name}"
    return {
        "steps": steps,
        "run_steps": checkpoint.step,
        "file_path": f"{place}/{behavior}.safetensors",
        "reward": mean(recent),
        "creation_time": created,
        "auxillary_file_paths": [f"{place}/state.json"],  # ML-Agents' spelling
    }


def mean(values: Sequence[float]) -> float | None:
    """The mean; None without values."""
    return float(np.mean(np.asarray(values, np.float64))) if values else None


# ---------------------------------------------------------------- reading a status that may be edited or damaged


def check_metadata(status: Mapping[str, Any], origin: str) -> None:
    """Warns of a status in another version of the shape. Raises RunStateError if it does not say its version."""
    version = metadata_of(status).get("stats_format_version")
    if version is None:
        raise RunStateError(f"{origin}: its training status has no metadata.stats_format_version")
    if version != STATS_FORMAT_VERSION:
        log.warning(
            "%s: its training status is in version %s of the format, rlcore reads %s",
            origin, version, STATS_FORMAT_VERSION,
        )  # fmt: skip


def metadata_of(status: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """The ``metadata`` of a status; empty if there is none."""
    found = (status or {}).get("metadata")
    return found if isinstance(found, Mapping) else {}


def listed_checkpoints(section: Any) -> list[Mapping[str, Any]]:
    """The list of checkpoints in a behavior's section, without entries that rlcore could not have written."""
    listed = section.get("checkpoints") if isinstance(section, Mapping) else None
    entries = listed if isinstance(listed, list) else []
    return [each for each in entries if _is_entry(each)]


def _is_entry(entry: Any) -> bool:
    """Whether the values that rlcore reads of an entry have the right types."""
    return (
        isinstance(entry, Mapping)
        and is_whole(entry.get("run_steps"))
        and is_whole(entry.get("steps"))
        and (entry.get("reward") is None or is_number(entry["reward"]))
    )
