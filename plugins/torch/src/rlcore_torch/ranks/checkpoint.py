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
from rlcore_torch.ranks.episodes import RunRanks

PARTS = "ranks"  # the entry of a checkpoint's state, from which rlcore.Ranks reads how many saved it
_EMPTY = "$empty"  # stands for the leaf of an empty mapping or sequence

Part = dict[str, Any]


def gather_state(state: dict[str, Any], ranks: RunRanks) -> dict[str, Any]:
    """In rank 0: its ``state`` with an entry for the parts of all ranks; ``state`` itself in the others.

    Raises RanksFailed if what is learned differs: the ranks would go on as different runs.
    """
    leaves = _leaves(state)
    digests = ranks.share({_key(path): _digest(leaf) for path, leaf in leaves.items()} if ranks.rank == 0 else {})
    parts = ranks.gather(_difference(leaves, digests))
    differing = [str(rank) for rank, part in enumerate(parts or ()) if any(map(_is_learned, part["paths"]))]
    failed = ranks.share(differing)
    if failed:
        raise RanksFailed(
            f"the weights or optimizers of rank {', '.join(failed)} differ from those of rank 0; ranks on machines of "
            "different kinds compute differently: run them on machines of one kind"
        )
    if parts is None:
        return state
    others = {str(rank): part for rank, part in enumerate(parts) if rank}
    return {**state, "run": {**state["run"], PARTS: {"size": ranks.size, "parts": others}}}


def scatter_state(state: Mapping[str, Any] | None, ranks: RunRanks) -> dict[str, Any] | None:
    """The state that this rank saved, from ``state`` of a checkpoint that rank 0 read; None if it is None in rank 0.

    If the parts of the ranks were taken out, because another number saved it, every rank gets the state as it is.
    """
    if ranks.rank:
        saved: dict[str, Any] | None = ranks.scatter(None)
        return saved
    parts = {} if state is None else (state["run"].get(PARTS) or {}).get("parts", {})
    own = [None if state is None else _with_part(state, parts.get(str(rank))) for rank in range(ranks.size)]
    ranks.scatter([None, *own[1:]])  # rank 0 keeps its own as it is: FrozenStates are sent as plain mappings
    return own[0]


# ---------------------------------------------------------------- differences


def _leaves(tree: Any) -> dict[TreePath, Any]:
    """All leaves of a tree by path; a mark stands for an empty mapping or sequence."""
    found = dict(leaves_of(tree))
    for path, leaf in found.items():
        if isinstance(leaf, Mapping | list | tuple):
            found[path] = {_EMPTY: "mapping" if isinstance(leaf, Mapping) else "sequence"}
    return found


def _digest(leaf: Any) -> str:
    if isinstance(leaf, np.generic):
        leaf = leaf.item()
    if isinstance(leaf, np.ndarray):
        content = f"{leaf.dtype.str}{leaf.shape}".encode() + np.ascontiguousarray(leaf).tobytes()
    else:
        content = json.dumps(leaf).encode()
    return hashlib.sha256(content).hexdigest()


def _difference(leaves: Mapping[TreePath, Any], digests: Mapping[str, str]) -> Part:
    keys = {_key(path): path for path in leaves}
    changed = [key for key, path in keys.items() if digests.get(key) != _digest(leaves[path])]
    return {
        "paths": [list(keys[key]) for key in changed],
        "leaves": [leaves[keys[key]] for key in changed],
        "absent": [json.loads(key) for key in digests if key not in keys],
    }


def _with_part(state: Mapping[str, Any], part: Part | None) -> dict[str, Any]:
    """``state`` as the rank of ``part`` saved it."""
    if part is None and "parts" not in state["run"].get(PARTS, {"parts": {}}):
        return dict(state)  # of another number of ranks
    run = {key: value for key, value in state["run"].items() if key != PARTS}
    if part is None:
        return {**state, "run": run}
    leaves = _leaves({**state, "run": run})
    for path in part["absent"]:
        leaves.pop(tuple(path), None)
    for path, leaf in zip(part["paths"], part["leaves"], strict=True):
        leaves[tuple(path)] = leaf
    whole: dict[str, Any] = _tree(leaves)
    return whole


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
    if all(isinstance(key, int) for key in below):
        if set(below) != set(range(len(below))):
            raise RunStateError("the part of a rank in the checkpoint does not fit that of rank 0")
        return [_tree(below[index]) for index in range(len(below))]
    return {str(key): _tree(rest) for key, rest in below.items()}


def _key(path: TreePath) -> str:
    return json.dumps(path)


def _is_learned(path: Sequence[Any]) -> bool:
    """Whether the leaf at ``path`` is one of a trainer's weights or of its optimizers."""
    return len(path) > 2 and path[0] != "run" and path[1] in LEARNED
