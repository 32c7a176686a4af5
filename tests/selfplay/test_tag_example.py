"""``examples/tag``: the rules of environments and of the game, and its configuration."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from workspace import ROOT

from rlcore import Actions, EpisodeSeeds, Run
from rlcore_devkit import EnvironmentConformance

EXAMPLE = ROOT / "examples/tag"
STAY, EAST, WEST = 0, 1, 2  # the second number of a cell grows to the east
NORTH_EAST = 7


@pytest.fixture(autouse=True, scope="module")
def _importable() -> Iterator[None]:
    sys.path.append(str(EXAMPLE))
    yield
    sys.path.remove(str(EXAMPLE))


def make(num_envs: int, **options: Any) -> Any:
    import tag

    return tag.Tag(num_envs, tag.TagSettings(**options))


class TestTag(EnvironmentConformance):
    def make(self, num_envs: int) -> Any:
        return make(num_envs)


def begun(cells: list[tuple[int, int]], rounds: int = 25) -> Any:
    game = make(1, rounds=rounds)
    game.reset(EpisodeSeeds(1), np.zeros(1, np.int64))
    game.cells[0] = cells
    return game


def move(game: Any, first: int, second: int, runner: int) -> Any:
    chasers, runners = Actions(discrete=np.array([[first], [second]])), Actions(discrete=np.array([[runner]]))
    return game.step({"Chaser": chasers, "Runner": runners})


@pytest.mark.parametrize(
    ("cells", "moves", "caught"),
    [
        ([(3, 3), (0, 0), (3, 4)], (EAST, STAY, STAY), True),
        ([(0, 0), (3, 3), (3, 4)], (STAY, EAST, STAY), True),
        ([(3, 3), (0, 0), (3, 4)], (EAST, STAY, WEST), True),  # they exchange their cells
        ([(3, 3), (0, 0), (3, 4)], (EAST, STAY, EAST), False),
        ([(3, 3), (0, 0), (3, 5)], (EAST, STAY, WEST), True),  # they meet half way
        ([(3, 5), (0, 0), (3, 6)], (EAST, STAY, EAST), True),  # the runner runs against the wall
        ([(3, 3), (0, 0), (3, 4)], (EAST, STAY, NORTH_EAST), False),
    ],
)
def test_who_is_caught(cells: list[tuple[int, int]], moves: tuple[int, int, int], caught: bool) -> None:
    batches = move(begun(cells), *moves)
    assert batches["Chaser"].terminated.tolist() == [caught] * 2 and batches["Runner"].terminated.tolist() == [caught]
    assert batches["Chaser"].reward.tolist() == [float(caught)] * 2
    assert batches["Runner"].reward.tolist() == [-float(caught)]


def test_the_configuration_trains_both_sides(tmp_path: Path) -> None:
    document = yaml.safe_load((EXAMPLE / "tag.yaml").read_text(encoding="utf-8"))
    document["default_settings"]["hyperparameters"] |= {"batch_size": 64, "buffer_size": 256}
    document["default_settings"]["self_play"] |= {"save_steps": 256, "team_change": 512, "swap_steps": 128}
    for behavior in document["behaviors"].values():
        behavior["max_steps"] = 1024
    document["checkpoint_settings"]["results_dir"] = str(tmp_path)
    document["plugins"] = {"local": [str(EXAMPLE / "tag.py")]}
    run = Run(document)
    results = run.train()
    status = json.loads((run.directory.path / "run_logs/training_status.json").read_text())
    elo = {name: status[name]["elo"] for name in results}  # where ML-Agents writes it
    assert elo == status["self_play"]["elo"] and all(1000 < each < 1400 for each in elo.values())
    assert set(elo.values()) != {1200.0} and all(status[name]["checkpoints"] for name in results)
    assert {name: each.updates > 0 for name, each in results.items()} == {"Chaser": True, "Runner": True}
