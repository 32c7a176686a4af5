"""Every game of PettingZoo's classic family, and games of MPE, run clean.

A game is skipped where its packages are not installed: ``rlcore-pettingzoo[classic]`` has those of the classic family,
``mpe2`` has MPE.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pettingzoo
import pytest

from rlcore import EnvironmentFailed
from rlcore.run.behaviors.checks import BatchCheck
from rlcore_devkit.playing import check_batch, play

CLASSIC = sorted(name for name in pettingzoo.aec_registry if name.startswith("classic/"))
GAMES: dict[str, dict[str, Any]] = {
    **{name: {} for name in CLASSIC},
    "classic/rps-v2 in turns": {"api": "aec"},
    "mpe2.simple_spread_v3:parallel_env": {"arguments": {"continuous_actions": True}},
    "mpe2.simple_tag_v3:parallel_env": {},
    "mpe2.simple_speaker_listener_v4:env": {},
}
# A step of these costs milliseconds: less than 120 steps in the usual suite.
SLOW = {"classic/chess-v6": 15, "classic/go-v5": 50, "classic/texas_holdem_no_limit-v6": 60}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("game", "steps", "num_envs"),
    [
        *((game, SLOW.get(game, 120), 2) for game in GAMES),
        *(pytest.param(game, 10_000, 1, marks=pytest.mark.deep) for game in GAMES),
    ],
)
def test_a_game_runs_clean(make: Callable[..., Any], game: str, steps: int, num_envs: int) -> None:
    env_id = game.partition(" ")[0]
    if env_id.startswith("mpe2"):
        pytest.importorskip("mpe2")
    try:
        environment = make(env_id, num_envs, **GAMES[game])
    except EnvironmentFailed as error:
        if "not installed" not in str(error):
            raise
        pytest.skip(str(error))
    ended, checks = 0, {n: BatchCheck(spec, lambda: "in a test") for n, spec in environment.behaviors.items()}
    for batches in play(environment, steps):
        for name, batch in batches.items():
            checks[name].check(batch)
            check_batch(environment.behaviors[name], batch)
            ended += len(batch.ended)
    environment.close()
    assert ended or steps < 1000
