# mypy: allow-untyped-calls
"""One gradient step: in pieces as whole, and without waiting for a device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from rlcore_devkit.environments import IdentityEnvironment
from rlcore_ppo.trainer import PPOTrainer
from rlcore_torch import CapturedStep, Loss, Minibatch, cpu, mean_over_rows, model_state
from rlcore_torch.optimization.captured import WARM_UP

MakeTrainer = Callable[..., PPOTrainer]

SPACES: dict[str, dict[str, Any]] = {
    "continuous": {"continuous": 3},
    "hybrid": {"continuous": 2, "discrete": (3, 2)},
}
ROWS = 45


def a_minibatch(trainer: PPOTrainer, rows: int = ROWS, device: str = "cpu") -> Minibatch:
    behavior, generator = trainer.behavior, torch.Generator().manual_seed(3)
    choices = mask = None
    if behavior.discrete:
        choices = torch.stack([torch.randint(n, (rows,), generator=generator) for n in behavior.discrete], dim=1)
        mask = torch.ones(rows, behavior.mask_size, dtype=torch.bool)
        mask[::2, 0] = choices[::2, 0] == 0
    heads = len(trainer.providers)
    minibatch = Minibatch(
        inputs=(torch.randn(rows, trainer.model.inputs.vector_size, generator=generator),),
        raw=torch.randn(rows, behavior.continuous, generator=generator),
        choices=choices,
        mask=mask,
        old_log_prob=torch.randn(rows, generator=generator) - 3.0,
        old_value=torch.randn(rows, heads, generator=generator),
        advantage=torch.randn(rows, generator=generator),
        returns=torch.randn(rows, heads, generator=generator),
    )
    return minibatch.map(lambda x: x.to(device))


def parameters(trainer: PPOTrainer) -> dict[str, Any]:
    return {name: array.copy() for name, array in model_state(trainer.model).items()}


# ---------------------------------------------------------------- in pieces


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("limit", [32 * 44, 32 * 20, 32], ids=["45 rows in 2", "45 rows in 3", "each row alone"])
def test_a_minibatch_in_pieces_moves_the_parameters_as_the_whole_does(
    make_trainer: MakeTrainer, monkeypatch: pytest.MonkeyPatch, space: str, limit: int
) -> None:
    """The network has 32 units."""
    options = {"beta": 0.1, "value_clip": 0.3}
    whole = make_trainer(IdentityEnvironment(3, **SPACES[space]), **options)
    monkeypatch.setattr(cpu, "LARGEST_LAYER", limit)
    cut = make_trainer(IdentityEnvironment(3, **SPACES[space]), **options)
    sizes: list[int] = []
    loss = cut.loss
    monkeypatch.setattr(cut, "loss", mean_over_rows(lambda piece: sizes.append(len(piece.advantage)) or loss(piece)))
    for _ in range(3):
        of_whole, of_cut = (one.minimize(one.loss, a_minibatch(one)) for one in (whole, cut))
        for name in ("total", "policy", "value", "entropy", "log_ratio"):
            np.testing.assert_allclose(getattr(of_cut, name), getattr(of_whole, name), rtol=2e-5, atol=2e-5)
        np.testing.assert_allclose(of_cut.norm, of_whole.norm, rtol=1e-4)
    assert sum(sizes) == 3 * ROWS and max(sizes) <= limit // 32 and max(sizes) - min(sizes) < len(sizes)
    for name, array in parameters(whole).items():
        np.testing.assert_allclose(parameters(cut)[name], array, rtol=1e-4, atol=1e-5)


def test_a_loss_that_is_not_said_to_be_a_mean_sees_whole_minibatches(
    monkeypatch: pytest.MonkeyPatch, make_run: Any
) -> None:
    """A class that overrides PPO's loss does not inherit what PPO says of its own."""
    monkeypatch.setattr(cpu, "LARGEST_LAYER", 32 * 10)
    seen: list[int] = []

    def loss(self: PPOTrainer, batch: Minibatch) -> Loss:
        seen.append(len(batch.advantage))
        return original(self, batch)

    original = PPOTrainer.loss
    monkeypatch.setattr(PPOTrainer, "loss", loss)
    make_run("identity_hybrid", max_steps=256).train()
    assert set(seen) == {64}


# ---------------------------------------------------------------- as a function of tensors


def test_schedules_change_the_tensors_that_a_captured_step_reads(make_trainer: MakeTrainer) -> None:
    schedules = {"epsilon_schedule": "linear", "beta_schedule": "linear"}
    trainer = make_trainer(
        IdentityEnvironment(3, continuous=1), block={"max_steps": 1000}, epsilon=0.3, beta=0.1, **schedules
    )
    read = trainer.clip_range, trainer.entropy_weight
    trainer.rollout_start = 500
    assert trainer.schedules() == {"Policy/Epsilon": pytest.approx(0.2), "Policy/Beta": pytest.approx(0.05, abs=1e-4)}
    assert [each.item() for each in read] == [pytest.approx(0.2), pytest.approx(0.05, abs=1e-4)]


def make(make_trainer: MakeTrainer, space: str, device: str) -> PPOTrainer:
    """A trainer whose network, optimizer and coefficients are on ``device``."""
    trainer = make_trainer(IdentityEnvironment(3, **SPACES[space]), torch_settings={"fast_cpu": False}, beta=0.1)
    trainer.model.to(device)
    trainer.optimizer = trainer.make_optimizer(trainer.model.parameters())
    trainer.clip_range = trainer.clip_range.to(device)
    trainer.entropy_weight = trainer.entropy_weight.to(device)
    return trainer


@pytest.mark.parametrize("space", SPACES)
def test_a_gradient_step_reads_no_value(make_trainer: MakeTrainer, space: str) -> None:
    """Tensors on the device ``meta`` have shapes and no values: what reads one, as ``item()`` does, raises an error."""
    trainer = make(make_trainer, space, "meta")
    loss = trainer.minimize(trainer.loss, a_minibatch(trainer, device="meta"))
    assert loss.norm is not None and loss.total.shape == loss.norm.shape == () and loss.log_ratio.shape == (ROWS,)
    with pytest.raises((RuntimeError, NotImplementedError)):
        loss.total.item()


@pytest.mark.cuda
@pytest.mark.parametrize("space", SPACES)
def test_a_recorded_gradient_step_learns_as_the_plain_one(make_trainer: MakeTrainer, space: str) -> None:
    plain, recording = (
        make_trainer(
            IdentityEnvironment(3, **SPACES[space]), torch_settings={"device": "cuda", "cuda_graphs": graphs}, beta=0.1
        )
        for graphs in (False, True)
    )
    assert isinstance(recording._captured_step(recording.loss), CapturedStep) and not plain._captures
    for clip_range in (0.2,) * (WARM_UP + 3) + (0.05,) * 3:
        losses = []
        for trainer in (plain, recording):
            trainer.clip_range.fill_(clip_range)
            trainer.optimizer.learning_rate = 0.01 * clip_range
            losses.append(trainer.minimize(trainer.loss, a_minibatch(trainer, device="cuda")))
        np.testing.assert_allclose(losses[1].total.cpu(), losses[0].total.cpu(), rtol=1e-5, atol=1e-6)
    for name, array in parameters(plain).items():
        np.testing.assert_allclose(parameters(recording)[name], array, rtol=1e-5, atol=1e-6)
