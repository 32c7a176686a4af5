"""An image of zeros and ones is learned from as the same image of 0 and 255 is."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from small_runs import small_run

from rlcore import Run, load_policies
from rlcore_onnx.runtime import load

HIDDEN = {"hidden_units": 16, "num_layers": 1}
SMALL = {"batch_size": 32, "buffer_size": 64, "learning_rate": 1e-2}


def board_with(column: int) -> NDArray[np.uint8]:
    board = np.zeros((20, 20, 2), np.uint8)
    board[4:16, column : column + 6, 0] = 1
    return board


class Piece(gymnasium.Env[NDArray[np.uint8], np.int64]):
    """In which half of the board is the piece, whose pixels are ``high``?"""

    def __init__(self, high: int) -> None:
        self.high = high
        self.observation_space = spaces.Box(0, high, (20, 20, 2), np.uint8)
        self.action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[NDArray[np.uint8], dict[str, Any]]:
        super().reset(seed=seed)
        self.steps = 0
        return self._see(), {}

    def step(self, action: np.int64) -> tuple[NDArray[np.uint8], float, bool, bool, dict[str, Any]]:
        right = float(action == self.half)
        self.steps += 1
        return self._see(), right, False, self.steps == 8, {}

    def _see(self) -> NDArray[np.uint8]:
        self.half = int(self.np_random.integers(2))
        return board_with(10 * self.half + 2) * np.uint8(self.high)


def trained(high: int, place: Path) -> Path:
    changes = {
        "environment.type": None,
        "environment.id": None,
        "behaviors.Agent.max_steps": 256,
        "behaviors.Agent.hyperparameters": SMALL,
        "behaviors.Agent.network_settings": HIDDEN,
        "export": ["onnx"],
    }
    Run(small_run(place, changes), environment=partial(Piece, high)).train()
    return place / "run"


def test_the_span_of_bytes_changes_neither_training_nor_policies(tmp_path: Path) -> None:
    planes, picture = (trained(high, tmp_path / str(high)) for high in (1, 255))
    weights = [load_policies(run)["Agent"].module().state_dict() for run in (planes, picture)]
    for name, value in weights[0].items():
        np.testing.assert_array_equal(value, weights[1][name], err_msg=name)
    boards = np.stack([board_with(column) for column in range(15)])
    acted = [
        policy.act(boards * high).discrete
        for run, high in ((planes, 1), (picture, 255))
        for policy in (load_policies(run)["Agent"], load(run / "Agent.onnx"))
    ]
    assert len(np.unique(acted[0])) == 2
    for other in acted[1:]:
        np.testing.assert_array_equal(other, acted[0])
