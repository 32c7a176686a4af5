"""Tag on a grid: two chasers against a runner, with other actions and more agents on one side."""

import attrs
import numpy as np

from rlcore import (
    AgentBatch,
    BehaviorSpec,
    EnvironmentSpec,
    EpisodeSeeds,
    EpisodeTable,
    ObservationSpec,
    hookimpl,
    refuse_unknown_parameters,
    setting,
)

# Cells that an action moves by: chasers stay or walk straight, the runner walks diagonally too.
STRAIGHT = np.array([(0, 0), (0, 1), (0, -1), (1, 0), (-1, 0)])
ALL_WAYS = np.concatenate([STRAIGHT, [(1, 1), (1, -1), (-1, 1), (-1, -1)]])


@attrs.frozen(kw_only=True)
class TagSettings:
    """Keys of the block environment.options."""

    size: int = setting(7, "Cells along each side of the field.", minimum=4)
    rounds: int = setting(25, "Rounds that the runner must survive.", minimum=1)


@hookimpl
def rlcore_environments():
    summary = "two chasers against a runner on a grid, with different actions"
    return [EnvironmentSpec(name="tag", target="tag:make", settings="tag:TagSettings", summary=summary)]


def make(settings, run):
    return Tag(run.num_envs, settings.options or TagSettings())


class Tag:
    """N games; environment e has slots 2 e and 2 e + 1 of Chaser (team 0), and slot e of Runner (team 1).

    All agents move at once. The chasers win when one of them stands where the runner stands, or has exchanged its cell
    with the runner. If that does not happen within the rounds of a game, the runner wins. That is a rule of the game,
    and agents see how many rounds are left, so the game terminates and is not truncated. Winners get 1, losers -1.
    """

    def __init__(self, num_envs, options):
        self.num_envs, self.options = num_envs, options
        seen = (ObservationSpec("field", (7,), np.float32, low=-1.0, high=1.0),)
        chasers = {"env_index": np.repeat(np.arange(num_envs), 2), "team": np.zeros(2 * num_envs, np.int64)}
        runner = {"env_index": np.arange(num_envs), "team": np.ones(num_envs, np.int64)}
        self.behaviors = {
            "Chaser": BehaviorSpec("Chaser", seen, discrete=(len(STRAIGHT),), **chasers),
            "Runner": BehaviorSpec("Runner", seen, discrete=(len(ALL_WAYS),), **runner),
        }
        self.episodes = np.zeros(num_envs, np.int64)
        self.cells = np.zeros((num_envs, 3, 2), np.int64)  # of the chasers and the runner
        self.rounds = np.zeros(num_envs, np.int64)  # played so far
        self.seed_with(EpisodeSeeds(0))

    def seed_with(self, seeds):
        self.seeds = seeds
        self.starts = EpisodeTable(self.num_envs, (3, 2), self.draw_starts)

    def draw_starts(self, env_index, blocks):
        """Starts of 256 episodes of each environment, from the seed of the first one: chasers left, runner right."""
        size = self.options.size
        cells = []
        for env, first in zip(env_index.tolist(), (blocks * EpisodeTable.BLOCK).tolist(), strict=True):
            generator = np.random.default_rng(self.seeds(env, first))
            rows = generator.integers(size, size=(EpisodeTable.BLOCK, 3))
            columns = generator.integers(2, size=(EpisodeTable.BLOCK, 3))
            cells.append(np.stack([rows, np.where(np.arange(3) == 2, size - 1 - columns, columns)], axis=2))
        return np.stack(cells)

    def reset(self, seeds, episodes):
        self.seed_with(seeds)
        self.episodes = np.array(episodes, np.int64)
        self.begin(np.ones(self.num_envs, np.bool_))
        return self.batches(np.zeros(self.num_envs), np.zeros(self.num_envs, np.bool_), None)

    def begin(self, envs):
        self.cells[envs] = self.starts(np.arange(self.num_envs), self.episodes)[envs]
        self.rounds[envs] = 0

    def step(self, actions):
        moves = np.concatenate(
            [
                STRAIGHT[actions["Chaser"].discrete.reshape(self.num_envs, 2)],
                ALL_WAYS[actions["Runner"].discrete.reshape(self.num_envs, 1)],
            ],
            axis=1,
        )
        before, after = self.cells, np.clip(self.cells + moves, 0, self.options.size - 1)
        met = (after[:, :2] == after[:, 2:]).all(2)
        passed = (after[:, :2] == before[:, 2:]).all(2) & (before[:, :2] == after[:, 2:]).all(2)
        caught = (met | passed).any(1)
        self.cells = after
        self.rounds += 1
        over = caught | (self.rounds == self.options.rounds)
        final = self.observe()
        self.episodes[over] += 1
        if over.any():
            self.begin(over)
        return self.batches(np.where(over, np.where(caught, 1.0, -1.0), 0.0), over, final)

    def observe(self):
        """Observations of the agents of each game, [N, 3, 7]: own cell, the other two seen from there, time left."""
        others = self.cells[:, [[1, 2], [0, 2], [0, 1]]] - self.cells[:, :, None]
        last = self.options.size - 1
        seen = np.empty((self.num_envs, 3, 7), np.float32)
        seen[:, :, :2] = 2 * self.cells / last - 1
        seen[:, :, 2:6] = others.reshape(self.num_envs, 3, 4) / last
        seen[:, :, 6] = (1 - self.rounds / self.options.rounds)[:, None]
        return seen

    def batches(self, result, over, final):
        """The batches after a step; ``result`` [N] is what chasers get."""
        seen, batches = self.observe(), {}
        for name, seats, sign in (("Chaser", slice(0, 2), 1), ("Runner", slice(2, 3), -1)):
            count = seen[:, seats].shape[1]
            ended = np.repeat(over, count)
            batches[name] = AgentBatch(
                {"field": seen[:, seats].reshape(-1, 7)},
                np.repeat(sign * result, count).astype(np.float32),
                terminated=ended,
                truncated=np.zeros_like(ended),
                final_observations=None if final is None else {"field": final[:, seats].reshape(-1, 7)[ended]},
            )
        return batches

    def set_parameters(self, parameters):
        refuse_unknown_parameters(parameters, (), "tag")

    def state_dict(self):
        arrays = {name: getattr(self, name).copy() for name in ("episodes", "cells", "rounds")}
        return {"run_seed": self.seeds.run_seed, "first_env": self.seeds.first_env, **arrays}

    def load_state_dict(self, state):
        self.seed_with(EpisodeSeeds(int(state["run_seed"]), int(state["first_env"])))
        for name in ("episodes", "cells", "rounds"):
            getattr(self, name)[...] = state[name]
        return self.batches(np.zeros(self.num_envs), np.zeros(self.num_envs, np.bool_), None)

    def close(self):
        pass
