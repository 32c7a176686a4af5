"""Read another run for a new one: its models and its training status."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rlcore.errors import RunStateError
from rlcore.plugins.calls import Plugins
from rlcore.plugins.status_file import DamagedStatusFile
from rlcore.storage.checkpoints import find_checkpoints, newest_intact
from rlcore.storage.directory import RunDirectory
from rlcore.storage.files.paths import user_path
from rlcore.storage.run_files import CHECKPOINTS, LOGS
from rlcore.storage.saved_models import saved_models
from rlcore.storage.checkpoint_state import require_run
from rlcore.storage.status import check_metadata, status_in_checkpoints

log = logging.getLogger(__name__)


def models_of_run(directory: RunDirectory, run_id: str) -> dict[str, Any]:
    """The saved models, by behavior, of another run in the results directory of ``directory``."""
    checkpoints = directory.path.parent / run_id / CHECKPOINTS
    return saved_models(checkpoints, f"checkpoint_settings.initialize_from {run_id!r}")


def status_of_run(directory: RunDirectory, plugins: Plugins, run: str, origin: str) -> Mapping[str, Any]:
    """The training status of another run, of rlcore or of ML-Agents.

    ``run`` is an id in the results directory of ``directory``, or a path; ``origin`` is what the user wrote. A status
    that is missing or damaged is made from the run's checkpoints, with a warning. Raises RunStateError if there are
    neither.
    """
    beside = directory.path.parent / run
    given = directory.working_directory / user_path(run)
    if given.is_file():
        raise RunStateError(f"{origin}: is a file; name the run's directory, which has {LOGS}")
    logs = (beside if beside.is_dir() else given) / LOGS
    try:
        status = plugins.read_status(logs)
    except DamagedStatusFile as error:
        return _from_checkpoints(logs, origin, error)
    if status is None:
        return _from_checkpoints(logs, origin, RunStateError(f"{logs} holds no training status"))
    check_metadata(status, origin)
    return status


def _from_checkpoints(logs: Path, origin: str, problem: RunStateError) -> Mapping[str, Any]:
    """The status made from the checkpoints beside ``logs``; raises ``problem`` if there are none."""
    checkpoints = logs.parent / CHECKPOINTS
    if not find_checkpoints(checkpoints):
        raise RunStateError(f"{origin}: {problem}") from problem
    log.warning("%s: %s; the newest checkpoint is read instead", origin, problem)
    return status_in_checkpoints(*newest_intact(checkpoints, origin, check=require_run))
