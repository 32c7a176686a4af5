"""Tag on a grid: two chasers against a runner, with other actions and more agents on one side."""

import attrs
import numpy as np

from rlcore import (
    AgentBatch,
    BehaviorSpec,
    EnvironmentSpec,
    EpisodeSeeds,
    ObservationSpec,
    hookimpl,
    refuse_unknown_parameters,
    setting,
)

# Cells that an action moves by: chasers stay or walk straight, the runner walks diagonally too.
STRAIGHT = np.array([(0, 0), (0, 1), (0, -1), (1, 0), (-1, 0)])
DIAGONAL = np.array([(1, 1), (1, -1), (-1, 1), (-1, -1)])
ALL_WAYS = np.concatenate([STRAIGHT, DIAGONAL])

# Where the agents of a game are in arrays [N, 3, ...], and the other two as each of the three sees them.
CHASERS = slice(0, 2)
RUNNER = slice(2, 3)
OTHERS = np.array([(1, 2), (0, 2), (0, 1)])

DRAWN = 256  # episodes of an environment whose starts are drawn together


@attrs.frozen(kw_only=True)
class TagSettings:
    """Keys of the block environment.options."""

    size: int = setting(7, "Cells along each side of the field.", minimum=4)
    rounds: int = setting(25, "Rounds that the runner must survive.", minimum=1)


@hookimpl
def rlcore_environments():
    return [
        EnvironmentSpec(
            name="tag",
            target="tag:make",
            settings="tag:TagSettings",
            summary="two chasers against a runner on a grid, with different actions",
        )
    ]


def make(settings, run):
    return Tag(run.num_envs, settings.options or TagSettings())


