"""Environments in the form of rsl_rl, as Isaac Lab's are, as tensors for a run.

The form (rsl_rl 5): ``num_envs``, ``num_actions`` and ``device``; ``reset()`` and ``step(actions)``, which give
observations as a tensor or as groups of tensors by name. A step gives ``observations, rewards, dones, extras``, and
``extras["time_outs"]`` says which of the dones are time limits; or, as Isaac Lab itself, ``observations, rewards,
terminated, truncated, extras``. The environment resets itself within the step.

Shapes: N environments, each of which is a slot.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlcore import BehaviorSpec, EpisodeSeeds, ObservationSpec
from rlcore_torch.tensors.environment import TensorActions, TensorBatch, first_batch

FORM = ("num_envs", "num_actions", "device", "reset", "step")  # attributes of an environment in this form
OBSERVATION = "observation"  # the name of an observation without groups
FINAL = "final_obs"  # the entry of `extras` with all observations before the reset, where Isaac Lab keeps them


class RslRlTensors:
    """An environment in rsl_rl's form, for :class:`rlcore.Run`: ``Run(config, environment=RslRlTensors(env))``.

    Each group of observations is an observation of that name, such as ``policy`` and ``critic``;
    ``network_settings.critic_observations`` says which ones the critic alone reads. Actions are real numbers without
    bounds.

    After a time limit, trainers bootstrap from ``extras["final_obs"]``, which Isaac Lab gives with
    ``compute_final_obs=True``. Without that entry they bootstrap from the observation before the step, as rsl_rl does.

    The environment has one generator, which ``reset`` seeds by its method ``seed``, if it has one. Its state cannot be
    saved: each checkpoint starts new episodes in all environments.

    Attributes:
        env: The environment inside.
        behaviors: The only behavior by name.
        num_envs: N, the number of environments.
        device: The device of all tensors.
        takes_turns: False.
        resume_limits: Why a resumed run is not equal to one that was never stopped; empty if there are seeds.
    """

    takes_turns = False

    def __init__(self, env: Any, behavior: str = "Agent") -> None:
        """``behavior`` is the name under ``behaviors`` in the configuration.

        Resets the environment once, to see its observations. Raises ValueError for an object of another form.
        """
        missing = [name for name in FORM if not hasattr(env, name)]
        if missing:
            raise ValueError(f"{type(env).__name__} has no {', '.join(missing)}; expected an environment of rsl_rl")
        self.env = env
        self.num_envs = int(env.num_envs)
        self.device = torch.device(env.device)
        self.resume_limits: tuple[str, ...] = ()
        if not callable(getattr(env, "seed", None)):
            self.resume_limits = (f"{type(env).__name__} takes no seed",)
        self._name = behavior
        self._observations = self._first_observations()
        observations = []
        for name, tensor in self._observations.items():
            shape = tuple(tensor.shape[1:])
            observations.append(ObservationSpec(name, shape, np.float32))
        unbounded = np.full(int(env.num_actions), np.inf, np.float32)
        spec = BehaviorSpec(
            behavior,
            tuple(observations),
            continuous=len(unbounded),
            low=-unbounded,
            high=unbounded,
            env_index=np.arange(self.num_envs),
        )
        self.behaviors: Mapping[str, BehaviorSpec] = {behavior: spec}
        self._episodes = torch.zeros(self.num_envs, dtype=torch.int64, device=self.device)

    @property
    def episodes(self) -> NDArray[np.int64]:
        """[N] number of the episode that each environment is in; a copy."""
        return self._episodes.cpu().numpy().copy()

    def reset(self, seeds: EpisodeSeeds, episodes: NDArray[np.int64]) -> dict[str, TensorBatch]:
        """Start an episode in every environment, as :meth:`rlcore_torch.TensorEnvironment.reset` says."""
        if not self.resume_limits:
            # One seed for all environments; the sum differs after any episode that has ended since.
            number = int(episodes.sum())
            self.env.seed(seeds(0, number))
        self._episodes = torch.tensor(episodes, dtype=torch.int64, device=self.device)
        self._observations = self._first_observations()
        return {self._name: first_batch(self._observations, self.num_envs, self.device)}

    def step(self, actions: Mapping[str, TensorActions]) -> dict[str, TensorBatch]:
        """Move every environment once, as :meth:`rlcore_torch.TensorEnvironment.step` says."""
        chosen = actions[self._name].continuous
        assert chosen is not None
        observations, reward, *flags, extras = self.env.step(chosen.clone())  # which an environment may keep
        terminated, truncated = self._flags(flags, extras)
        final = self._observations  # before the step
        if extras.get(FINAL) is not None:
            final = self._groups(extras[FINAL])
        self._observations = self._groups(observations)
        self._episodes += terminated | truncated
        reward = reward.reshape(-1).to(torch.float32)
        batch = TensorBatch(self._observations, reward, terminated, truncated, final)
        return {self._name: batch}

    def _flags(self, flags: list[Tensor], extras: Mapping[str, Any]) -> tuple[Tensor, Tensor]:
        """Return which episodes [N] terminated, and which were cut off and did not terminate."""
        first, *second = [flag.reshape(-1).bool() for flag in flags]
        if second:
            # Isaac Lab may set both in a step that ends by a task's rule at the time limit.
            terminated = first
            return terminated, second[0] & ~terminated
        done = first
        limits = extras.get("time_outs")
        if limits is None:
            return done, torch.zeros_like(done)
        truncated = limits.reshape(-1).bool() & done
        return done & ~truncated, truncated

    def _first_observations(self) -> dict[str, Tensor]:
        """Reset the environments, and return their observations, which may come with extras."""
        observations = self.env.reset()
        if isinstance(observations, tuple):
            observations = observations[0]
        return self._groups(observations)

    def _groups(self, observations: Any) -> dict[str, Tensor]:
        """Return copies of observations by name: an environment may change its own ones in the next step."""
        if isinstance(observations, Tensor):
            observations = {OBSERVATION: observations}
        return {str(name): tensor.to(torch.float32, copy=True) for name, tensor in observations.items()}

    def close(self) -> None:
        """Close the environment inside, if it has such a method."""
        if callable(getattr(self.env, "close", None)):
            self.env.close()
