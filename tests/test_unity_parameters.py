"""Environment parameters in a player that reads them as Unity's games do: when an episode begins, and at its end."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from unity_player import make_player

from rlcore import Run

UNIFORM = {"sampler_type": "uniform", "sampler_parameters": {"min_value": 0.4, "max_value": 1.0}}
BINS = {"curriculum": {"type": "learning_progress", "limits": [0.4, 1.0], "bins": 4}}


def sizes_in(place: Path, size: Any, agents: int) -> tuple[list[tuple[float, bool]], list[float]]:
    """Train; return the size of each episode, and whether another one came before its end; and the numbers sent."""
    player = make_player(place, world="lessons", agents=agents, journal=place / "journal")
    block: Mapping[str, Any] = {
        "trainer_type": "ppo", "max_steps": 2000, "summary_freq": 1000, "checkpoint_interval": 100_000,
        "hyperparameters": {"batch_size": 64, "buffer_size": 256},
        "network_settings": {"hidden_units": 16, "num_layers": 1},
    }  # fmt: skip
    Run({
        "behaviors": {"Lessons": block},
        "environment": {"type": "unity", "executable": str(player), "no_graphics": True},
        "env_settings": {"seed": 5},
        "environment_parameters": {"size": size},
        "stats": {"console": False, "tensorboard": False},
        "export": {},
        "checkpoint_settings": {"results_dir": str(place), "run_id": "sizes"},
    }).train()  # fmt: skip
    entries = [json.loads(line) for line in (place / "journal").read_text("utf-8").splitlines()]
    told = [given[2] for entry in entries for given in entry.get("parameters", ()) if given[1] == "value"]
    return [(size, changed) for size, changed in entries[-1]["sizes"]], told


def test_a_sampled_parameter_changes_in_no_episode(tmp_path: Path) -> None:
    sizes, told = sizes_in(tmp_path, UNIFORM, 16)
    changed = sum(changed for _, changed in sizes)
    print(f"uniform, 16 agents: {changed} of {len(sizes)} episodes changed in the middle")
    assert changed == 0 and len(sizes) > 50 and not told
    drawn = {size for size, _ in sizes}
    assert len(drawn) == len(sizes), "one for each episode"
    assert 0.4 <= min(drawn) < 0.5 and 0.9 < max(drawn) <= 1.0


def test_an_episode_reads_its_own_number_when_it_begins_and_sees_the_next_one_later(tmp_path: Path) -> None:
    """Unity begins the next episode before it reports the end of this one: the next number must be there by then."""
    sizes, told = sizes_in(tmp_path, BINS, 1)
    own = sum(abs(size - number) < 1e-6 for (size, _), number in zip(sizes, told, strict=False))
    changed = sum(changed for _, changed in sizes)
    print(f"learning_progress, 1 agent: {own} of {len(sizes)} episodes read their own number, {changed} saw the next")
    assert own == changed == len(sizes) > 50
