"""Tests of the plugin and the trainer. They need `rlcore-torch`, pytest, and this package installed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rlcore import EpisodeSeeds
from rlcore_devkit import IdentityEnvironment, PluginConformance, SmallTrainings, TrainerConformance
from rlcore_tqc.trainer import quantile_huber


class TestPlugin(PluginConformance):
    plugin = "rlcore-tqc/tqc"


class TestTQC(TrainerConformance):
    trainer = "rlcore-tqc/tqc"
    hyperparameters = {
        "batch_size": 32,
        "buffer_size": 5000,
        "learning_rate": 3e-3,
        "num_critics": 2,
        "steps_per_update": 4,
        "save_replay_buffer": True,
    }
    settings = {"network_settings": {"hidden_units": 32, "num_layers": 1}}
    steps = 60
    learns_within = 4000


# ---------------------------------------------------------------- one gradient step


def made(tmp_path: Path, **hyperparameters: Any) -> Any:
    """A trainer of two continuous parts after 20 environment steps of four agents."""
    environment = IdentityEnvironment(4, continuous=2)
    settings = {"batch_size": 16, "num_critics": 3, "num_quantiles": 5, **hyperparameters}
    trainings = SmallTrainings("rlcore-tqc/tqc", tmp_path, settings, {"hidden_units": 8, "num_layers": 1})
    trainer: Any = trainings.trainer(environment)
    [name] = environment.behaviors
    batch = environment.reset(EpisodeSeeds(1), np.zeros(4, np.int64))[name]
    trainer.begin(batch)
    for _ in range(20):
        actions = trainer.act(batch)
        batch = environment.step({name: actions})[name]
        trainer.observe(actions, batch)
    return trainer


@pytest.mark.parametrize("dropped", [0, 2, 4])
def test_targets_are_the_smallest_quantiles_of_all_critics_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dropped: int
) -> None:
    trainer = made(tmp_path, dropped_quantiles=dropped)
    batch = trainer.reader.read(np.arange(16))
    generator = np.random.default_rng(1)
    predicted = generator.normal(size=(16, 1, 3, 5)).astype(np.float32)  # [B, R, N, M]
    log_prob = generator.normal(size=16).astype(np.float32)
    monkeypatch.setattr(trainer.model, "quantiles", lambda *_: torch.from_numpy(predicted))
    monkeypatch.setattr(trainer.model, "draw", lambda *_: (None, torch.from_numpy(log_prob)))
    trainer.model.log_temperature.data.fill_(np.log(0.3))
    for row, found in enumerate(trainer.target(batch)[:, 0].numpy()):
        smallest = sorted(predicted[row].ravel().tolist())[: 15 - 3 * dropped]
        discount = batch.discount[row, 0].item()
        expected = [batch.reward[row, 0].item() + discount * (z - 0.3 * log_prob[row]) for z in smallest]
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_the_loss_is_that_of_quantile_regression() -> None:
    """Each pair of a quantile and a sample by itself."""
    generator = np.random.default_rng(2)
    quantiles = generator.normal(0, 2, (4, 2, 3, 5))
    samples = generator.normal(0, 2, (4, 2, 7))
    found = quantile_huber(torch.from_numpy(quantiles), torch.from_numpy(samples)).numpy()
    for row in range(4):
        for reward in range(2):
            terms = []
            for critic in range(3):
                for m in range(5):
                    for sample in samples[row, reward]:
                        error = sample - quantiles[row, reward, critic, m]
                        huber = 0.5 * error**2 if abs(error) <= 1 else abs(error) - 0.5
                        terms.append(abs((m + 0.5) / 5 - (error < 0)) * huber)
            assert found[row, reward] == pytest.approx(np.mean(terms), rel=1e-6)


def test_quantiles_become_those_of_the_samples() -> None:
    """The median of the loss's minimum is the median of the samples, the first quantile their tenth part."""
    samples = torch.linspace(0.0, 100.0, 201).view(1, 1, -1)
    quantiles = torch.zeros(1, 1, 1, 5, requires_grad=True)
    optimizer = torch.optim.Adam([quantiles], lr=2.0)
    for _ in range(300):
        optimizer.zero_grad()
        quantile_huber(quantiles, samples).sum().backward()
        optimizer.step()
    np.testing.assert_allclose(quantiles.detach().flatten(), [10, 30, 50, 70, 90], atol=1.0)


def test_target_critics_follow_and_the_temperature_learns(tmp_path: Path) -> None:
    trainer = made(tmp_path, tau=0.25)
    before = {name: tensor.clone() for name, tensor in trainer.model.state_dict().items()}
    step = trainer.gradient_step(trainer.reader.read(np.arange(16)))
    after = trainer.model.state_dict()
    for name in (name for name in before if name.startswith("targets.")):
        critic = after[name.replace("targets", "critics")]
        np.testing.assert_allclose(after[name], 0.75 * before[name] + 0.25 * critic, rtol=1e-5, atol=1e-7)
    lower = after["log_temperature"] < before["log_temperature"]
    assert lower == (step.stats["Policy/Entropy"] > -2.0)


def test_too_many_dropped_quantiles_are_refused(tmp_path: Path) -> None:
    with pytest.raises(Exception, match=r"dropped_quantiles: must be below num_quantiles \(5\), not 5"):
        made(tmp_path, dropped_quantiles=5)
