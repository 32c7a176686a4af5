"""Why a trainer keeps to NumPy in a tensor environment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch

from rlcore import ExtrinsicReward
from rlcore_torch.acceleration.registry import has_methods
from rlcore_torch.networks.distributions import ActionDistribution

__all__ = ["reads_tensors", "refusal_of_tensors"]

Method = TypeVar("Method", bound=Callable[..., Any])
MARK = "reads_tensors"  # the attribute of a decorated method

# A provider that has these methods of the environment's reward reads nothing but the reward.
READS_REWARD_ALONE = (ExtrinsicReward.evaluate, ExtrinsicReward.update)


def refusal_of_tensors(trainer: Any, device: torch.device) -> str | None:
    """Say why an on-policy ``trainer`` does not collect tensors on ``device``; None if it does."""
    if trainer.inference:
        return "policies are only measured"
    if trainer.ranks.size > 1:
        return "ranks exchange arrays"
    if trainer.model.memory_size:
        return "network_settings.memory remembers arrays"
    # Tensors have an index in their device: "cuda" is "cuda:0" there.
    own_device = torch.empty(0, device=trainer.device).device
    if own_device != torch.empty(0, device=device).device:
        return f"torch_settings.device is {own_device}, and the environment computes on {device}"
    for name, provider in zip(trainer.provider_names, trainer.providers, strict=True):
        if not has_methods(type(provider), READS_REWARD_ALONE):
            return f"the reward {name!r} reads arrays"
        if provider.ignore_done:
            return f"the reward {name!r} ignores the ends of episodes"
    distribution = trainer.model.policy_head.distribution
    makes_noise = distribution is not None and not has_methods(type(distribution), [ActionDistribution.noise_of])
    if makes_noise and device.type != "cpu":
        return "the noise of the action_distribution is made of arrays"
    # A method that a subclass overrides may expect arrays, unless it is decorated.
    for method in trainer._methods_of_tensors:
        name = method.__name__
        own = getattr(type(trainer), name)
        if own is not method and not getattr(own, MARK, False):
            owner = next(base for base in type(trainer).__mro__ if name in vars(base))
            return f"{owner.__name__}.{name} may expect arrays"
    return None


def reads_tensors(method: Method) -> Method:
    """Decorate a method of an on-policy trainer that overrides one of its template, and reads arrays and tensors alike.

    A trainer that overrides a method which reads batches or rollouts keeps to NumPy in a tensor environment, because
    the method may expect arrays. With this decoration it collects tensors. They are arrays' equals in shape and order;
    those of a batch are a :class:`rlcore_torch.TensorBatch`. A method that overrides a decorated one is not decorated
    by that.
    """
    vars(method)[MARK] = True
    return method
