"""Training by self-play in a game of :mod:`selfplay_games`, and exact measures of what was learned.

A *measure* is a NashConv, and the value of the first seat where the game's own value is known: of the last policy, and
of the uniform mixture of the snapshots in the window.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import numpy as np
from selfplay_games import BIASED_RPS, SKEWED_PENNIES

from rlcore import Run

Policies = Sequence[Mapping[str, Any]]
"""The parts of a mixture, each with a policy for every behavior by name."""
NEVER = 10**9  # agent steps


@attrs.frozen
class Measure:
    """NashConv of the policies of a run, and their value of the first seat, NaN in games where it is not measured."""

    nash_conv: float
    value: float = float("nan")


@attrs.frozen
class Training:
    """A game, and how its behaviors learn.

    Attributes:
        game: Name of the game.
        behaviors: Names of its behaviors; all have the same settings.
        measure: The referee.
        num_envs: Number of games at once.
        block: Settings of each behavior.
        options: Options of the game.
    """

    game: str
    behaviors: tuple[str, ...]
    measure: Callable[[Policies], Measure]
    num_envs: int
    block: Mapping[str, Any]
    options: Mapping[str, Any] = {}

    def with_self_play(self, **changes: Any) -> Training:
        """Return this training with other settings of self-play."""
        return attrs.evolve(self, block={**self.block, "self_play": {**self.block["self_play"], **changes}})

    def against_frozen_opponents(self) -> Training:
        """Return this training with opponents that stay the untrained policy, and with one team that always learns."""
        return self.with_self_play(
            save_steps=NEVER, swap_steps=NEVER, team_change=NEVER, window=1, play_against_latest_model_ratio=0.0
        )

    def config(self, seed: int, directory: Path) -> dict[str, Any]:
        """The configuration of a run, whose results go into ``directory``."""
        return {
            "plugins": {"local": ["selfplay_games"]},
            "environment": {
                "type": "game", "id": self.game, "num_envs": self.num_envs, "options": dict(self.options),
            },
            "behaviors": {name: {"summary_freq": self.block["max_steps"], **self.block} for name in self.behaviors},
            "env_settings": {"seed": seed},
            "checkpoint_settings": {"run_id": f"{self.game}{seed}", "results_dir": str(directory), "force": True},
            "stats": {"console": False},
        }  # fmt: skip


@attrs.frozen
class Outcome:
    """Measures of a training, before it and after it."""

    untrained: Measure
    last: Measure
    window: Measure


def train(training: Training, seed: int, directory: Path) -> Outcome:
    """Train until a behavior reaches its ``max_steps``, and measure the policies before and after."""
    with Run(training.config(seed, directory)) as run:
        run.start()
        untrained = training.measure([_current(run)])
        next(run)  # the first summary is at max_steps
        return Outcome(untrained, training.measure([_current(run)]), training.measure(_window(run)))


def _current(run: Run) -> dict[str, Any]:
    return {name: behavior.policy for name, behavior in run.behaviors.items()}


def _window(run: Run) -> list[dict[str, Any]]:
    """The snapshots in the window of each behavior, the newest ones of all together."""
    stored = {}
    for name, behavior in run.behaviors.items():
        pool = behavior.trainer.ghosts.pool  # type: ignore[attr-defined]
        stored[name] = [pool.member(place).policy for place in pool.window]
    count = min(map(len, stored.values()))
    return [{name: policies[-count:][k] for name, policies in stored.items()} for k in range(count)]


# ------------------------------------------------------------ measures


def strategy(policies: Policies, behavior: str) -> Any:
    """The mean probabilities [options] of the policies of a behavior in a game of one step.

    A draw adds Gumbel noise to the logits, so the probabilities are their softmax.
    """
    found = []
    for part in policies:
        _, logits = part[behavior].parameters({"constant": np.ones((1, 1), np.float32)}, None)
        weights = np.exp(logits[0].astype(np.float64) - logits[0].max())
        found.append(weights / weights.sum())
    return np.mean(found, axis=0)


def nash_conv(payoffs: Any, row: Any, column: Any) -> float:
    """The NashConv of two strategies in the zero-sum game with the row player's ``payoffs`` [A, A']."""
    return float((payoffs @ column).max() - (row @ payoffs).min())


def biased_rps(policies: Policies) -> Measure:
    """The measure of biased rock-paper-scissors."""
    both = strategy(policies, "Player")
    return Measure(nash_conv(BIASED_RPS, both, both))


def skewed_pennies(policies: Policies) -> Measure:
    """The measure of skewed pennies."""
    row, column = strategy(policies, "Row"), strategy(policies, "Column")
    return Measure(nash_conv(SKEWED_PENNIES, row, column), float(row @ SKEWED_PENNIES @ column))
