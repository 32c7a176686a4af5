"""Values and advantages of a rollout of tensors, on its device.

They are the twins of :meth:`rlcore_torch.OnPolicyTrainer.advantages` and of the values before it, for the environment's
reward, and compute the same numbers in the same order.

Shapes: T rows, S slots, R reward providers, K episodes that ended.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rlcore_torch.networks.inputs import to_numpy
from rlcore_torch.networks.sequence_inputs import Inputs
from rlcore_torch.on_policy.advantages import Trajectories, generalized_advantages
from rlcore_torch.on_policy.minibatch import Rollout, standardize

__all__ = ["tensor_advantages", "tensor_values"]


def tensor_values(trainer: Any, inputs: Inputs, seen: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return the values of the observations acted on and of those that followed, both [T, S, R].

    After the end of an episode, its final observation follows. The places of the ends are read on the host.
    """
    values = trainer.in_pieces(trainer.value, inputs, seen).view(-1, trainer.behavior.slots, len(trainer.providers))
    next_values = values[1:].clone()
    finals, final_seen = trainer.buffer.finals()
    if len(finals):
        to_device = (x.to(trainer.device) for x in trainer.model.learner_inputs.raw(final_seen))
        final_inputs = trainer.model.learner_inputs(tuple(to_device))
        at = tuple(torch.from_numpy(column.copy()).to(trainer.device) for column in finals.T)
        next_values[at] = trainer.in_pieces(trainer.value, final_inputs, final_seen)
    return values[:-1], next_values


def tensor_advantages(trainer: Any, rollout: Rollout) -> tuple[Tensor, Tensor]:
    """Return the advantages [T, S], summed over the providers, and the value targets [T, S, R].

    Rewards and flags are read on the host once, for the statistics of episodes.
    """
    buffer = trainer.buffer
    h = trainer.hyperparameters
    value: Any = rollout.value
    next_value: Any = rollout.next_value
    transitions = buffer.transitions(trainer.policy.layout, len(rollout.valid), slice(None))
    trajectories = Trajectories.of(
        transitions.terminated, transitions.truncated, rollout.valid, trainer.settings.time_horizon
    )
    carry, terminated = (
        torch.from_numpy(flags).to(trainer.device) for flags in (trajectories.carry, trajectories.terminated)
    )
    advantages = torch.zeros_like(value[..., 0])
    returns = torch.empty_like(value)
    episodes = []
    for k, provider in enumerate(trainer.providers):
        given = provider.evaluate(transitions)
        strength = np.float32(provider.strength)
        reward = learned_from = given * strength
        scaling = trainer.reward_scaling
        if scaling is not None and k == scaling.place:
            learned_from = scaling.scaled_rollout(given, trajectories.ended, rollout.valid) * strength
        rewards = torch.from_numpy(learned_from).to(trainer.device)
        # Truncated episodes bootstrap from their final observation, terminated ones have no future.
        following = torch.where(terminated, 0.0, next_value[..., k])
        advantage = generalized_advantages(rewards, value[..., k], following, carry, provider.gamma, h.lambd)
        returns[..., k] = advantage + value[..., k]
        advantages += advantage
        episodes.append(trainer.episode_rewards[k].record(reward, trajectories.ended, buffer.cut_rows()))
    trainer.report_values(rollout, to_numpy(value), to_numpy(returns), episodes, [{} for _ in episodes])
    if h.advantage_normalization == "rollout":
        advantages = standardize(advantages.flatten()).view_as(advantages)
    return advantages, returns
