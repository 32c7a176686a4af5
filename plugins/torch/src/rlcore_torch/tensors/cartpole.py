"""The cart and the pole of Barto, Sutton and Anderson (1983), N of them as tensors on one device.

A cart moves on a track, and a pole is hinged on it. Each step the cart is pushed left or right with 10 N for 0.02 s.
The reward is 1 for every step. The episode terminates where the cart leaves the track or the pole falls, and is
truncated after 500 steps. Masses, lengths and bounds are those of Gymnasium's ``CartPole-v1``; friction is left out, as
there.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rlcore import BehaviorSpec, EpisodeSeeds, ObservationSpec, saved_array, saved_count
from rlcore_torch.arrays import IntArray
from rlcore_torch.tensors.environment import TensorActions, TensorBatch, first_batch
from rlcore_torch.tensors.seeding import environment_keys, fold_in, uniforms

GRAVITY = 9.8  # m/s^2
CART = 1.0  # kg
POLE = 0.1  # kg
TOTAL = CART + POLE
HALF_LENGTH = 0.5  # m, of the pole
FORCE = 10.0  # N
STEP = 0.02  # s, of Euler's method
TRACK = 2.4  # m to either side
FALLEN = math.radians(12.0)
START = 0.05  # every number of the first state is within this distance of 0


class TorchCartPole:
    """N carts with a pole each; see :class:`rlcore_torch.TensorEnvironment`.

    The observation ``state`` is [S, 4] float32: position in m, velocity in m/s, angle in rad, angular velocity in
    rad/s. The action is one branch with two options: push left, push right.

    Attributes:
        behaviors: The only behavior by name.
        num_envs: N, the number of environments.
        device: The device of all tensors.
        takes_turns: False.
        max_steps: Steps after which an episode is truncated.
    """

    takes_turns = False

    def __init__(
        self, num_envs: int, device: torch.device | str = "cpu", name: str = "CartPole", max_steps: int = 500
    ) -> None:
        """Make ``num_envs`` environments; ``name`` is that of the behavior."""
        self.device = torch.device(device)
        self.num_envs = num_envs
        self.max_steps = max_steps
        # Twice what ends an episode, as Gymnasium's: the last observation lies outside of it.
        bound = np.array([2 * TRACK, np.inf, 2 * FALLEN, np.inf], np.float32)
        observation = ObservationSpec("state", (4,), np.float32, low=-bound, high=bound)
        spec = BehaviorSpec(name, (observation,), discrete=(2,), env_index=np.arange(num_envs))
        self.behaviors: Mapping[str, BehaviorSpec] = {name: spec}
        self._name = name
        self._reads_flags = self.device.type == "cpu"
        self._seeds = EpisodeSeeds(0)
        self._state = torch.zeros((4, num_envs), device=self.device)  # columns side by side compute slower
        zeros = torch.zeros(num_envs, dtype=torch.int64, device=self.device)
        self._steps = zeros  # [N] in the open episode
        self._episodes = zeros.clone()
        self._keys = zeros.clone()  # of the environments
        self._reward = torch.ones(num_envs, device=self.device)

    @property
    def episodes(self) -> IntArray:
        """[N] number of the episode that each environment is in."""
        return self._episodes.cpu().numpy().copy()

    def reset(self, seeds: EpisodeSeeds, episodes: IntArray) -> dict[str, TensorBatch]:
        """Start an episode in every environment, as :meth:`rlcore_torch.TensorEnvironment.reset` says."""
        self._seed(seeds)
        self._episodes = torch.tensor(episodes, dtype=torch.int64, device=self.device)
        self._steps.zero_()
        self._state = self._first_states(self._keys, self._episodes)
        return self._batch_without_step()

    def _seed(self, seeds: EpisodeSeeds) -> None:
        self._seeds = seeds
        end = seeds.first_env + self.num_envs
        numbers = torch.arange(seeds.first_env, end, device=self.device)
        self._keys = environment_keys(seeds.run_seed, numbers)

    def step(self, actions: Mapping[str, TensorActions]) -> dict[str, TensorBatch]:
        """Push every cart once, as :meth:`rlcore_torch.TensorEnvironment.step` says."""
        chosen = actions[self._name].discrete
        assert chosen is not None
        moved = self._moved(chosen[:, 0])  # [4, N]
        position, _, angle, _ = moved
        left = position.abs() > TRACK
        fell = angle.abs() > FALLEN
        terminated = left | fell
        self._steps += 1
        truncated = (self._steps >= self.max_steps) & ~terminated
        self._state = self._restarted(moved, terminated | truncated)
        final = moved.t().contiguous()
        state = final
        if self._state is not moved:
            state = self._state.t().contiguous()
        batch = TensorBatch({"state": state}, self._reward, terminated, truncated, {"state": final})
        return {self._name: batch}

    def _moved(self, push: Tensor) -> Tensor:
        """The states [4, N] after one step of Euler's method; ``push`` [N] is 0 for left and 1 for right.

        Florian 2007, "Correct equations for the dynamics of the cart-pole system", equations 23 and 24.
        """
        _, velocity, angle, spin = self._state
        sine = angle.sin()
        cosine = angle.cos()
        force = push * (2 * FORCE) - FORCE
        swing = POLE * HALF_LENGTH * spin.square() * sine
        drive = (force + swing) / TOTAL
        inertia = HALF_LENGTH * (4.0 / 3.0 - POLE / TOTAL * cosine.square())
        angular_acceleration = (GRAVITY * sine - cosine * drive) / inertia
        acceleration = drive - POLE * HALF_LENGTH / TOTAL * angular_acceleration * cosine
        rates = torch.stack((velocity, acceleration, spin, angular_acceleration))
        return torch.add(self._state, rates, alpha=STEP)

    def _restarted(self, moved: Tensor, ended: Tensor) -> Tensor:
        """The states [4, N] to act on next. Where a value can be read without waiting, only what ended begins."""
        if self._reads_flags:
            # In most steps nothing ends, and nothing is drawn.
            which = ended.nonzero()[:, 0]
            if not len(which):
                return moved
            self._steps[which] = 0
            episodes = self._episodes[which] + 1
            self._episodes[which] = episodes
            first = self._first_states(self._keys[which], episodes)
            return moved.index_copy(1, which, first)
        # First states of all, of which most are dropped: a branch on values would wait for the device.
        self._steps.masked_fill_(ended, 0)
        self._episodes += ended
        first = self._first_states(self._keys, self._episodes)
        return torch.where(ended, first, moved)

    def _first_states(self, keys: Tensor, episodes: Tensor) -> Tensor:
        """The first states [4, R] of the episodes numbered ``episodes`` [R] of environments with ``keys`` [R]."""
        numbers = uniforms(fold_in(keys, episodes), 4)  # [R, 4]
        return (numbers.t() - 0.5) * (2 * START)

    def _batch_without_step(self) -> dict[str, TensorBatch]:
        state = self._state.t().contiguous()
        return {self._name: first_batch({"state": state}, self.num_envs, self.device)}

    def state_dict(self) -> dict[str, Any]:
        """Return the state, as :meth:`rlcore_torch.TensorEnvironment.state_dict` says."""
        return {
            "run_seed": self._seeds.run_seed,
            "first_env": self._seeds.first_env,
            "state": self._state.cpu().numpy().T.copy(),
            "steps": self._steps.cpu().numpy().copy(),
            "episodes": self.episodes,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> dict[str, TensorBatch]:
        """Continue from ``state``, as :meth:`rlcore_torch.TensorEnvironment.load_state_dict` says."""
        states = saved_array(state, "state", np.float32, (self.num_envs, 4))
        steps = saved_array(state, "steps", np.int64, (self.num_envs,))
        episodes = saved_array(state, "episodes", np.int64, (self.num_envs,))
        run_seed = saved_count(state, "run_seed")
        first_env = saved_count(state, "first_env")
        self._seed(EpisodeSeeds(run_seed, first_env))
        self._state = torch.tensor(states.T.copy(), device=self.device)
        self._steps = torch.tensor(steps, device=self.device)
        self._episodes = torch.tensor(episodes, device=self.device)
        return self._batch_without_step()

    def close(self) -> None:
        """Do nothing: nothing is open."""
