"""Policies with random weights, for tests that need a policy and no training."""

from __future__ import annotations

import torch

from rlcore import BehaviorSpec
from rlcore_torch.backend import Backend
from rlcore_torch.networks.models import Actor
from rlcore_torch.networks.settings import NetworkSettings
from rlcore_torch.policy.policy import ActorPolicy


def untrained_policy(behavior: BehaviorSpec, network: NetworkSettings, seed: int) -> ActorPolicy:
    """A policy of ``behavior`` with weights and statistics of observations that depend on ``seed``, on the CPU.

    The weights of the last layer are as large as the others, so that actions differ from each other.
    """
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(seed)
        model = Actor(behavior, network)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.2 * torch.randn_like(parameter))
        if model.inputs.normalizer is not None:
            observations = 0.5 + 2.0 * torch.randn(100, model.inputs.vector_size)
            model.inputs.normalizer.update(observations)
    return ActorPolicy(behavior, model, Backend(torch.device("cpu")))
