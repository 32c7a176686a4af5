"""Files of ML-Agents that a configuration may name: demonstrations, which a plugin reads, and networks."""

from __future__ import annotations

from pathlib import Path

DEMONSTRATION = ".demo"
_NETWORKS = (".pt", ".onnx", ".nn")


def holds_demonstrations(path: Path) -> bool:
    """Whether there is a demonstration of ML-Agents at ``path``, or in that directory."""
    try:
        found = [path, *path.iterdir()] if path.is_dir() else [path] if path.exists() else []
    except OSError:
        return False
    return any(each.suffix == DEMONSTRATION for each in found)


def network_problem(path: str) -> str | None:
    """Return the problem of a path of weights, or None: rlcore cannot load networks of ML-Agents."""
    if Path(path).suffix not in _NETWORKS:
        return None
    return (
        "must be a run directory of rlcore, or one of its checkpoints, such as results/RUN_ID/checkpoints/5000 (rlcore "
        f"cannot load networks of ML-Agents: {', '.join(_NETWORKS)})"
    )
