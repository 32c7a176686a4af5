"""Loops that draw one episode ahead, as a run does: one for curricula, one for plain models to compare with.

In every step the episodes of some environments end. These environments, and a number in [0, 1) from which each return
is computed, depend only on the loop's seed and the step.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import attrs
import numpy as np
import pytest
from crowds import ended_episodes

from rlcore import Curriculum, EndedEpisodes, derive_generator
from rlcore_curriculum.episode_table import EpisodeUniforms

SEED = 7
NUM_ENVS = 5
BEHAVIOR = "Walker"

Outcome = Callable[[Any, float], float]  # the values of an episode and its number in [0, 1): its return
Begun = tuple[int, int, tuple[float, ...]]  # environment, episode, values


def what_ends(seed: int, step: int) -> tuple[np.ndarray, np.ndarray]:
    """Return environments [K], and a number for every environment [N]."""
    generator = derive_generator(seed, "what ends", step)
    return (generator.random(NUM_ENVS) < 0.4).nonzero()[0], generator.random(NUM_ENVS)


@attrs.define
class RunAsTold:
    """The attributes of a run that the factory of a curriculum reads."""

    seed: int = SEED
    num_envs: int = NUM_ENVS


@attrs.define(slots=False)
class Loop:
    """Uses a curriculum as a run does."""

    curriculum: Curriculum
    outcome: Outcome
    seed: int = 0
    steps: int = 0
    told: int = 0  # reported episodes
    begun: list[Begun] = attrs.field(factory=list)

    def __attrs_post_init__(self) -> None:
        self.episodes = np.zeros(NUM_ENVS, np.int64)
        env_index = np.arange(NUM_ENVS)
        first, second = (self.curriculum.draw(env_index, self.episodes + ahead) for ahead in (0, 1))
        self.values, self.draw_id = first.values.copy(), first.draw_id.copy()
        self.next_values, self.next_draw_id = second.values.copy(), second.draw_id.copy()

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.step()

    def step(self) -> None:
        ended, noise = what_ends(self.seed, self.steps)
        self.steps += 1
        if not ended.size:
            return
        returns = np.array([self.outcome(self.values[env], float(noise[env])) for env in ended])
        numbers = np.arange(self.told, self.told + len(ended))  # as if they started in this order
        self.told += len(ended)
        values = self.values[ended]
        draw_id = self.draw_id[ended]
        self.curriculum.episodes_ended(ended_episodes(ended, returns, numbers, self.told, draw_id, values=values))
        self.episodes[ended] += 1
        self.values[ended], self.draw_id[ended] = self.next_values[ended], self.next_draw_id[ended]
        self.begun += [(int(c), int(self.episodes[c]), tuple(self.values[c].tolist())) for c in ended]
        redraw = self.curriculum.advance({BEHAVIOR: self.steps}).redraw
        env_index = np.arange(NUM_ENVS) if redraw else ended
        drawn = self.curriculum.draw(env_index, self.episodes[env_index] + 1)
        self.next_values[env_index], self.next_draw_id[env_index] = drawn.values, drawn.draw_id


def plain_loop(model: Any, outcome: Outcome, seed: int, steps: int) -> list[Begun]:
    """Run a plain model, one environment at a time, through the loop of :class:`Loop`."""
    playing = {env: model.draw(env, 0) for env in range(NUM_ENVS)}
    staged = {env: model.draw(env, 1) for env in range(NUM_ENVS)}
    episode = dict.fromkeys(range(NUM_ENVS), 0)
    begun: list[Begun] = []
    for step in range(steps):
        ended, noise = what_ends(seed, step)
        for env in ended.tolist():
            values, told = playing[env]
            model.ended(told, outcome(values, float(noise[env])))
        for env in ended.tolist():
            episode[env] += 1
            playing[env] = staged[env]
            begun.append((env, episode[env], playing[env][0]))
        anew = ended.size > 0 and model.redraw()
        for env in range(NUM_ENVS) if anew else ended.tolist():
            staged[env] = model.draw(env, episode[env] + 1)
    return begun


def uniform_of(stream: str, env: int, episode: int, width: int = 1) -> list[float]:
    """Compute the numbers of an episode independently."""
    block, row = divmod(episode, EpisodeUniforms.BLOCK)
    numbers: list[float] = derive_generator(SEED, stream, env, block).random((row + 1, width))[row].tolist()
    return numbers


@attrs.frozen
class Simulation:
    """The contents of this file, for tests that cannot import it."""

    run: RunAsTold = attrs.field(factory=RunAsTold)
    loop: Callable[..., Loop] = Loop
    plain_loop: Callable[..., list[Begun]] = plain_loop
    uniform_of: Callable[..., list[float]] = uniform_of


@pytest.fixture(scope="session")
def simulation() -> Simulation:
    return Simulation()


@pytest.fixture(scope="session")
def told() -> Callable[..., EndedEpisodes]:
    """Create ended episodes: ``told(draw_id, returns, behavior=..., ...)``."""

    count = itertools.count()

    def make(draw_id: Any, returns: Any, **more: Any) -> EndedEpisodes:
        more = {key: np.array(each) if isinstance(each, list) else each for key, each in more.items()}
        rows = np.arange(len(returns))
        begun = next(count) * 1000
        draws = np.array(draw_id, np.int64)
        return ended_episodes(rows, np.array(returns, np.float64), begun + rows, begun + 1000, draws, **more)

    return make
