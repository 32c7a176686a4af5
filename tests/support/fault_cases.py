"""Runs of every kind that must survive a kill, those of ``tests/data/fault_runs.yaml``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from recorded import recorded
from small_runs import data

from rlcore import EnvironmentSpec, RunContext, config_from_mapping, load_plugins

RUNS = data("fault_runs")
DUELS = {"local": [str(Path(__file__).with_name("duels.py"))]}
ATTACKED: dict[str, dict[str, Any]] = RUNS["attacked"]


def _self_play(game: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    return {
        **RUNS["common"], **changes,
        "self_play": RUNS["common"]["self_play"] | changes.get("self_play", {}),
        "plugins": DUELS,
        "environment": {"type": "duel", "num_envs": 4, "options": game or {}},
    }  # fmt: skip


SELF_PLAY = {name: _self_play(**changes) for name, changes in RUNS["self_play"].items()}


def record_cartpole(path: Path) -> None:
    """Random actions in CartPole, as ``rlcore evaluate --record`` writes them."""
    plugins = load_plugins()
    document = {"environment": {"type": "gymnasium", "id": "CartPole-v1"}, "behaviors": {"Agent": {}}}
    config = config_from_mapping(document, plugins)
    assert config.environment is not None
    context = RunContext(config, plugins, path.parent, seed=1, num_envs=1)
    environment = plugins.create(plugins.record(EnvironmentSpec, "gymnasium"), settings=config.environment, run=context)
    recorded(path, environment, 1500)
