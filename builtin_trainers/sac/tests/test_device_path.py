# mypy: allow-untyped-calls
"""A gradient step is a function of tensors: it reads no value, and each of its losses is one graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from rlcore_devkit.environments import IdentityEnvironment
from rlcore_sac.trainer import SACTrainer, StepNoise
from rlcore_torch import CapturedStep, StepsBetween, TransitionBatch
from rlcore_torch.optimization.captured import WARM_UP

MakeTrainer = Callable[..., SACTrainer]

ROWS = 20
SPACES: dict[str, dict[str, Any]] = {
    "continuous": {"continuous": 3},
    "discrete": {"discrete": (3, 2)},
    "hybrid": {"continuous": 2, "discrete": (3,)},
}


def make(make_trainer: MakeTrainer, space: str, device: str = "cpu") -> SACTrainer:
    """A trainer whose network and optimizers are on ``device``."""
    trainer = make_trainer(IdentityEnvironment(3, **SPACES[space]), torch_settings={"fast_cpu": False}, n_steps=2)
    trainer.model.to(device)
    trainer.optimizers = trainer.build_optimizers()
    trainer._options = trainer._options.to(device)
    return trainer


def a_batch(trainer: SACTrainer, device: str = "cpu") -> tuple[TransitionBatch, StepNoise]:
    generator = torch.Generator().manual_seed(4)
    continuous, branches = trainer.behavior.continuous, trainer.behavior.discrete
    width, heads = trainer.model.inputs.vector_size, len(trainer.providers)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator).to(device)

    def mask() -> Tensor | None:
        if not branches:
            return None
        allowed = torch.ones(ROWS, trainer.behavior.mask_size, dtype=torch.bool, device=device)
        allowed[:5, 0] = False
        return allowed

    def noise() -> Tensor | None:
        return normal(ROWS, continuous) if continuous else None

    choices = [torch.randint(size, (ROWS,), generator=generator) for size in branches]
    batch = TransitionBatch(
        inputs=(normal(ROWS, width),),
        next_inputs=(normal(ROWS, width),),
        raw=normal(ROWS, continuous).tanh() if continuous else None,
        choices=torch.stack(choices, dim=1).to(device) if branches else None,
        mask=mask(),
        next_mask=mask(),
        reward=normal(ROWS, heads),
        discount=torch.full((ROWS, heads), 0.9, device=device),
        weight=normal(ROWS).abs(),
        between=StepsBetween((normal(ROWS, width),), mask(), torch.full((1, ROWS, heads), 0.9, device=device)),
    )
    return batch, StepNoise(noise(), noise(), noise())


@pytest.mark.parametrize("space", SPACES)
def test_a_gradient_step_reads_no_value(make_trainer: MakeTrainer, space: str) -> None:
    """Tensors on the device ``meta`` have shapes and no values: what reads one, as ``item()`` does, raises an error."""
    trainer = make(make_trainer, space, "meta")
    taken = trainer.step(*a_batch(trainer, "meta"))
    assert all(value.shape == () for value in taken.stats.values())
    assert taken.td_error is not None and taken.td_error.shape == (ROWS,)
    with pytest.raises((RuntimeError, NotImplementedError)):
        taken.td_error[0].item()


@pytest.mark.cuda
@pytest.mark.parametrize("space", SPACES)
def test_a_recorded_gradient_step_learns_as_the_plain_one(make_trainer: MakeTrainer, space: str) -> None:
    plain, recording = (
        make_trainer(
            IdentityEnvironment(3, **SPACES[space]), torch_settings={"device": "cuda", "cuda_graphs": graphs}, n_steps=2
        )
        for graphs in (False, True)
    )
    assert isinstance(recording._step, CapturedStep) and not isinstance(plain._step, CapturedStep)
    for rate in (3e-4,) * (WARM_UP + 3) + (1e-3,) * 3:
        stats = []
        for trainer in (plain, recording):
            for optimizer in trainer.optimizers.values():
                optimizer.learning_rate = rate
            stats.append(trainer._step(*a_batch(trainer, "cuda")).stats)
        assert stats[0].keys() == stats[1].keys()
        for name, value in stats[0].items():
            np.testing.assert_allclose(stats[1][name].cpu(), value.cpu(), rtol=1e-5, atol=1e-6)
