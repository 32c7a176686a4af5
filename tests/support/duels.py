"""A plugin with a small game for tests of resumed runs: ``{type: duel, options: {saves: false, deaths: true}}``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from rlcore import (
    Actions,
    AgentBatch,
    BehaviorSpec,
    EnvironmentSpec,
    EpisodeSeeds,
    ObservationSpec,
    hookimpl,
    refuse_unknown_parameters,
    setting,
)

LONGEST = 9  # steps of a game
CUES = 3


@attrs.frozen(kw_only=True)
class DuelSettings:
    """Keys of the block environment.options."""

    agents: int = setting(1, "Agents of each of the two teams.", minimum=1)
    saves: bool = setting(True, "Whether the environment can save its state.")
    deaths: bool = setting(False, "Whether an agent dies at its second mistake, and waits for the end of the game.")
    more: int = setting(0, "Agents of each team that want slots after 50 steps; 0 for as many as there are.")


class Duel:
    """Agents name the cue that they see; the team with fewer mistakes wins. Games have 3 to 9 steps.

    The last step of the longest games is a time limit. One behavior has both teams, or each of two behaviors has one.
    """

    def __init__(self, num_envs: int, names: tuple[str, ...], options: DuelSettings) -> None:
        self.num_envs, self.deaths = num_envs, options.deaths
        per_env = 2 * options.agents
        self.team = np.arange(per_env) // options.agents  # [A] of each agent of an environment
        self.own = [
            np.flatnonzero(self.team == k) if len(names) == 2 else np.arange(per_env) for k in range(len(names))
        ]
        seen = ObservationSpec("seen", (CUES + 2,), np.float32)
        self.behaviors: Mapping[str, BehaviorSpec] = {
            name: BehaviorSpec(
                name, (seen,), discrete=(CUES,), env_index=np.repeat(np.arange(num_envs), len(own)),
                team=np.tile(self.team[own], num_envs),
            )
            for name, own in zip(names, self.own, strict=True)
        }  # fmt: skip
        self.episodes = np.zeros(num_envs, np.int64)
        self.seeds = EpisodeSeeds(0)
        self.cues = np.zeros((num_envs, LONGEST + 1, per_env), np.int64)
        self.length = np.zeros(num_envs, np.int64)
        self.step_in_game = np.zeros(num_envs, np.int64)
        self.mistakes = np.zeros((num_envs, per_env), np.int64)
        self.dead = np.zeros((num_envs, per_env), np.bool_)

    def reset(self, seeds: EpisodeSeeds, episodes: NDArray[np.int64]) -> dict[str, AgentBatch]:
        self.seeds, self.episodes = seeds, np.array(episodes, np.int64)
        for env in range(self.num_envs):
            self._begin(env)
        return self._first()

    def _begin(self, env: int) -> None:
        generator = np.random.default_rng(self.seeds(env, int(self.episodes[env])))
        self.cues[env] = generator.integers(CUES, size=self.cues.shape[1:])
        self.length[env] = generator.integers(3, LONGEST + 1)
        self.step_in_game[env] = 0
        self.mistakes[env], self.dead[env] = 0, False

    def step(self, actions: Mapping[str, Actions]) -> dict[str, AgentBatch]:
        chosen = np.zeros_like(self.mistakes)
        for name, own in zip(self.behaviors, self.own, strict=True):
            discrete = actions[name].discrete
            assert discrete is not None
            chosen[:, own] = discrete.reshape(self.num_envs, len(own))
        envs = np.arange(self.num_envs)
        alive = ~self.dead
        wrong = alive & (chosen != self.cues[envs, self.step_in_game])
        self.mistakes += wrong
        self.step_in_game += 1
        died = alive & (self.mistakes >= 2) if self.deaths else np.zeros_like(self.dead)
        self.dead |= died
        over = (self.step_in_game >= self.length) | self.dead.all(1)
        limit = over & (self.step_in_game >= LONGEST) & ~self.dead.all(1)
        ended = died | (over[:, None] & alive)
        truncated = ended & limit[:, None] & ~died
        by_team = np.stack([self.mistakes[:, self.team == team].sum(1) for team in (0, 1)], 1)
        result = np.sign(by_team[:, ::-1] - by_team)[:, self.team]
        reward = np.where(alive, np.where(wrong, -0.1, 0.1), 0.0) + np.where(ended & over[:, None], result, 0)
        final = self._observe()
        self.episodes[over] += 1
        for env in np.flatnonzero(over).tolist():
            self._begin(env)
        return self._batches(reward, ended & ~truncated, truncated, final)

    def _observe(self) -> NDArray[np.float32]:
        cue = np.eye(CUES, dtype=np.float32)[self.cues[np.arange(self.num_envs), self.step_in_game]]
        late = np.broadcast_to((self.step_in_game / LONGEST)[:, None, None], (*self.dead.shape, 1))
        return np.concatenate([cue, late, self.mistakes[:, :, None] / LONGEST], 2).astype(np.float32)

    def _batches(
        self, reward: NDArray[Any], terminated: NDArray[np.bool_], truncated: NDArray[np.bool_], final: NDArray[Any]
    ) -> dict[str, AgentBatch]:
        seen = self._observe()
        found = {}
        for name, own in zip(self.behaviors, self.own, strict=True):
            rows = (terminated | truncated)[:, own].ravel()
            found[name] = AgentBatch(
                {"seen": seen[:, own].reshape(-1, CUES + 2)},
                reward[:, own].astype(np.float32).ravel(),
                terminated[:, own].ravel(),
                truncated[:, own].ravel(),
                final_observations={"seen": final[:, own].reshape(-1, CUES + 2)[rows]} if rows.any() else None,
                needs_action=~self.dead[:, own].ravel() if self.deaths else None,
            )
        return found

    def _first(self) -> dict[str, AgentBatch]:
        none = np.zeros_like(self.dead)
        return self._batches(np.zeros(none.shape), none, none, self._observe())

    def set_parameters(self, parameters: Mapping[str, Any]) -> None:
        refuse_unknown_parameters(parameters, (), "duel")

    def close(self) -> None:
        """Do nothing: nothing is open."""


STATE = ("episodes", "cues", "length", "step_in_game", "mistakes", "dead")


class SavingDuel(Duel):
    """A duel that implements :class:`rlcore.SavesState`."""

    def state_dict(self) -> dict[str, Any]:
        return {
            "run_seed": self.seeds.run_seed,
            "first_env": self.seeds.first_env,
            **{name: getattr(self, name).copy() for name in STATE},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> dict[str, AgentBatch]:
        self.seeds = EpisodeSeeds(int(state["run_seed"]), int(state["first_env"]))
        for name in STATE:
            getattr(self, name)[...] = state[name]
        return self._first()


class GrowingDuel(SavingDuel):
    """A duel that implements :class:`rlcore.AddsSlots`."""

    def __init__(self, num_envs: int, names: tuple[str, ...], options: DuelSettings) -> None:
        super().__init__(num_envs, names, options)
        self.options, self.taken = options, 0

    @property
    def wants_slots(self) -> bool:
        return self.taken >= 50 and self.options.agents < self.options.more

    def add_slots(self) -> None:
        options = attrs.evolve(self.options, agents=self.options.more)
        super().__init__(self.num_envs, tuple(self.behaviors), options)
        self.options = options

    def step(self, actions: Mapping[str, Actions]) -> dict[str, AgentBatch]:
        self.taken += 1
        return super().step(actions)


@hookimpl
def rlcore_environments() -> list[EnvironmentSpec]:
    summary = "two teams name what they see"
    return [EnvironmentSpec(name="duel", target="duels:make", settings="duels:DuelSettings", summary=summary)]


def make(settings: Any, run: Any) -> Duel:
    options = settings.options or DuelSettings()
    if options.more:
        return GrowingDuel(run.num_envs, tuple(run.behavior_names), options)
    return (SavingDuel if options.saves else Duel)(run.num_envs, tuple(run.behavior_names), options)