class Tag:
    """N games; environment e has slots 2 e and 2 e + 1 of Chaser (team 0), and slot e of Runner (team 1).

    All agents move at once. The chasers win when one of them stands where the runner stands, or has exchanged its cell
    with the runner. If that does not happen within the rounds of a game, the runner wins. That is a rule of the game,
    and agents see how many rounds are left, so the game terminates and is not truncated. Winners get 1, losers -1.
    """

    def __init__(self, num_envs, options):
        self.num_envs = num_envs
        self.options = options
        observations = (ObservationSpec("field", (7,), np.float32, low=-1.0, high=1.0),)
        envs = np.arange(num_envs)
        chasers = BehaviorSpec(
            "Chaser",
            observations,
            discrete=(len(STRAIGHT),),
            env_index=np.repeat(envs, 2),
            team=np.zeros(2 * num_envs, np.int64),
        )
        runner = BehaviorSpec(
            "Runner",
            observations,
            discrete=(len(ALL_WAYS),),
            env_index=envs,
            team=np.ones(num_envs, np.int64),
        )
        self.behaviors = {"Chaser": chasers, "Runner": runner}
        self.episodes = np.zeros(num_envs, np.int64)
        self.cells = np.zeros((num_envs, 3, 2), np.int64)  # of the chasers and the runner
        self.rounds = np.zeros(num_envs, np.int64)  # played so far
        self.seed_with(EpisodeSeeds(0))

    def seed_with(self, seeds):
        self.seeds = seeds
        self.drawn = [(None, None)] * self.num_envs  # of each environment: a block of episodes, and their starts

    def start(self, env, episode):
        """The cells [3, 2] in which an episode starts: chasers left, runner right.

        The starts of 256 episodes are drawn together, from the seed of the first one: a generator is slow to make.
        """
        block, place = divmod(episode, DRAWN)
        if self.drawn[env][0] != block:
            size = self.options.size
            generator = np.random.default_rng(self.seeds(env, block * DRAWN))
            rows = generator.integers(size, size=(DRAWN, 3))
            columns = generator.integers(2, size=(DRAWN, 3))
            columns[:, 2] = size - 1 - columns[:, 2]  # the runner starts on the other side
            self.drawn[env] = (block, np.stack([rows, columns], axis=2))
        return self.drawn[env][1][place]

    def reset(self, seeds, episodes):
        self.seed_with(seeds)
        self.episodes = np.array(episodes, np.int64)
        self.begin(np.ones(self.num_envs, np.bool_))
        return self.first_batches()

    def begin(self, envs):
        for env in np.flatnonzero(envs).tolist():
            self.cells[env] = self.start(env, int(self.episodes[env]))
        self.rounds[envs] = 0

    def step(self, actions):
        chasers = actions["Chaser"].discrete.reshape(self.num_envs, 2)
        runner = actions["Runner"].discrete.reshape(self.num_envs, 1)
        moves = np.concatenate([STRAIGHT[chasers], ALL_WAYS[runner]], axis=1)  # [N, 3, 2]
        before = self.cells
        after = np.clip(before + moves, 0, self.options.size - 1)
        self.cells = after
        self.rounds += 1

        met = same_cells(after[:, CHASERS], after[:, RUNNER])
        to_the_runner = same_cells(after[:, CHASERS], before[:, RUNNER])
        to_the_chaser = same_cells(before[:, CHASERS], after[:, RUNNER])
        exchanged = to_the_runner & to_the_chaser
        caught = (met | exchanged).any(1)
        over = caught | (self.rounds == self.options.rounds)
        result = np.zeros(self.num_envs)
        result[over] = np.where(caught[over], 1.0, -1.0)

        final = self.observe()
        self.episodes[over] += 1
        if over.any():
            self.begin(over)
        return self.batches(result, over, final)

    def observe(self):
        """Observations of the agents of each game, [N, 3, 7]: own cell, the other two seen from there, time left."""
        others = self.cells[:, OTHERS] - self.cells[:, :, None]  # [N, 3, 2, 2]
        last = self.options.size - 1
        time_left = 1 - self.rounds / self.options.rounds
        observations = np.empty((self.num_envs, 3, 7), np.float32)
        observations[:, :, :2] = 2 * self.cells / last - 1
        observations[:, :, 2:6] = others.reshape(self.num_envs, 3, 4) / last
        observations[:, :, 6] = time_left[:, None]
        return observations

    def first_batches(self):
        """The batches of games in which no step is known: nothing is earned, and no game ended."""
        no_result = np.zeros(self.num_envs)
        not_over = np.zeros(self.num_envs, np.bool_)
        return self.batches(no_result, not_over, self.observe())

    def batches(self, result, over, final):
        """The batches after a step. ``result`` [N]: what chasers get; ``final`` [N, 3, 7]: seen before games began."""
        observations = self.observe()
        return {
            "Chaser": self.batch(observations[:, CHASERS], result, over, final[:, CHASERS]),
            "Runner": self.batch(observations[:, RUNNER], -result, over, final[:, RUNNER]),
        }

    def batch(self, observations, reward, over, final):
        """The batch of the A agents of a behavior in each game, from [N, A, 7]; ``reward`` [N] is that of each."""
        agents = observations.shape[1]
        ended = np.repeat(over, agents)
        return AgentBatch(
            {"field": observations.reshape(-1, 7)},
            np.repeat(reward, agents).astype(np.float32),
            terminated=ended,
            truncated=np.zeros_like(ended),
            final_observations={"field": final.reshape(-1, 7)[ended]},
        )

    def set_parameters(self, parameters):
        refuse_unknown_parameters(parameters, (), "tag")

    def state_dict(self):
        arrays = {name: getattr(self, name).copy() for name in ("episodes", "cells", "rounds")}
        return {"run_seed": self.seeds.run_seed, "first_env": self.seeds.first_env, **arrays}

    def load_state_dict(self, state):
        self.seed_with(EpisodeSeeds(int(state["run_seed"]), int(state["first_env"])))
        for name in ("episodes", "cells", "rounds"):
            getattr(self, name)[...] = state[name]
        return self.first_batches()

    def close(self):
        pass


def same_cells(a, b):
    """Whether cells [N, 2, 2] of two agents equal those [N, 1, 2] of another one: [N, 2]."""
    return (a == b).all(2)
