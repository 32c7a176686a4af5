"""Players in which more agents appear than were counted at the start: they get places within the run."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from unity_games import drawn_actions, make_game
from unity_player import make_player

from rlcore import EpisodeSeeds, Run

TRAINERS: Mapping[str, dict[str, Any]] = {
    "ppo": {"batch_size": 64, "buffer_size": 256},
    "poca": {"batch_size": 64, "buffer_size": 256},
    "sac": {"batch_size": 32, "buffer_size": 5000, "buffer_init_steps": 100, "steps_per_update": 50.0},
}


def run_of(place: Path, trainer: str, world: Mapping[str, Any], block: Any = None, **environment: Any) -> Run:
    player = make_player(
        place, world=f"crowd:{json.dumps(world)}", tally=place / "sent.json", journal=place / "journal"
    )
    settings = {
        "trainer_type": trainer, "hyperparameters": TRAINERS[trainer], "max_steps": 3000, "summary_freq": 500,
        "network_settings": {"hidden_units": 16, "num_layers": 1}, "checkpoint_interval": 100_000, **(block or {}),
    }  # fmt: skip
    return Run({
        "default_settings": settings,
        "environment": {"type": "unity", "executable": str(player), "no_graphics": True, **environment},
        "env_settings": {"seed": 5},
        "plugins": {"local": ["unity_tally"]},
        "stats": {"console": False, "tensorboard": False},
        "export": {},
        "checkpoint_settings": {"results_dir": str(place), "run_id": "more"},
    })  # fmt: skip


def counts_of(place: Path) -> tuple[list[Any], list[Any]]:
    """Read the counts of the player and of the run in each round; the count at the start is left out."""
    sent, received = (json.loads((place / name).read_text()) for name in ("sent.json", "more/received.json"))
    return sent[1:], received


@pytest.mark.parametrize("trainer", TRAINERS)
def test_forty_agents_where_six_were_counted_all_act_and_are_learned_from(
    trainer: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    run = run_of(tmp_path, trainer, {"agents": 40, "few": 6, "few_until": 60})
    run.start()
    assert run.behaviors["Crowd"].spec.slots == 6
    run.train()
    assert run.outcome == "done" and run.behaviors["Crowd"].spec.slots == 40
    said = "40 instead of 6 slots for agents of 'Crowd' from step "
    assert caplog.text.count(said) == 1 and "agents got slots within the run: 40 instead of 6" in str(run.describe())

    sent, received = counts_of(tmp_path)
    assert len(sent) == len(received) == 4, "from the start, a checkpoint, with forty, and the last checkpoint"
    few = sent[0]["Crowd"]
    many = sent[2]["Crowd"]
    assert received[0]["Crowd"]["decisions"] < few["decisions"], "some had no place"
    assert received[2:] == sent[2:] and many["episodes"] > 100
    finished = run.behaviors["Crowd"].episodes.finished
    assert finished == sum(each["Crowd"]["episodes"] for each in received)
    lines = [json.loads(line) for line in (tmp_path / "more/metrics.jsonl").read_text("utf-8").splitlines()]
    means = [line["stats"]["Environment/Cumulative Reward"] for line in lines]
    counted = many["returns"] + received[0]["Crowd"]["returns"]
    print(f"{trainer}: {many['decisions']:,} decisions, {many['episodes']:,} episodes; {finished:,} in all; {means}")
    assert min(counted) <= min(means) <= max(means) <= max(counted)

    rounds: list[dict[str, list[float]]] = []
    for line in (tmp_path / "journal").read_text("utf-8").splitlines()[1:]:
        entry = json.loads(line)
        if entry["command"] == "RESET":
            rounds.append({})
        for agent, (continuous, _) in entry["actions"].get("Crowd?team=0", {}).items():
            rounds[-1].setdefault(agent, []).append(abs(continuous[0]))
    # the first round is that of the count
    with_few = rounds[1]
    with_many = rounds[3]
    assert len(with_many) > 100 and all(max(acted) > 0 for acted in with_many.values())
    assert any(max(acted) == 0 for acted in with_few.values()), "six acted at first"


def test_groups_that_appear_get_places_together(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Two groups of three at first and four later, in each of two players, of which one shows the others only later."""
    crowd = {"agents": 12, "few": 6, "few_until": 40, "group": 3}
    game = make_game(tmp_path, 2, world=f"crowd:{json.dumps(crowd)}")
    (name,) = game.behaviors
    group = game.behaviors[name].group
    assert group is not None and group.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]
    batch = game.reset(EpisodeSeeds(0), np.zeros(2, np.int64))[name]
    generator = np.random.default_rng(0)
    assert not game.wants_slots
    while not game.wants_slots:
        batch = game.step({name: drawn_actions(game.behaviors[name], batch, generator)})[name]
    for _ in range(20):
        batch = game.step({name: drawn_actions(game.behaviors[name], batch, generator)})[name]
    game.add_slots()
    assert not game.wants_slots
    spec = game.behaviors[name]
    assert spec.group is not None and spec.group.tolist() == np.repeat(np.arange(8), 3).tolist()
    assert spec.env_index.tolist() == [0] * 12 + [1] * 12
    batch = game.reset(EpisodeSeeds(0), np.ones(2, np.int64))[name]
    for _ in range(60):
        assert batch.needs_action is None
        batch = game.step({name: drawn_actions(spec, batch, generator)})[name]
    assert not game.wants_slots and caplog.text.count("more agents at once than its 6 places") == 2
    game.close()
