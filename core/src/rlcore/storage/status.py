"""``training_status.json``: what must survive beside the weights, in ML-Agents' shape plus a section per plugin."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from rlcore.errors import RunStateError
from rlcore.files.json_files import is_number, is_whole
from rlcore.storage.checkpoint import Checkpoint
from rlcore.storage.versions import library_versions

if TYPE_CHECKING:
    from rlcore.plugins.calls import Plugins

log = logging.getLogger(__name__)

# ML-Agents' number for this shape of the file.
STATS_FORMAT_VERSION = "0.3.0"


def check_metadata(status: Mapping[str, Any], origin: str) -> None:
    """Warns of a status in another version of the shape; RunStateError for one that does not say which it is in."""
    version_of_it = about(status).get("stats_format_version")
    if version_of_it is None:
        raise RunStateError(f"{origin}: its training status has no metadata.stats_format_version")
    if version_of_it != STATS_FORMAT_VERSION:
        log.warning(
            "%s: its training status is in version %s of the format, rlcore reads %s",
            origin, version_of_it, STATS_FORMAT_VERSION,
        )  # fmt: skip


def about(status: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Its ``metadata``; empty if there is none."""
    found = (status or {}).get("metadata")
    return found if isinstance(found, Mapping) else {}


def checkpoint_entry(
    behavior: str, checkpoint: Path, steps: int, reward: float | None, created: float
) -> dict[str, Any]:
    """One checkpoint in a behavior's list, as ML-Agents writes it; ``run_steps`` is over all behaviors."""
    place = Path(checkpoint.parent.name, checkpoint.name)
    return {
        "steps": steps,
        "run_steps": int(checkpoint.name),
        "file_path": str(place / f"{behavior}.safetensors"),
        "reward": reward,
        "creation_time": created,
        "auxillary_file_paths": [str(place / "state.json")],  # ML-Agents' spelling
    }


@attrs.frozen
class SavedStatus:
    """What a checkpoint holds of the status, which is written after it.

    A kill in between, a damaged checkpoint, or a status that is gone leaves none, or one of another step.
    """

    checkpoint: Checkpoint
    sections: Mapping[str, Any]  # of plugins and environment parameters
    evaluation: Mapping[str, Any] | None
    steps: Mapping[str, int]  # agent steps by behavior
    rewards: Mapping[str, float | None]  # mean return of the latest episodes

    @classmethod
    def of(cls, checkpoint: Checkpoint, state: Mapping[str, Any]) -> SavedStatus:
        """``state`` is the checkpoint's; its arrays may be left out."""
        run = state["run"]
        recent = {name: behavior["recent"] for name, behavior in run["behaviors"].items()}
        return cls(
            checkpoint,
            run["sections"],
            run.get("evaluation"),
            {name: int(steps) for name, steps in run["steps"].items()},
            {name: float(np.mean(returns)) if returns else None for name, returns in recent.items()},
        )

    def applied(self, status: Mapping[str, Any] | None, found: Sequence[Checkpoint]) -> dict[str, Any]:
        """The status of this checkpoint: ``status`` itself if it is of its step.

        Of one of another step only the lists of checkpoints count, as far as those are ``found`` and no later.
        """
        step, metadata = self.checkpoint.step, dict(about(status))
        lists = {name: listed_checkpoints((status or {}).get(name)) for name in self.steps}
        if status is None or metadata.get("run_steps") != step:
            metadata.pop("evaluation", None)
            metadata["run_steps"] = step
            if self.evaluation is not None and self.evaluation["score"] is not None:
                metadata["evaluation"] = self.evaluation
            status = {**self.sections, "metadata": metadata}
        applied, there = dict(status), {each.step for each in found}
        for name, steps in self.steps.items():
            entries = [entry for entry in lists[name] if entry["run_steps"] in there and entry["run_steps"] <= step]
            if not entries or entries[-1]["run_steps"] != step:
                path = self.checkpoint.path
                entries.append(checkpoint_entry(name, path, steps, self.rewards[name], path.stat().st_mtime))
            section = applied.get(name)
            applied[name] = {**(section if isinstance(section, Mapping) else {}), "checkpoints": entries}
        return applied


def listed_checkpoints(section: Any) -> list[Mapping[str, Any]]:
    """A behavior's list of checkpoints, without what nobody could have written."""
    listed = section.get("checkpoints") if isinstance(section, Mapping) else None
    entries = listed if isinstance(listed, list) else []
    return [each for each in entries if _is_entry(each)]


def _is_entry(entry: Any) -> bool:
    """Whether this is an entry of the list, as far as rlcore reads it."""
    return (
        isinstance(entry, Mapping)
        and is_whole(entry.get("run_steps"))
        and is_whole(entry.get("steps"))
        and (entry.get("reward") is None or is_number(entry["reward"]))
    )


def metadata(plugins: Mapping[str, str]) -> dict[str, Any]:
    """The ``metadata`` section; ``plugins`` maps a plugin's name to its distribution and version."""
    libraries = {f"{name}_version": version for name, version in library_versions().items()}
    return {"stats_format_version": STATS_FORMAT_VERSION, **libraries, "plugins": dict(plugins)}


def plugin_versions(plugins: Plugins) -> dict[str, str]:
    """Distribution and version of every loaded plugin, by name."""
    return {each.name: f"{each.distribution} {each.version}".strip() for each in plugins.loaded}
