"""Files of ML-Agents that a configuration may name and rlcore cannot read: demonstrations and networks."""

from __future__ import annotations

from pathlib import Path

_DEMONSTRATION = ".demo"
_BESIDE = (_DEMONSTRATION, ".meta")  # Unity writes Expert.demo.meta
_NETWORKS = (".pt", ".onnx", ".nn")

CONVERSION = "see 'Convert demonstrations' on the page 'Migrate from ML-Agents'"


def demonstration_problem(path: str | Path) -> str | None:
    """Return the problem of a path of recorded data, or None: rlcore cannot read demonstrations of ML-Agents.

    ``path`` may name a directory of demonstrations too, if nothing else is in it.
    """
    path = Path(path)
    try:
        inside = {each.suffix for each in path.iterdir()} if path.is_dir() else set()
    except OSError:
        inside = set()
    if path.suffix != _DEMONSTRATION and not (_DEMONSTRATION in inside and inside.issubset(_BESIDE)):
        return None
    return (
        "must be recorded episodes, such as a Minari dataset (rlcore cannot read demonstrations of ML-Agents, "
        f"{_DEMONSTRATION}; to convert them, {CONVERSION})"
    )


def network_problem(path: str) -> str | None:
    """Return the problem of a path of weights, or None: rlcore cannot load networks of ML-Agents."""
    if Path(path).suffix not in _NETWORKS:
        return None
    return (
        "must be a run directory of rlcore, or one of its checkpoints, such as results/RUN_ID/checkpoints/5000 (rlcore "
        f"cannot load networks of ML-Agents: {', '.join(_NETWORKS)})"
    )
