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
from rlcore_torch import OptimizerSettings, OptimizerSpec, PluginOptimizer, ScheduleSpec

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


ADAMW = {"weight_decay": 0.1, "beta1": 0.5, "beta2": 0.9, "epsilon": 1e-4}
RADAM = {"beta1": 0.8, "epsilon": 1e-4}
BY_HAND: dict[str, Callable[[list[Any], list[Any]], torch.optim.Optimizer]] = {
    "adam": lambda weights, others: torch.optim.Adam([*weights, *others], 0.01, (0.5, 0.9), 1e-5),
    "adamw": lambda weights, others: torch.optim.AdamW(
        [{"params": weights, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}], 0.01, (0.5, 0.9), 1e-4
    ),
    "radam": lambda weights, others: torch.optim.RAdam([*weights, *others], 0.01, (0.8, 0.999), 1e-4),
}
OF_FILE = {"adam": {"beta1": 0.5, "beta2": 0.9}, "adamw": ADAMW, "radam": RADAM}


@pytest.mark.parametrize("kind", BY_HAND)
def test_a_file_chooses_adam_and_its_relatives_with_their_settings(
    make_trainer: MakeTrainer, plugins: Plugins, kind: str
) -> None:
    """Beside PyTorch's own, with one operation for each parameter; only matrices decay."""
    trainer = made(make_trainer, plugins, {"type": kind, **OF_FILE[kind]}, learning_rate=0.01)
    copies = [p.detach().clone().requires_grad_() for p in trainer.model.parameters()]
    by_hand = BY_HAND[kind]([p for p in copies if p.ndim > 1], [p for p in copies if p.ndim < 2])
    step = trainer.optimizer.step

    def both() -> None:
        for group in by_hand.param_groups:
            group["lr"] = trainer.optimizer.learning_rate
        for own, p in zip(copies, trainer.model.parameters(), strict=True):
            own.grad = None if p.grad is None else p.grad.clone()
        by_hand.step()
        step()

    trainer.optimizer.step = both  # type: ignore[method-assign]
    learn(trainer, TinyCorridor(2), 150)
    for own, p in zip(copies, trainer.model.parameters(), strict=True):
        torch.testing.assert_close(own, p, rtol=1e-4, atol=1e-5)


def test_a_part_has_the_betas_and_the_decay_of_its_algorithm_until_a_file_chooses(
    make_trainer: MakeTrainer, plugins: Plugins
) -> None:
    trainer = made(make_trainer, plugins, None)
    parameters = list(trainer.model.parameters())
    adam = trainer.make_optimizer(parameters, betas=(0.5, 0.999))
    assert adam.type == "adam" and adam.state_dict()["betas"].tolist() == [0.5, 0.999]
    decaying = trainer.make_optimizer(parameters, 1e-3, betas=(0.5, 0.999), weight_decay=0.01)
    assert isinstance(decaying, PluginOptimizer) and decaying.type == "adamw"
    matrices, others = decaying._optimizer.param_groups
    assert matrices["betas"] == (0.5, 0.999) and (matrices["weight_decay"], others["weight_decay"]) == (0.01, 0.0)
    assert matrices["eps"] == trainer.hyperparameters.adam_epsilon
    chosen = made(make_trainer, plugins, {"type": "adam"})
    adam = chosen.make_optimizer(list(chosen.model.parameters()), betas=(0.5, 0.999), weight_decay=0.01)
    assert adam.type == "adam" and "betas" not in adam.state_dict()


def test_a_schedule_ends_at_the_final_learning_rate(make_trainer: MakeTrainer, plugins: Plugins) -> None:
    schedule = {"learning_rate": 1e-3, "final_learning_rate": 1e-4, "learning_rate_schedule": "linear"}
    trainer = made(make_trainer, plugins, None, **schedule)
    last = trainer.settings.max_steps
    rates = [trainer.learning_rate(step) for step in (0, last // 2, last, 2 * last)]
    assert rates == pytest.approx([1e-3, 5.5e-4, 1e-4, 1e-4])
    assert made(make_trainer, plugins, None, learning_rate_schedule="linear").learning_rate(last) == 1e-10


def test_betas_of_another_run_cannot_resume(make_trainer: MakeTrainer, plugins: Plugins) -> None:
    for kind in ("adam", "adamw", "radam"):
        state = copied(made(make_trainer, plugins, {"type": kind, "beta1": 0.5}).state_dict())
        made(make_trainer, plugins, {"type": kind, "beta1": 0.5}).load_state_dict(state)
        other = made(make_trainer, plugins, {"type": kind})
        with pytest.raises(RunStateError, match=r"has betas \(0\.5, 0\.999\) and this run's \(0\.9, 0\.999\)"):
            other.load_state_dict(state)


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
