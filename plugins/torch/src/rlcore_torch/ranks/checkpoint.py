"""The state of all ranks in one checkpoint: that of rank 0, and for every other rank what differs from it.

Weights, optimizers, counters and curricula are equal in all ranks. What belongs to environments and agents (rollouts,
replay buffers, open episodes) differs. Leaves of two states are compared by the SHA-256 of their bytes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rlcore import LEARNED, RanksFailed, RunStateError, TreePath
from rlcore import leaves as leaves_of
from rlcore_torch.ranks.episodes import EpisodeRanks

PARTS = "ranks"  # the entry of a checkpoint's state, from which rlcore.Ranks reads how many saved it
_EMPTY = "$empty"  # stands for the leaf of an empty mapping or sequence

Part = dict[str, Any]


def gather_state(state: dict[str, Any], ranks: EpisodeRanks) -> dict[str, Any]:
    """In rank 0: its ``state`` with an entry for the parts of all ranks; ``state`` itself in the others.

    Raises RanksFailed if what is learned differs: the ranks would go on as different runs.
    """
    leaves = _leaves(state)
    digests: dict[str, str] = {}
    if ranks.rank == 0:
        digests = {_key(path): _digest(leaf) for path, leaf in leaves.items()}
    digests = ranks.share(digests)
    difference = _difference(leaves, digests)
    parts = ranks.gather(difference)
    differing = []
    for rank, part in enumerate(parts or ()):
        if any(_is_learned(path) for path in part["paths"]):
            differing.append(str(rank))
    differing = ranks.share(differing)  # every rank raises, so that none waits for the others
    if differing:
        raise RanksFailed(
            f"the weights or optimizers of rank {', '.join(differing)} differ from those of rank 0; ranks on machines "
            "of different kinds compute differently: run them on machines of one kind"
        )
    if parts is None:
        return state
    others = {str(rank): part for rank, part in enumerate(parts) if rank}
    run = {**state["run"], PARTS: {"size": ranks.size, "parts": others}}
    return {**state, "run": run}


def scatter_state(state: Mapping[str, Any] | None, ranks: EpisodeRanks) -> dict[str, Any] | None:
    """The state that this rank saved, from ``state`` of a checkpoint that rank 0 read; None if it is None in rank 0.

    If the parts of the ranks were taken out, because another number saved it, every rank gets the state as it is.
    """
    if ranks.rank:
        saved: dict[str, Any] | None = ranks.scatter(None)
        return saved
    states: list[dict[str, Any] | None] = [None] * ranks.size
    if state is not None:
        parts = state["run"].get(PARTS, {}).get("parts", {})
        states = [_with_part(state, parts.get(str(rank))) for rank in range(ranks.size)]
    state_of_0, *others = states
    ranks.scatter([None, *others])  # rank 0 keeps its state as it is: FrozenStates are sent as plain mappings
    return state_of_0


# ---------------------------------------------------------------- differences


def _leaves(tree: Any) -> dict[TreePath, Any]:
    """All leaves of a tree by path; a mark stands for an empty mapping or sequence."""
    leaves = dict(leaves_of(tree))
    for path, leaf in leaves.items():
        if isinstance(leaf, Mapping):
            leaves[path] = {_EMPTY: "mapping"}
        elif isinstance(leaf, list | tuple):
            leaves[path] = {_EMPTY: "sequence"}
    return leaves


def _digest(leaf: Any) -> str:
    if isinstance(leaf, np.generic):
        leaf = leaf.item()
    if isinstance(leaf, np.ndarray):
        form = f"{leaf.dtype.str}{leaf.shape}"
        content = form.encode() + leaf.tobytes()
    else:
        content = json.dumps(leaf).encode()
    return hashlib.sha256(content).hexdigest()


def _difference(leaves: Mapping[TreePath, Any], digests: Mapping[str, str]) -> Part:
    keys = {_key(path): path for path in leaves}
    changed = [path for key, path in keys.items() if digests.get(key) != _digest(leaves[path])]
    return {
        "paths": [list(path) for path in changed],
        "leaves": [leaves[path] for path in changed],
        "absent": [json.loads(key) for key in digests if key not in keys],
    }


def _with_part(state: Mapping[str, Any], part: Part | None) -> dict[str, Any]:
    """``state`` as the rank of ``part`` saved it."""
    run = dict(state["run"])
    if part is None and "parts" not in run.get(PARTS, {"parts": {}}):
        return dict(state)  # of another number of ranks, which Ranks.other_number reads from the entry
    run.pop(PARTS, None)
    state_of_0 = {**state, "run": run}
    if part is None:
        return state_of_0
    leaves = _leaves(state_of_0)
    for path in part["absent"]:
        leaves.pop(tuple(path), None)
    for path, leaf in zip(part["paths"], part["leaves"], strict=True):
        leaves[tuple(path)] = leaf
    tree: dict[str, Any] = _tree(leaves)
    return tree


def _tree(leaves: Mapping[TreePath, Any]) -> Any:
    """The tree whose leaves are ``leaves``; undoes :func:`_leaves`."""
    if () in leaves:
        leaf = leaves[()]
        if isinstance(leaf, Mapping) and leaf.keys() == {_EMPTY}:
            if leaf[_EMPTY] == "mapping":
                return {}
            return []
        return leaf
    below: dict[str | int, dict[TreePath, Any]] = {}
    for (key, *rest), leaf in leaves.items():
        below.setdefault(key, {})[tuple(rest)] = leaf
    if not all(isinstance(key, int) for key in below):
        return {str(key): _tree(rest) for key, rest in below.items()}
    indices = range(len(below))
    if set(below) != set(indices):
        raise RunStateError("the part of a rank in the checkpoint does not fit that of rank 0")
    return [_tree(below[index]) for index in indices]


def _key(path: TreePath) -> str:
    return json.dumps(path)


def _is_learned(path: Sequence[Any]) -> bool:
    """Whether the leaf at ``path`` is one of a trainer's weights or of its optimizers."""
    if len(path) <= 2:
        return False
    behavior, entry, *_ = path
    return behavior != "run" and entry in LEARNED
