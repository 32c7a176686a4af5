"""The games for self-play keep the rules of environments."""

from __future__ import annotations

from functools import partial

import selfplay_games as games

from rlcore_devkit import EnvironmentConformance

# A game of each class, with as many teams and behaviors as it can have.
for make in (partial(games.Contest, teams=4), games.TicTacToe):
    name = f"Test{getattr(make, 'func', make).__name__}"
    globals()[name] = type(name, (EnvironmentConformance,), {"make": lambda self, num_envs, make=make: make(num_envs)})
