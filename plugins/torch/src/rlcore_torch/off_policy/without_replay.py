"""Checkpoints without their replay buffers, which are large: what is uploaded unless more is asked for.

This module needs no PyTorch.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rlcore import RunStateError, find_checkpoints, load_checkpoint, save_checkpoint

__all__ = ["without_replay"]


def without_replay(path: Path, folder: Path, remedy: str) -> Path:
    """Write a copy of the checkpoint at ``path`` into ``folder``, without its replay buffers, and return its path.

    Returns ``path`` itself, and writes nothing, if the checkpoint has no replay buffer, and if there is none at
    ``path``. A replay buffer is an entry ``buffer`` with ``segments``, as :class:`rlcore_torch.OffPolicyTrainer` saves
    it. A run that is resumed from the copy fills a new one, and its promise is ``statistical``.

    Raises RunStateError for a damaged checkpoint, and for one of several ranks with replay buffers, which cannot be
    left out; ``remedy`` is the end of that message and says what to do instead.
    """
    found = [each for each in find_checkpoints(path.parent) if each.path == path]
    if not found:
        return path
    (checkpoint,) = found
    values = checkpoint.values()
    if _smaller(values) == values:
        return path
    if "ranks" in values["run"]:
        raise RunStateError(f"{path}: has the replay buffers of several ranks, which cannot be left out; {remedy}")
    state = _smaller(load_checkpoint(path))
    reasons = [*state["run"]["resume"]["reasons"], "the replay buffer was not uploaded"]
    state["run"]["resume"] = {"promise": "statistical", "reasons": reasons, "notes": []}
    configuration = (path / "configuration.yaml").read_text(encoding="utf-8")
    return save_checkpoint(folder, checkpoint.step, state, configuration)


def _smaller(tree: Any) -> Any:
    """The tree of a state without its replay buffers. Parts that checkpoints share stay as they are."""
    if type(tree) is not dict:
        return tree
    smaller = {}
    for key, value in tree.items():
        is_replay = key == "buffer" and isinstance(value, Mapping) and "segments" in value
        if not is_replay:
            smaller[key] = _smaller(value)
    return smaller
