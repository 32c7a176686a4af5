"""The models of trainers in the checkpoints of runs: for evaluations, and for runs that start with them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rlcore.errors import RunStateError
from rlcore.storage.checkpoints import newest_intact
from rlcore.storage.run_files import CHECKPOINTS
from rlcore.storage.checkpoint_state import RUN, require_models


def saved_models(checkpoints: Path, origin: str, step: int | None = None) -> dict[str, Any]:
    """The model of every behavior in the newest intact checkpoint in ``checkpoints``, or in the one of ``step``.

    Raises RunStateError, which names ``origin`` (what the user wrote), if there is none.
    """
    _, state = newest_intact(checkpoints, origin, step=step, check=require_models)
    return models_in(state)


def models_in(state: Mapping[str, Any]) -> dict[str, Any]:
    """The model of every behavior in the state of a checkpoint."""
    return {name: entry["model"] for name, entry in state.items() if name != RUN}


def model_of_path(path: Path, behavior: str, origin: str) -> Any:
    """The model of ``behavior`` in a run directory or a checkpoint directory. Raises RunStateError with ``origin``."""
    if (path / CHECKPOINTS).is_dir():
        models = saved_models(path / CHECKPOINTS, origin)
    elif path.name.isdecimal():
        models = saved_models(path.parent, origin, int(path.name))
    else:
        raise RunStateError(f"{origin}: is neither a run directory nor one of its checkpoints")
    return model_of(models, behavior, origin)


def model_of(models: Mapping[str, Any], behavior: str, origin: str) -> Any:
    """The model of ``behavior`` among ``models``. Raises RunStateError with ``origin`` if it is missing."""
    if behavior not in models:
        raise RunStateError(f"{origin}: that run has no behavior {behavior!r}; it has {', '.join(sorted(models))}")
    return models[behavior]
