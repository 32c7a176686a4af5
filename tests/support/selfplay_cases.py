"""Self-play of every kind that must survive a kill, small enough to be killed many times."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fault_cases import SAC

DUELS = {"local": [str(Path(__file__).with_name("duels.py"))]}
OFTEN = {"save_steps": 90, "swap_steps": 37, "team_change": 130, "window": 3}
SETTINGS: dict[str, Any] = {
    "plugins": DUELS,
    "hyperparameters": {"batch_size": 32, "buffer_size": 96, "num_epoch": 1, "learning_rate": 1e-3},
    "network_settings": {"hidden_units": 16, "num_layers": 1, "normalize": True},
    "max_steps": 700,
    "summary_freq": 150,
    "checkpoint_interval": 60,
}


def case(game: dict[str, Any], behaviors: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    """Settings of a run; ``game`` are options of the environment, and ``self_play`` adds to its block."""
    own = {"behaviors": behaviors} if behaviors else {}
    self_play = OFTEN | changes.pop("self_play", {})
    return {
        **SETTINGS, **own, **changes, "self_play": self_play,
        "environment": {"type": "duel", "num_envs": 4, "options": game},
    }  # fmt: skip


MEMORY = {**SETTINGS["network_settings"], "memory": {"memory_size": 8, "sequence_length": 8}}
# In one, a behavior reaches max_steps before the other, and plays on as its opponent.
UNEVEN = {"Chaser": {}, "Runner": {"max_steps": 250}}
SELF_PLAY: dict[str, dict[str, Any]] = {
    "PPO": case({"agents": 2, "deaths": True}, self_play={"opponents": "pfsp"}),
    "PPO with memory": case({}, network_settings=MEMORY, self_play={"opponents_per": "run"}),
    "SAC": case(
        {}, trainer_type="sac",
        hyperparameters={**SAC["hyperparameters"], "buffer_init_steps": 150, "buffer_size": 400},
        self_play={"opponents": "pfsp", "opponents_per": "run"},
    ),
    "cut episodes": case({"saves": False}, checkpoint_interval=110, network_settings=MEMORY),
    "asymmetric": case({"agents": 2, "deaths": True}, UNEVEN),
    "asymmetric, cut episodes": case(
        {"saves": False}, UNEVEN, checkpoint_interval=110, self_play={"opponents": "pfsp"},
    ),
    "league": case(
        {}, self_play={"league": {"main_exploiters": 1, "league_exploiters": 1, "share": 0.25, "reset_steps": 70}},
    ),
    "learning from all": case({"deaths": True}, self_play={"learn_from": "all", "opponents": "pfsp", "swap_steps": 10}),
}  # fmt: skip
