"""Random minibatches for trainers built like SAC: soft values, with masks, importance weights and several rewards."""

from __future__ import annotations

import torch
from torch import Tensor

from rlcore_sac.trainer import SACTrainer
from rlcore_torch import TransitionBatch
from rlcore_torch.off_policy.transition_batch import AfterEnds

ROWS = 24


def random_batch(trainer: SACTrainer, masked: bool, weighted: bool, seed: int) -> TransitionBatch:
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
