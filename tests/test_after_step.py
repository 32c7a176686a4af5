"""``after_step``: what a trainer does with its weights after each step of an optimizer, and before the first one."""

# mypy: allow-untyped-calls
from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from recorded import recorded

from rlcore_devkit import SmallTrainings
from rlcore_devkit.conformance.loop import learn
from rlcore_devkit.conformance.states import assert_equal, copied
from rlcore_devkit.environments import identity_continuous
from rlcore_ppo.trainer import PPOTrainer
from rlcore_sac.trainer import SACTrainer

MakeTrainer = Callable[..., Any]


class UnitSAC(SACTrainer):
    """Keeps the norm of the weights of the policy's head at 1."""

    def after_step(self, name: str) -> None:
        assert not torch.is_grad_enabled()
        calls(self)[name] += 1
        if name == "policy":
            weight = self.model.policy_head.linear.weight
            weight.copy_(weight / weight.norm())


class UnitPPO(PPOTrainer):
    def after_step(self, name: str) -> None:
        calls(self)[name] += 1


def calls(trainer: Any) -> Counter[str]:
    """How often ``after_step`` was called with each name; begun where it is first called, in the constructor."""
    counter: Counter[str] = trainer.__dict__.setdefault("calls", Counter())
    return counter


def norm(trainer: Any) -> float:
    return float(trainer.model.policy_head.linear.weight.detach().norm())


@pytest.fixture
def make_trainer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MakeTrainer:
    monkeypatch.setattr("rlcore_sac.trainer.SACTrainer", UnitSAC)
    monkeypatch.setattr("rlcore_ppo.trainer.PPOTrainer", UnitPPO)

    def make(name: str, seed: int = 1, **block: Any) -> Any:
        small = {"batch_size": 16, "buffer_size": 64, "learning_rate": 0.05}
        return SmallTrainings(name, tmp_path, small, {"hidden_units": 8}).trainer(
            identity_continuous(4), seed=seed, block=block
        )

    return make


def test_weights_are_changed_at_the_start_and_after_every_step(make_trainer: MakeTrainer) -> None:
    trainer = make_trainer("sac")
    assert calls(trainer) == dict.fromkeys(trainer.optimizers, 1) and norm(trainer) == pytest.approx(1.0)
    before = copied(trainer.state_dict()["model"])
    learn(trainer, identity_continuous(4), 30)
    assert trainer.gradient_steps > 20
    assert calls(trainer) == dict.fromkeys(trainer.optimizers, 1 + trainer.gradient_steps)
    assert norm(trainer) == pytest.approx(1.0, rel=1e-6)
    after = trainer.state_dict()["model"]
    assert any((before[name] != after[name]).any() for name in before)


def test_loaded_weights_are_changed_and_those_of_a_checkpoint_are_not(make_trainer: MakeTrainer) -> None:
    trainer = make_trainer("sac")
    weights = copied(trainer.state_dict()["model"])
    weights["policy_head.linear.weight"] = weights["policy_head.linear.weight"] * 3.0
    trainer.load_model(weights)
    assert norm(trainer) == pytest.approx(1.0)
    learn(trainer, identity_continuous(4), 10)
    saved = copied(trainer.state_dict())
    saved["model"]["policy_head.linear.weight"] = saved["model"]["policy_head.linear.weight"] * 3.0
    other = make_trainer("sac", seed=2)
    other.load_state_dict(saved)
    assert_equal(copied(other.state_dict()["model"]), saved["model"])


def test_imitation_is_followed_too(make_trainer: MakeTrainer, tmp_path: Path) -> None:
    environment = identity_continuous(4)
    demo = recorded(tmp_path / "recorded" / "Identity", environment, 60)
    imitating = make_trainer("sac", behavioral_cloning={"demo_path": demo})
    learn(imitating, environment, 20)
    trainer = imitating.trainer
    steps = trainer.gradient_steps
    assert calls(trainer)["critic_0"] == 1 + steps
    assert calls(trainer)["policy"] > 1 + 2 * steps > 1
    assert norm(trainer) == pytest.approx(1.0, rel=1e-6)


def test_the_only_optimizer_of_rollouts_is_followed(make_trainer: MakeTrainer) -> None:
    trainer = make_trainer("ppo")
    assert calls(trainer) == {"optimizer": 1}
    learn(trainer, identity_continuous(4), 40)
    passes = trainer.hyperparameters.num_epoch * 64 // 16
    assert calls(trainer)["optimizer"] == 1 + passes * (40 * 4 // 64)


def test_a_trainer_without_it_has_its_optimizers_as_they_are(tmp_path: Path) -> None:
    trainer: Any = SmallTrainings("sac", tmp_path, {}, {}).trainer(identity_continuous(2))
    for optimizer in trainer.optimizers.values():
        assert "step" not in vars(optimizer) and optimizer.after_step is None
