"""Why a trainer keeps to NumPy in a tensor environment."""

from __future__ import annotations

from typing import Any

import torch

from rlcore import ExtrinsicReward
from rlcore_torch.networks.distributions import ActionDistribution

__all__ = ["refusal_of_tensors"]

# Methods that read batches or rollouts; one that another package overrides may expect arrays.
METHODS = ("begin", "act", "observe", "stored", "value", "rollout", "advantages", "state_dict", "load_state_dict")


def refusal_of_tensors(trainer: Any, device: torch.device) -> str | None:
    """Say why an on-policy ``trainer`` does not collect tensors on ``device``; None if it does."""
    if trainer.inference:
        return "policies are only measured"
    if trainer.ranks.size > 1:
        return "ranks exchange arrays"
    if trainer.model.memory_size:
        return "network_settings.memory remembers arrays"
    if (own := torch.empty(0, device=trainer.device).device) != torch.empty(0, device=device).device:
        return f"torch_settings.device is {own}, and the environment computes on {device}"
    for name, provider in zip(trainer.provider_names, trainer.providers, strict=True):
        if any(getattr(type(provider), each) is not getattr(ExtrinsicReward, each) for each in ("evaluate", "update")):
            return f"the reward {name!r} reads arrays"
        if provider.ignore_done:
            return f"the reward {name!r} ignores the ends of episodes"
    distribution = trainer.model.policy_head.distribution
    makes_noise = distribution is not None and type(distribution).noise_of is not ActionDistribution.noise_of
    if makes_noise and device.type != "cpu":
        return "the noise of the action_distribution is made of arrays"
    for name in METHODS:
        owner = next(each for each in type(trainer).__mro__ if name in each.__dict__)
        if not owner.__module__.startswith("rlcore_torch."):
            return f"{owner.__name__}.{name} may expect arrays"
    return None
