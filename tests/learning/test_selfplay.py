"""Self-play comes near the equilibria of games whose equilibria are known, and untrained or broken self-play does not.

NashConv is the sum over seats of what a best response would gain; 0 in an equilibrium. A gate says how much of it is
left at most in the last policy, and in the uniform mixture of the snapshots in the window. All values are exact.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import attrs
import pytest
from selfplay_training import Measure, Training, biased_rps, skewed_pennies, train
from small_runs import data

pytestmark = [pytest.mark.learning, pytest.mark.timeout(1200)]

SEEDS = (1, 2, 3, 4, 5)


@attrs.frozen
class Gate:
    """A training and the least that it must reach.

    Attributes:
        training: The training.
        last: Largest NashConv of the last policy.
        window: Largest NashConv of the mixture of the window.
        value: The game's value to the first seat; NaN if it is not asked for.
        tolerance: Largest distance to it, of the last policy and of the window.
        quick: Whether it takes less than 15 seconds of a processor core; the others are measured in a deep run.
    """

    training: Training
    last: float
    window: float = math.inf
    value: float = math.nan
    tolerance: float = math.inf
    quick: bool = False

    def passed_by(self, last: Measure, window: Measure) -> bool:
        within = math.isnan(self.value) or all(abs(one.value - self.value) <= self.tolerance for one in (last, window))
        return last.nash_conv <= self.last and window.nash_conv <= self.window and within


BLOCKS = data("equilibria")
ROCK_PAPER_SCISSORS = Training("biased_rps", ("Player",), biased_rps, 512, BLOCKS["biased rock-paper-scissors"])
PENNIES = Training("skewed_pennies", ("Row", "Column"), skewed_pennies, 256, BLOCKS["skewed pennies"])

GATES = {
    "biased rock-paper-scissors": Gate(ROCK_PAPER_SCISSORS, 0.15, 0.08, quick=True),
    "skewed pennies of two behaviors": Gate(PENNIES, 0.15, 0.08, value=0.2, tolerance=0.05),
}


def cases(gates: dict[str, Gate], seeds: tuple[int, ...]) -> list[Any]:
    """Each gate with each seed; all but the first seed of the quick gates are for a deep run."""
    return [
        pytest.param(
            gate, seed, id=f"{name}, seed {seed}",
            marks=() if gate.quick and seed == SEEDS[0] else pytest.mark.deep,
        )
        for name, gate in gates.items()
        for seed in seeds
    ]  # fmt: skip


@pytest.mark.parametrize(("gate", "seed"), cases(GATES, SEEDS))
def test_self_play_comes_near_the_equilibrium(gate: Gate, seed: int, tmp_path: Path) -> None:
    outcome = train(gate.training, seed, tmp_path)
    print(f"{outcome}, at most {gate.last} and {gate.window}, value {gate.value}")
    assert outcome.untrained.nash_conv > gate.last
    assert gate.passed_by(outcome.last, outcome.window)


@pytest.mark.parametrize(("gate", "seed"), cases(GATES, SEEDS[:1]))
def test_training_against_frozen_opponents_does_not(gate: Gate, seed: int, tmp_path: Path) -> None:
    outcome = train(gate.training.against_frozen_opponents(), seed, tmp_path)
    print(f"{outcome}, more than {gate.last}")
    assert outcome.last.nash_conv > gate.last
