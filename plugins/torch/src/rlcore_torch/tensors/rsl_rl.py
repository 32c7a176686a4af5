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
from rlcore_torch.tensors.environment import TensorActions, TensorBatch

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
        missing = [name for name in ("num_envs", "num_actions", "device", "reset", "step") if not hasattr(env, name)]
        if missing:
            raise ValueError(f"{type(env).__name__} has no {', '.join(missing)}; expected an environment of rsl_rl")
        self.env = env
        self.num_envs = int(env.num_envs)
        self.device = torch.device(env.device)
        self.resume_limits = () if callable(getattr(env, "seed", None)) else (f"{type(env).__name__} takes no seed",)
        self._name = behavior
        self._seen = self._groups(self._first())
        unbounded = np.full(int(env.num_actions), np.inf, np.float32)
        self.behaviors: Mapping[str, BehaviorSpec] = {
            behavior: BehaviorSpec(
                behavior,
                tuple(ObservationSpec(name, tuple(each.shape[1:]), np.float32) for name, each in self._seen.items()),
                continuous=len(unbounded),
                low=-unbounded,
                high=unbounded,
                env_index=np.arange(self.num_envs),
            )
        }
        self._episodes = torch.zeros(self.num_envs, dtype=torch.int64, device=self.device)

    @property
    def episodes(self) -> NDArray[np.int64]:
        """[N] number of the episode that each environment is in; a copy."""
        return self._episodes.cpu().numpy().copy()

    def reset(self, seeds: EpisodeSeeds, episodes: NDArray[np.int64]) -> dict[str, TensorBatch]:
        """Start an episode in every environment, as :meth:`rlcore_torch.TensorEnvironment.reset` says."""
        if not self.resume_limits:
            self.env.seed(seeds(0, int(episodes.sum())))
        self._episodes = torch.tensor(episodes, dtype=torch.int64, device=self.device)
        self._seen = self._groups(self._first())
        none = torch.zeros(self.num_envs, dtype=torch.bool, device=self.device)
        return {self._name: TensorBatch(self._seen, torch.zeros_like(none, dtype=torch.float32), none, none.clone())}

    def step(self, actions: Mapping[str, TensorActions]) -> dict[str, TensorBatch]:
        """Move every environment once, as :meth:`rlcore_torch.TensorEnvironment.step` says."""
        chosen = actions[self._name].continuous
        assert chosen is not None
        observations, reward, *flags, extras = self.env.step(chosen.clone())  # which an environment may keep
        terminated, truncated = self._flags(flags, extras)
        final = self._seen if extras.get(FINAL) is None else self._groups(extras[FINAL])
        self._seen = self._groups(observations)
        self._episodes += terminated | truncated
        reward = reward.reshape(-1).to(torch.float32)
        return {self._name: TensorBatch(self._seen, reward, terminated, truncated, final)}

    def _flags(self, flags: list[Tensor], extras: Mapping[str, Any]) -> tuple[Tensor, Tensor]:
        """Return which episodes [N] terminated, and which were cut off and did not terminate."""
        ended = flags[0].reshape(-1).bool()
        if len(flags) == 2:
            return ended, flags[1].reshape(-1).bool() & ~ended
        limits = extras.get("time_outs")
        cut = torch.zeros_like(ended) if limits is None else limits.reshape(-1).bool() & ended
        return ended & ~cut, cut

    def _first(self) -> Any:
        """Return the observations of a reset, which may come with extras."""
        found = self.env.reset()
        if isinstance(found, tuple):
            return found[0]
        return found

    def _groups(self, observations: Any) -> dict[str, Tensor]:
        """Return copies of observations by name: an environment may change its own ones in the next step."""
        groups = {OBSERVATION: observations} if isinstance(observations, Tensor) else dict(observations.items())
        return {str(name): each.to(torch.float32, copy=True) for name, each in groups.items()}

    def close(self) -> None:
        """Close the environment inside, if it has such a method."""
        if callable(getattr(self.env, "close", None)):
            self.env.close()
