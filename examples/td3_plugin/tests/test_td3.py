"""Tests of the plugin and the trainer. They need `rlcore[torch]`, pytest, and this package installed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rlcore import EpisodeSeeds
from rlcore_devkit import IdentityEnvironment, PluginConformance, SmallTrainings, TrainerConformance


class TestPlugin(PluginConformance):
    plugin = "rlcore-td3/td3"


class TestTD3(TrainerConformance):
    trainer = "td3"
    hyperparameters = {
        "batch_size": 32,
        "buffer_size": 5000,
        "learning_rate": 3e-3,
        "save_replay_buffer": True,
    }
    learns_within = 4000


# ---------------------------------------------------------------- one gradient step


def made(tmp_path: Path, steps: int, **hyperparameters: Any) -> Any:
    """A trainer of two continuous parts after ``steps`` environment steps of four agents."""
    environment = IdentityEnvironment(4, continuous=2)
    network = {"hidden_units": 8, "num_layers": 1, "activation": "relu"}
    trainings = SmallTrainings("td3", tmp_path, {"batch_size": 16, **hyperparameters}, network)
    trainer = trainings.trainer(environment)
    [name] = environment.behaviors
    batch = environment.reset(EpisodeSeeds(1), np.zeros(4, np.int64))[name]
    trainer.begin(batch)
    for _ in range(steps):
        actions = trainer.act(batch)
        batch = environment.step({name: actions})[name]
        trainer.observe(actions, batch)
    return trainer


def network(state: dict[str, Any], body: str, head: str, *inputs: Any) -> Any:
    """A hidden layer with relu and a head, in NumPy."""
    x = np.concatenate([np.asarray(each, np.float64) for each in inputs], axis=1)
    hidden = np.maximum(x @ state[f"{body}.layers.0.weight"].T + state[f"{body}.layers.0.bias"], 0.0)
    return hidden @ state[f"{head}.weight"].T + state[f"{head}.bias"]


def test_critics_learn_the_smaller_value_of_the_target_networks(tmp_path: Path) -> None:
    """Algorithm 1 without noise, calculated in NumPy."""
    trainer = made(tmp_path, 20, target_noise=0.0)
    state = {name: array.numpy().astype(np.float64) for name, array in trainer.model.state_dict().items()}
    batch = trainer.reader.read(np.arange(16))
    now, then = batch.inputs[0], batch.next_inputs[0]
    action = np.tanh(network(state, "target.actor", "target.policy_head.linear", then)[:, :2])
    target_values = [
        network(state, f"target.critics.{k}.body", f"target.critics.{k}.head", then, action) for k in (0, 1)
    ]
    target = batch.reward.numpy() + batch.discount.numpy() * np.minimum(*target_values)
    values = [network(state, f"critics.{k}.body", f"critics.{k}.head", now, batch.raw) for k in (0, 1)]
    expected = sum(np.mean((value - target) ** 2) for value in values)
    step = trainer.gradient_step(batch)
    assert step.stats["Losses/Critic Loss"].item() == pytest.approx(expected, rel=1e-4)
    np.testing.assert_allclose(step.td_error, (values[0] - target)[:, 0], rtol=1e-4, atol=1e-5)


def test_noise_on_target_actions_is_clipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = made(tmp_path, 20, target_noise=100.0, target_noise_clip=0.25)
    seen = []
    monkeypatch.setattr(trainer.model.target.critics[0], "forward", lambda _, a: seen.append(a) or torch.zeros(16, 1))
    batch = trainer.reader.read(np.arange(16))
    trainer.gradient_step(batch)
    distance = (seen[0] - trainer.model.target.action(batch.next_inputs)).abs()
    assert distance.max().item() == pytest.approx(0.25, abs=1e-6) and seen[0].abs().max() <= 1.0


@pytest.mark.parametrize("delay", [1, 2, 3])
def test_actor_and_targets_move_once_per_delay(tmp_path: Path, delay: int) -> None:
    trainer = made(tmp_path, 20, actor_delay=delay)
    moves = []
    for _ in range(6):
        before = {name: tensor.clone() for name, tensor in trainer.model.state_dict().items()}
        step = trainer.gradient_step(trainer.reader.read(np.arange(16)))
        trainer.gradient_steps += 1
        after = trainer.model.state_dict()
        moved = {name.split(".")[0] for name in before if not torch.equal(before[name], after[name])}
        assert "critics" in moved and ("actor" in moved) == ("target" in moved) == ("Losses/Policy Loss" in step.stats)
        moves.append("actor" in moved)
    assert moves == [(k + 1) % delay == 0 for k in range(6)]


def test_an_update_reports_the_policy_loss_of_the_steps_that_moved_the_actor(tmp_path: Path) -> None:
    trainer = made(tmp_path, 20, batch_size=16, steps_per_update=1, actor_delay=3)
    stats = trainer.update()
    assert trainer.gradient_steps > 3 and np.isfinite(stats["Losses/Policy Loss"])


def test_draws_of_the_policy_are_its_mean_after_training_too(tmp_path: Path) -> None:
    trainer = made(tmp_path, 40)
    trainer.update()
    observations = {"reals": np.linspace(-1, 1, 10, dtype=np.float32).reshape(5, 2)}
    drawn = trainer.policy.act(observations, deterministic=False).continuous
    np.testing.assert_allclose(drawn, trainer.policy.act(observations).continuous, atol=1e-6)
