# mypy: allow-untyped-calls
"""Optimizers and schedules of plugins under PPO, which knows nothing of them: names, learning, states."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest
import torch
import yaml

from rlcore import ConfigErrors, Plugins, RunStateError, config_from_mapping, hookimpl, load_plugins, setting
from rlcore_devkit.conformance.loop import learn
from rlcore_devkit.conformance.states import assert_equal, copied
from rlcore_devkit.environments import TinyCorridor
from rlcore_ppo.trainer import PPOTrainer
from rlcore_torch import OptimizerSettings, OptimizerSpec, ScheduleSpec

MakeTrainer = Callable[..., PPOTrainer]
REFUSALS = yaml.safe_load((Path(__file__).parent / "data/refusals.yaml").read_text(encoding="utf-8"))


@attrs.frozen(kw_only=True)
class DecaySettings(OptimizerSettings):
    weight_decay: float = setting(0.1, "Weight decay.", minimum=0.0)


def decaying(parameters: list[Any], learning_rate: float, settings: DecaySettings) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, lr=learning_rate, weight_decay=settings.weight_decay)


def plain(parameters: list[Any], learning_rate: float, settings: OptimizerSettings) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=learning_rate)


def squared(progress: float) -> float:
    return progress**2


class Parts:
    @hookimpl
    def rlcore_optimizers(self) -> list[OptimizerSpec]:
        own = f"{__name__}:DecaySettings"
        return [
            OptimizerSpec(name="decaying", target=f"{__name__}:decaying", settings=own),
            OptimizerSpec(name="plain", target=f"{__name__}:plain", settings="rlcore_torch:OptimizerSettings"),
        ]

    @hookimpl
    def rlcore_schedules(self) -> list[ScheduleSpec]:
        return [ScheduleSpec(name="squared", target=f"{__name__}:squared")]


@pytest.fixture
def plugins() -> Plugins:
    loaded = load_plugins()
    loaded.register(Parts(), "parts")
    return loaded


DECAYING = {"type": "decaying", "weight_decay": 0.05}
SMALL = {"buffer_size": 32, "batch_size": 16}


def made(make_trainer: MakeTrainer, plugins: Plugins, optimizer: Any = DECAYING, **more: Any) -> PPOTrainer:
    return make_trainer(TinyCorridor(2), plugins=plugins, optimizer=optimizer, **{**SMALL, **more})


# ---------------------------------------------------------------- configuration


def configuration(plugins: Plugins, **hyperparameters: Any) -> Any:
    behavior = {"trainer_type": "ppo", "hyperparameters": hyperparameters}
    return config_from_mapping({"behaviors": {"Walker": behavior}}, plugins)


@pytest.mark.parametrize("case", REFUSALS, ids=lambda case: case["problem"])
def test_mistakes_in_a_file_are_found_at_their_place(plugins: Plugins, case: dict[str, Any]) -> None:
    with pytest.raises(ConfigErrors) as refused:
        configuration(plugins, **case["given"])
    (only,) = refused.value.problems
    assert only.path.startswith("behaviors.Walker.hyperparameters.") and case["problem"] in str(only)


# ---------------------------------------------------------------- training


def test_plain_gradient_descent_by_hand(make_trainer: MakeTrainer, plugins: Plugins) -> None:
    """Every step moves the parameters by the clipped gradient times the learning rate of the schedule."""
    schedule = {"learning_rate": 0.1, "learning_rate_schedule": "squared", "max_grad_norm": 0.1}
    trainer = made(make_trainer, plugins, {"type": "plain"}, **schedule)
    by_hand: list[torch.Tensor] = [p.detach().clone() for p in trainer.model.parameters()]
    rates = set()
    step = trainer.optimizer.step

    def checked() -> None:
        progress = (trainer.steps - trainer.hyperparameters.buffer_size) / trainer.settings.max_steps
        rate = (0.1 - 1e-10) * (1.0 - progress**2) + 1e-10
        rates.add(rate)
        for own, p in zip(by_hand, trainer.model.parameters(), strict=True):
            if p.grad is not None:
                own.add_(p.grad, alpha=-rate)
        step()

    trainer.optimizer.step = checked  # type: ignore[method-assign]
    learn(trainer, TinyCorridor(2), 60)
    assert len(rates) > 2
    for own, p in zip(by_hand, trainer.model.parameters(), strict=True):
        assert own.equal(p)


def test_another_optimizer_cannot_resume(make_trainer: MakeTrainer, plugins: Plugins) -> None:
    decayed, adam = (copied(made(make_trainer, plugins, kind).state_dict()) for kind in (DECAYING, None))
    place = "behavior 'Corridor': the checkpoint was saved with hyperparameters.optimizer.type"
    advice = "resume with the optimizer of the checkpoint, or start a new run"
    for kind, state, saved, own in ((None, decayed, "decaying", "adam"), (DECAYING, adam, "adam", "decaying")):
        trainer = made(make_trainer, plugins, kind)
        before = copied(trainer.state_dict())
        with pytest.raises(RunStateError) as refused:
            trainer.load_state_dict(state)
        assert str(refused.value) == f"{place} {saved!r} and this run has {own!r}; {advice}"
        assert_equal(trainer.state_dict(), before)
