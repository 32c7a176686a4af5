"""A group of two in which one agent must leave for good, so that the other one reaches what both are rewarded for."""

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


@attrs.frozen(kw_only=True)
class SacrificeSettings:
    """Keys of the block environment.options."""

    steps: int = setting(5, "Steps of an episode.", minimum=2)
    bait: float = setting(0.02, "What the first agent earns in each step that it survives.")


@hookimpl
def rlcore_environments():
    return [
        EnvironmentSpec(
            name="sacrifice",
            target="sacrifice:make",
            settings="sacrifice:SacrificeSettings",
            summary="two agents, of which one must leave so that the other earns what both are rewarded for",
        )
    ]


def make(settings, run):
    return Sacrifice(run.num_envs, settings.options or SacrificeSettings())


class Sacrifice:
    """N rooms; room e has slots 2 e and 2 e + 1, which are a group.

    The first agent can hold the gate open in the first step. Then it is lost: its episode terminates with reward 0, and
    it waits for the next one. If it does not, it earns a bait in every step. The second agent walks to the gate, and
    the group earns 1 if it finds it open in the last step and goes through. No agent earns this reward while the first
    one lives, so an agent that counts only what it earns itself takes the bait.
    """

    def __init__(self, num_envs, options):
        self.num_envs = num_envs
        self.options = options
        rooms = np.repeat(np.arange(num_envs), 2)
        observations = (ObservationSpec("room", (4,), np.float32, low=0.0, high=1.0),)
        agents = BehaviorSpec("Agent", observations, discrete=(2,), env_index=rooms, group=rooms)
        self.behaviors = {"Agent": agents}
        self.episodes = np.zeros(num_envs, np.int64)
        self.time = np.zeros(num_envs, np.int64)  # steps of the open episodes
        self.open = np.zeros(num_envs, np.bool_)  # whether the gate is open, and the first agent lost

    def reset(self, seeds, episodes):
        self.episodes = np.array(episodes, np.int64)
        self.begin(np.ones(self.num_envs, np.bool_))
        return self.first_batch()

    def begin(self, rooms):
        self.time[rooms] = 0
        self.open[rooms] = False

    def step(self, actions):
        acts = actions["Agent"].discrete.reshape(self.num_envs, 2) == 1
        holds = acts[:, 0] & (self.time == 0)
        lost_before = self.open
        self.open = lost_before | holds
        self.time += 1
        over = self.time == self.options.steps

        reward = np.zeros((self.num_envs, 2), np.float32)
        reward[~self.open, 0] = self.options.bait
        through = over & self.open & acts[:, 1]
        shared = np.zeros((self.num_envs, 2), np.float32)
        shared[through & ~lost_before, 0] = 1.0  # an agent whose episode is over gets no reward of the group
        shared[through, 1] = 1.0
        terminated = np.stack([holds | (over & ~lost_before), over], axis=1)

        final = self.observe()
        self.episodes += over
        self.begin(over)
        return self.batch(terminated, reward, shared, final)

    def observe(self):
        """Observations [N, 2, 4]: which of the two the agent is, whether the gate is open, and the time."""
        observations = np.zeros((self.num_envs, 2, 4), np.float32)
        observations[:, 0, 0] = 1.0
        observations[:, 1, 1] = 1.0
        observations[:, :, 2] = self.open[:, None]
        time = self.time / self.options.steps
        observations[:, :, 3] = time[:, None]
        return observations

    def first_batch(self):
        """The batch of rooms in which no step is known: nothing is earned, and no episode ended."""
        nothing = np.zeros((self.num_envs, 2), np.float32)
        never = np.zeros((self.num_envs, 2), np.bool_)
        return self.batch(never, nothing, nothing, self.observe())

    def batch(self, terminated, reward, shared, final):
        """The batch after a step; all arrays are [N, 2, ...], and ``final`` was seen before episodes began."""
        ended = terminated.ravel()
        acts = np.ones((self.num_envs, 2), np.bool_)
        acts[:, 0] = ~self.open  # a lost agent waits
        batch = AgentBatch(
            {"room": self.observe().reshape(-1, 4)},
            reward.ravel(),
            terminated=ended,
            truncated=np.zeros_like(ended),
            final_observations={"room": final.reshape(-1, 4)[ended]},
            group_reward=shared.ravel(),
            needs_action=acts.ravel(),
        )
        return {"Agent": batch}

    def set_parameters(self, parameters):
        refuse_unknown_parameters(parameters, (), "sacrifice")

    def state_dict(self):
        return {name: getattr(self, name).copy() for name in ("episodes", "time", "open")}

    def load_state_dict(self, state):
        for name in ("episodes", "time", "open"):
            getattr(self, name)[...] = state[name]
        return self.first_batch()

    def close(self):
        pass
