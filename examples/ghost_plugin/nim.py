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
    return [
        EnvironmentSpec(
            name="nim",
            target="nim:make",
            settings="nim:NimSettings",
            summary="two teams take 1 to 3 objects in turn; the last object wins",
        )
    ]


def make(settings, run):
    name = run.behavior_names[0]
    return Nim(run.num_envs, name, settings.options or NimSettings())


class Nim:
    """Environment e has slot 2 e for team 0 and slot 2 e + 1 for team 1, or only slot e with a perfect opponent."""

    def __init__(self, num_envs, name, options):
        self.num_envs = num_envs
        self.name = name
        self.options = options
        self.teams = 1 if options.perfect_opponent else 2
        heap = ObservationSpec("heap", (options.heap + 1,), np.float32, "one_hot")
        slots = np.arange(self.teams * num_envs)
        players = BehaviorSpec(
            name,
            (heap,),
            discrete=(MOST,),
            env_index=slots // self.teams,
            team=slots % self.teams,
        )
        self.behaviors = {name: players}
        self.episodes = np.zeros(num_envs, np.int64)
        self.heap = np.zeros(num_envs, np.int64)
        self.turn = np.zeros(num_envs, np.int64)  # [N] the team that acts

    def reset(self, seeds, episodes):
        self.seeds = seeds
        self.episodes = np.array(episodes, np.int64)
        for env in range(self.num_envs):
            self.begin(env)
        no_reward = np.zeros((self.num_envs, self.teams), np.float32)
        return self.batch(no_reward, np.zeros(self.num_envs, np.bool_))

    def begin(self, env):
        """Start a game with at least half the heap. Against a perfect opponent, it can be won."""
        generator = np.random.default_rng(self.seeds(env, int(self.episodes[env])))
        largest = self.options.heap
        while True:
            self.heap[env] = generator.integers(largest // 2, largest + 1)
            self.turn[env] = generator.integers(self.teams)
            lost = self.heap[env] % (MOST + 1) == 0  # against a perfect opponent
            if self.teams == 2 or not lost:
                break

    def step(self, actions):
        envs = np.arange(self.num_envs)
        choices = actions[self.name].discrete.reshape(self.num_envs, self.teams)
        self.take(1 + choices[envs, self.turn])
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
        final = {"heap": self.observe()[terminated]}
        for env in np.flatnonzero(over).tolist():
            self.episodes[env] += 1
            self.begin(env)
        acts = None
        if self.teams == 2:
            acts = (np.arange(self.teams) == self.turn[:, None]).ravel()
        heaps = np.repeat(self.heap, self.teams)
        batch = AgentBatch(
            {"heap": self.observe()},
            reward.ravel(),
            terminated=terminated,
            truncated=np.zeros_like(terminated),
            final_observations=final,
            needs_action=acts,
            action_mask=np.arange(MOST) < heaps[:, None],  # no more than the heap has
        )
        return {self.name: batch}

    def observe(self):
        indicators = np.eye(self.options.heap + 1, dtype=np.float32)
        return indicators[np.repeat(self.heap, self.teams)]

    def set_parameters(self, parameters):
        refuse_unknown_parameters(parameters, (), "nim")

    def close(self):
        pass
