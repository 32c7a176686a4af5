"""Games without rules: agents that act, wait, die and begin again at random, for tests of who plays with whom."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from rlcore import Actions, AgentBatch, BehaviorSpec, ObservationSpec
from rlcore_ghost.selfplay.controller import Controller
from rlcore_ghost.selfplay.ghosts import Ghosts
from rlcore_ghost.selfplay.samplers import UniformSampler
from rlcore_ghost.selfplay.seats import Seats
from rlcore_ghost.selfplay.trainer import GhostTrainer
from rlcore_ghost.settings import NoParameters, SelfPlaySettings

KINDS = ("together", "turns", "deaths", "independent")  # "asleep" is not among them


class World:
    """N environments with some agents in each of T teams; observations are unique numbers.

    ``together``: all agents of an environment end their episodes at once. ``turns``: so do these, and one team acts at
    a time. ``deaths``: agents end one by one, and wait for the last one. ``independent``: they do not wait. ``asleep``:
    all end at once, and team 1 never acts while it is ``asleep``.
    """

    def __init__(self, kind: str, envs: int, sizes: tuple[int, ...], seed: int, aborts: bool = False) -> None:
        self.kind, self.aborts, self.asleep = kind, aborts, True
        self.random = np.random.default_rng(seed)
        per_env = sum(sizes)
        self.env = np.repeat(np.arange(envs), per_env)
        self.team = np.tile(np.repeat(np.arange(len(sizes)), sizes), envs)
        self.sizes = sizes
        self.spec = BehaviorSpec(
            "Agent", (ObservationSpec("seen", (1,), np.float32),), discrete=(1_000_000,),
            env_index=self.env, team=self.team,
        )  # fmt: skip
        slots = len(self.env)
        self.seen = 0
        self.waits = np.zeros(slots, np.bool_)  # dead
        self.turn = np.zeros(envs, np.int64)
        self.episode = np.zeros(slots, np.int64)  # of each slot
        self.game = np.zeros(envs, np.int64)

    def batch(self, ended: NDArray[np.bool_], aborted: NDArray[np.bool_]) -> AgentBatch:
        slots = len(self.env)
        if self.kind == "turns":
            acts = self.team == self.turn[self.env]
        elif self.kind == "deaths":
            acts = ~self.waits
        elif self.kind == "asleep":
            acts = (self.team != 1) | (not self.asleep)
        else:
            acts = None
        closed = np.ones(slots, np.bool_) if acts is None else acts | ended
        final = {"seen": self._numbers(int(ended.sum()))} if ended.any() else None
        reward = np.where(closed & ~aborted, self.random.integers(1, 1000, slots), 0).astype(np.float32)
        return AgentBatch(
            {"seen": self._numbers(slots)}, reward, ended, np.zeros(slots, np.bool_), final_observations=final,
            needs_action=acts, aborted=aborted if self.aborts else None,
        )  # fmt: skip

    def _numbers(self, count: int) -> NDArray[np.float32]:
        numbers = np.arange(self.seen, self.seen + count, dtype=np.float32)[:, None]
        self.seen += count
        return numbers

    def begin(self) -> AgentBatch:
        slots = len(self.env)
        self.waits[:] = False
        self.turn[:] = 0
        self.episode += 1
        self.game += 1
        batch = self.batch(np.zeros(slots, np.bool_), np.zeros(slots, np.bool_))
        batch.reward[:] = 0
        return batch

    def step(self) -> AgentBatch:
        envs = len(self.game)
        slots = len(self.env)
        random = self.random
        aborted = np.zeros(slots, np.bool_)
        if self.aborts:
            aborted = (random.random(envs) < 0.05)[self.env]
        if self.kind in ("together", "turns", "asleep"):
            over = random.random(envs) < 0.3
            ended = over[self.env]
            self.turn = np.where(over, 0, (self.turn + 1) % len(self.sizes))
        elif self.kind == "deaths":
            ended = (random.random(slots) < 0.3) & ~self.waits
            self.waits |= ended
            over = np.bincount(self.env, self.waits, envs) == np.bincount(self.env, minlength=envs)
            self.waits[over[self.env]] = False
        else:
            ended = random.random(slots) < 0.3
            over = np.zeros(envs, np.bool_)
        ended &= ~aborted
        lost = np.bincount(self.env, aborted, envs) > 0
        self.waits[lost[self.env]] = False
        self.turn[lost] = 0
        self.game += over | lost
        self.episode += ended | aborted
        return self.batch(ended, aborted)


class Numbered:
    """A policy that chooses the option with its own number in every row."""

    memory_size = 0

    def __init__(self, number: int) -> None:
        self.number = number

    def act(self, observations: Any, action_mask: Any = None, deterministic: bool = True) -> Actions:
        return Actions(discrete=np.full((len(observations["seen"]), 1), self.number))

    def seed(self, seed: int) -> None:
        """Nothing is drawn."""

    def state_dict(self) -> dict[str, Any]:
        return {"number": np.array([self.number])}


class Recorder:
    """A trainer that keeps the transitions of its rows, as its ``rows`` see them.

    The action of a row is its observation plus 1000; snapshots are numbered from 1.
    """

    LEARNS = 1000

    def __init__(self, rows: int) -> None:
        self.steps, self.snapshots, self.policy = 0, 0, Numbered(0)
        self.open: list[tuple[float, int] | None] = [None] * rows
        self.acted = np.zeros(rows, np.bool_)  # in the last call of `act`
        self.transitions: list[tuple[float, int, float, bool]] = []  # observation, action, reward, ended

    def snapshot(self, state: Any = None) -> Numbered:
        self.snapshots += 1
        return Numbered(self.snapshots)

    def begin(self, batch: AgentBatch) -> None:
        self.open = [None] * len(self.open)

    def act(self, batch: AgentBatch) -> Actions:
        chosen = self.LEARNS + batch.observations["seen"].astype(np.int64)
        rows = len(self.open)
        self.acted = np.ones(rows, np.bool_) if batch.needs_action is None else batch.needs_action.copy()
        for row in range(len(self.open)):
            if self.acted[row]:
                assert self.open[row] is None, "an action before the last transition has closed"
                self.open[row] = (float(batch.observations["seen"][row, 0]), int(chosen[row, 0]))
        return Actions(discrete=chosen)

    def observe(self, actions: Actions, batch: AgentBatch) -> None:
        for row, held in enumerate(self.open):
            ended = bool(batch.terminated[row])
            if batch.aborted is not None and batch.aborted[row]:
                self.open[row] = None
            elif held is not None and (batch.needs_action is None or batch.needs_action[row] or ended):
                assert not self.acted[row] or int(actions.discrete[row, 0]) == held[1]
                self.transitions.append((*held, float(batch.reward[row]), ended))
                self.steps += 1
                self.open[row] = None

    def ready(self) -> bool:
        return False

    def update(self) -> dict[str, float]:
        return {}


def ghost_trainers(
    world: World, block: SelfPlaySettings, behaviors: Mapping[str, Sequence[int]], fixed: Any = None, **parts: Any
) -> dict[str, tuple[NDArray[np.int64], GhostTrainer]]:
    """Self-play in the world: the slots and the trainer of each behavior; ``behaviors`` gives the teams of each.

    ``parts`` may have the class of the inner ``trainer``, a ``sampler`` and a ``seed``.
    """
    spec = world.spec
    made = {}
    agents = np.bincount(spec.env_index, minlength=len(world.game))
    controller = Controller(np.unique(world.team).tolist(), agents, block.initial_elo, block.elo_k)
    sampler = parts.get("sampler", UniformSampler(NoParameters()))
    for name, teams in behaviors.items():
        slots = np.flatnonzero(np.isin(world.team, teams))
        behavior = attrs.evolve(spec.take(slots), name=name)
        seats = Seats(behavior, block.learn_from == "all")
        inner = parts.get("trainer", Recorder)(seats.behavior(behavior).slots)
        ghosts = Ghosts(inner, block, behavior, sampler, fixed or {}, controller, parts.get("seed", 1), False)
        made[name] = slots, GhostTrainer(behavior, seats, ghosts)
    return made


def ghost_trainer(world: World, fixed: dict[str, Any] | None = None, **settings: Any) -> GhostTrainer:
    """Self-play of one behavior around a :class:`Recorder`, with these settings of the block ``self_play``."""
    return ghost_trainers(world, SelfPlaySettings(**settings), {"Agent": np.unique(world.team).tolist()}, fixed)[
        "Agent"
    ][1]
