"""Nim with one heap: two teams take turns, and the last object wins."""

import attrs
import numpy as np

from rlcore import (
    AgentBatch,
    BehaviorSpec,
    EnvironmentSpec,
    ObservationSpec,
    hookimpl,
    refuse_unknown_parameters,
    setting,
)

MOST = 3  # objects that a turn may take


@attrs.frozen(kw_only=True)
class NimSettings:
    """Keys of the block environment.options."""

    heap: int = setting(20, "Objects of the largest heap at the start of a game.", minimum=MOST + 1)
    perfect_opponent: bool = setting(False, "Let the environment play the second team, without mistakes.")


@hookimpl
def rlcore_environments():
    settings, summary = "nim:NimSettings", "two teams take 1 to 3 objects in turn; the last object wins"
    return [EnvironmentSpec(name="nim", target="nim:make", settings=settings, summary=summary)]


def make(settings, run):
    return Nim(run.num_envs, run.behavior_names[0], settings.options or NimSettings())


class Nim:
    """Environment e has slot 2 e for team 0 and slot 2 e + 1 for team 1, or only slot e with a perfect opponent."""

    def __init__(self, num_envs, name, options):
        self.num_envs, self.name, self.options = num_envs, name, options
        self.teams = 1 if options.perfect_opponent else 2
        heap = ObservationSpec("heap", (options.heap + 1,), np.float32, "one_hot")
        slots = np.arange(self.teams * num_envs)
        env_index, team = slots // self.teams, slots % self.teams
        self.behaviors = {name: BehaviorSpec(name, (heap,), discrete=(MOST,), env_index=env_index, team=team)}
        self.episodes = np.zeros(num_envs, np.int64)
        self.heap = np.zeros(num_envs, np.int64)
        self.turn = np.zeros(num_envs, np.int64)  # [N] the team that acts

    def reset(self, seeds, episodes):
        self.seeds, self.episodes = seeds, np.array(episodes, np.int64)
        for env in range(self.num_envs):
            self.begin(env)
        return self.batch(np.zeros((self.num_envs, self.teams), np.float32), np.zeros(self.num_envs, np.bool_))

    def begin(self, env):
        """Start a game with at least half the heap. Against a perfect opponent, it can be won."""
        generator = np.random.default_rng(self.seeds(env, int(self.episodes[env])))
        while True:
            self.heap[env] = generator.integers(self.options.heap // 2, self.options.heap + 1)
            self.turn[env] = generator.integers(self.teams)
            if self.teams == 2 or self.heap[env] % (MOST + 1):
                break

    def step(self, actions):
        envs = np.arange(self.num_envs)
        self.take(1 + actions[self.name].discrete.reshape(self.num_envs, self.teams)[envs, self.turn])
        won = self.heap == 0
        reward = np.zeros((self.num_envs, self.teams), np.float32)
        if self.teams == 2:
            reward[won] = -1.0
            self.turn = np.where(won, self.turn, 1 - self.turn)
        else:
            rest = self.heap % (MOST + 1)  # a perfect player leaves a multiple of four, if it can
            self.take(np.where(rest, rest, 1))
            reward[self.heap == 0] = -1.0
        reward[won, self.turn[won]] = 1.0
        return self.batch(reward, self.heap == 0)

    def take(self, count):
        self.heap = np.maximum(self.heap - count, 0)

    def batch(self, reward, over):
        """The batch of all agents after a step; ``over`` [N] are the games that ended in it."""
        terminated = np.repeat(over, self.teams)
        final = {"heap": self.observe()[terminated]} if over.any() else None
        for env in np.flatnonzero(over).tolist():
            self.episodes[env] += 1
            self.begin(env)
        acts = (np.arange(self.teams) == self.turn[:, None]).ravel() if self.teams == 2 else None
        mask = np.arange(MOST) < np.repeat(self.heap, self.teams)[:, None]
        ended = np.flatnonzero(terminated)
        return {
            self.name: AgentBatch(
                {"heap": self.observe()}, reward.ravel(), terminated, np.zeros_like(terminated), ended, final,
                needs_action=acts, action_mask=mask,
            )
        }  # fmt: skip

    def observe(self):
        return np.eye(self.options.heap + 1, dtype=np.float32)[np.repeat(self.heap, self.teams)]

    def set_parameters(self, parameters):
        refuse_unknown_parameters(parameters, (), "nim")

    def close(self):
        pass
