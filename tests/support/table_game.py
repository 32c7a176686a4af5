"""A game of several teams in numpy alone, and opponents, as a local plugin file: what tests of opponents play.

Shapes: N tables (environments), A agents of a behavior at each table, T teams.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from rlcore import (
    Actions,
    AgentBatch,
    BehaviorSpec,
    EnvironmentSpec,
    ObservationSpec,
    hookimpl,
    refuse_unknown_parameters,
    setting,
)
from rlcore_ghost import OpponentSettings, OpponentSpec

Array = NDArray[Any]


@hookimpl
def rlcore_environments() -> list[EnvironmentSpec]:
    settings = "table_game:TableSettings"
    return [EnvironmentSpec(name="table", target="table_game:table", settings=settings, summary="games of teams")]


@hookimpl
def rlcore_opponents() -> list[OpponentSpec]:
    return [
        OpponentSpec(
            name="always", target="table_game:always", settings="table_game:AlwaysSettings", summary="the same option"
        ),
        OpponentSpec(name="broken", target="table_game:Broken", summary="fails"),
    ]


# ---------------------------------------------------------------- policies


class Always:
    """A policy that takes one option in every branch."""

    def __init__(self, option: int, branches: int = 1) -> None:
        self.option, self.branches = option, branches

    def seed(self, seed: int) -> None:
        """Nothing is drawn."""

    def act(self, observations: Mapping[str, Array], action_mask: Any = None, deterministic: bool = True) -> Actions:
        rows = len(next(iter(observations.values())))
        return Actions(discrete=np.full((rows, self.branches), self.option, np.int64))


@attrs.frozen(kw_only=True)
class AlwaysSettings(OpponentSettings):
    option: int = setting(0, "The option.", minimum=0)


def always(settings: AlwaysSettings, behavior: BehaviorSpec, run: Any) -> Always:
    return Always(settings.option, len(behavior.discrete))


class Broken(Always):
    def __init__(self, settings: OpponentSettings, behavior: BehaviorSpec, run: Any) -> None:
        super().__init__(0)

    def act(self, observations: Mapping[str, Array], action_mask: Any = None, deterministic: bool = True) -> Actions:
        raise ZeroDivisionError("the tree is\nempty")


# ---------------------------------------------------------------- the game


def beats(choices: Array) -> Array:
    """Rock, paper, scissors: [E, 2] choices of 0 to 2; k + 1 beats k. Returns [E, 2]."""
    won = (choices[:, 0] - choices[:, 1]) % 3
    return np.stack([won == 1, won == 2], 1) * 1.0 - np.stack([won == 2, won == 1], 1)


@attrs.frozen(kw_only=True)
class TableSettings:
    teams: list[int] = setting(factory=lambda: [0, 1], description="The team of each agent of a behavior.")
    lengths: list[int] = setting(factory=lambda: [1, 3, 2], description="Steps of the episodes, one after another.")
    options: int = setting(3, "Options of an agent.", minimum=2)


def table(settings: Any, run: Any) -> Table:
    own = settings.options or TableSettings()
    return Table(run.num_envs, dict.fromkeys(run.behavior_names, own.teams), own.options, own.lengths)


class Table:
    """N tables. Every step all agents choose an option; the last choices of an episode decide the game.

    The choice of a team is the sum of its agents' choices, modulo the options. ``agents`` are the teams of the agents
    of each behavior; None has no teams. An agent gets ``shaping`` times its choice in every step, and the result in
    the last, which is the reward of its group if ``shared``. With ``turns``, agent k acts in the steps k, k + A, ...
    Agent ``dies`` of every behavior ends its episode after the first step. Table ``lost[0]`` is lost once in step
    ``lost[1]`` of the environment. Episode e of table n takes ``lengths[(n + e) % len(lengths)]`` steps; 0 is endless.
    """

    def __init__(
        self,
        num_envs: int,
        agents: Mapping[str, Sequence[int] | None],
        options: int = 3,
        lengths: Sequence[int] = (1, 3, 2),
        *,
        rule: Callable[[Array], Array] = beats,
        shaping: float = 0.0,
        shared: bool = False,
        turns: bool = False,
        dies: int | None = None,
        lost: tuple[int, int] | None = None,
    ) -> None:
        self.num_envs, self.rule, self.options = num_envs, rule, options
        self.lengths, self.shaping, self.shared, self.turns = np.array(lengths), shaping, shared, turns
        self.dies, self.lost = dies, lost
        self.teams = {name: np.array([0] if teams is None else teams) for name, teams in agents.items()}
        seen = (ObservationSpec("step", (1,), np.float32),)
        self.behaviors: Mapping[str, BehaviorSpec] = {
            name: BehaviorSpec(
                name, seen, discrete=(options,), env_index=np.repeat(np.arange(num_envs), len(self.teams[name])),
                team=None if teams is None else np.tile(self.teams[name], num_envs),
            )
            for name, teams in agents.items()
        }  # fmt: skip
        self.numbers = np.unique(np.concatenate(list(self.teams.values())))  # [T]
        self.episodes = np.zeros(num_envs, np.int64)
        self.steps = np.zeros(num_envs, np.int64)
        self.taken = 0
        self.log: list[dict[str, Any]] = []  # one entry per step: episodes [N], choices [N, A] by behavior

    def reset(self, seeds: Any, episodes: Array) -> dict[str, AgentBatch]:
        self.episodes = np.array(episodes, np.int64)
        self.steps[:] = 0
        none = np.zeros(self.num_envs, np.bool_)
        nothing = {name: np.zeros((self.num_envs, len(teams)), np.float32) for name, teams in self.teams.items()}
        return self.batches(nothing, nothing, none, none)

    def step(self, actions: Mapping[str, Actions]) -> dict[str, AgentBatch]:
        choices = {name: actions[name].discrete.reshape(self.num_envs, -1) for name in self.behaviors}  # type: ignore[union-attr]
        self.steps += 1
        self.taken += 1
        over = self.steps == self.lengths[(np.arange(self.num_envs) + self.episodes) % len(self.lengths)]
        lost = np.zeros(self.num_envs, np.bool_)
        if self.lost is not None and self.taken == self.lost[1]:
            lost[self.lost[0]], over[self.lost[0]] = True, False
        self.log.append({"episodes": self.episodes.copy(), "choices": choices})
        sums = np.stack([sum(c[:, self.teams[n] == k].sum(1) for n, c in choices.items()) for k in self.numbers], 1)
        payoff = self.rule(sums % self.options) * over[:, None]  # [N, T]
        own = {name: self.shaping * chosen.astype(np.float32) for name, chosen in choices.items()}
        result = {name: payoff[:, np.searchsorted(self.numbers, teams)] for name, teams in self.teams.items()}
        return self.batches(own, result, over, lost)

    def acts(self, name: str) -> Array:
        """[N, A] the agents that act in the open step."""
        agents = np.arange(len(self.teams[name]))
        acts = np.ones((self.num_envs, len(agents)), np.bool_)
        if self.turns:
            acts = agents == (self.steps % len(agents))[:, None]
        if self.dies is not None:
            acts = acts & ~((agents == self.dies) & (self.steps > 0)[:, None])
        return acts

    def batches(self, own: Any, result: Any, over: Array, lost: Array) -> dict[str, AgentBatch]:
        died = (self.steps == 1) & ~over & ~lost
        steps = self.steps.copy()
        self.steps[over | lost] = 0
        self.episodes[over | lost] += 1
        made = {}
        for name, teams in self.teams.items():
            terminated = np.repeat(over[:, None], len(teams), 1)
            if self.dies is not None:
                terminated[:, self.dies] = died | (over & (steps == 1))
            acts = self.acts(name)
            closed = acts | terminated
            own_part = own[name] * closed
            shared_part = result[name] * terminated
            if not self.shared:
                own_part = own_part + shared_part
            seen = np.repeat(self.steps.astype(np.float32), len(teams))[:, None]
            ended = np.flatnonzero(terminated.ravel())
            final = {"step": np.repeat(steps, len(teams))[ended, None].astype(np.float32)} if ended.size else None
            made[name] = AgentBatch(
                {"step": seen}, own_part.astype(np.float32).ravel(), terminated.ravel(),
                np.zeros(terminated.size, np.bool_), ended, final,
                group_reward=shared_part.astype(np.float32).ravel() if self.shared else None,
                needs_action=None if acts.all() and not self.turns and self.dies is None else acts.ravel(),
                aborted=np.repeat(lost, len(teams)) if lost.any() else None,
            )  # fmt: skip
        return made

    def set_parameters(self, parameters: Any) -> None:
        refuse_unknown_parameters(parameters, (), "the table")

    def close(self) -> None:
        """Nothing is held open."""
