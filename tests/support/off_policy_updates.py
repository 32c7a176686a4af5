"""Trainers and random minibatches for tests of one gradient step: masks, importance weights and several rewards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor

from rlcore import Environment, load_plugins
from rlcore_devkit.conformance.learning_rewards import LearningRewards
from rlcore_torch import OffPolicyTrainer, TransitionBatch
from rlcore_torch.off_policy.transition_batch import AfterEnds

ROWS = 24
Trainer = TypeVar("Trainer", bound=OffPolicyTrainer)


def far_from_start(
    make_trainer: Callable[..., Trainer], environment: Environment, rewards: int, seed: int = 1, **settings: Any
) -> Trainer:
    """A trainer whose parameters are all far from where they were initialized, each network's from the others'."""
    plugins = load_plugins()
    plugins.register(LearningRewards(), "learning-reward")
    signals: dict[str, Any] = {"extrinsic": {}, "learning": {}} if rewards == 2 else {"extrinsic": {}}
    trainer = make_trainer(environment, plugins=plugins, seed=seed, block={"reward_signals": signals}, **settings)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in trainer.model.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator))
    return trainer


def random_batch(trainer: OffPolicyTrainer, weighted: bool, seed: int, masked: bool = False) -> TransitionBatch:
    generator = torch.Generator().manual_seed(seed)
    continuous = trainer.behavior.continuous
    branches = trainer.behavior.discrete
    width = trainer.model.inputs.vector_size
    rewards = len(trainer.providers)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator)

    def mask() -> Tensor | None:
        if not (masked and branches):
            return None
        parts = [torch.rand((ROWS, size), generator=generator) < 0.6 for size in branches]
        for part in parts:
            part[:, 0] |= ~part.any(1)
        return torch.cat(parts, dim=1)

    choices = [torch.randint(size, (ROWS,), generator=generator) for size in branches]
    return TransitionBatch(
        inputs=(normal(ROWS, width),),
        next_inputs=(normal(ROWS, width),),
        raw=normal(ROWS, continuous).tanh() if continuous else None,
        choices=torch.stack(choices, dim=1) if branches else None,
        mask=mask(),
        next_mask=mask(),
        reward=normal(ROWS, rewards),
        discount=torch.tensor([0.9, 0.7][:rewards]) * (torch.rand((ROWS, rewards), generator=generator) < 0.7),
        weight=torch.rand(ROWS, generator=generator) if weighted else None,
        after_ends=AfterEnds((normal(ROWS, width),), mask(), torch.tensor([False, True])) if rewards == 2 else None,
    )
