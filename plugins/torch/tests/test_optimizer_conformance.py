"""An optimizer and schedules that keep the rules pass their tests; a broken rule is noticed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch

from rlcore import Plugins, hookimpl, load_plugins
from rlcore_devkit import OptimizerConformance, ScheduleConformance
from rlcore_torch import OptimizerSpec


class TestLinear(ScheduleConformance):
    schedule = "rlcore-torch/linear"


class TestCosine(ScheduleConformance):
    schedule = "cosine"


def broken_schedules() -> dict[str, tuple[Callable[[float], Any], str]]:
    calls = iter(range(10**6))
    bounds = "test_shares_are_numbers_from_0_to_1"
    alone = "test_a_share_depends_on_the_progress_alone"
    return {
        "leaves the bounds": (lambda progress: 1.5 * progress, bounds),
        "counts its calls": (lambda progress: next(calls) / 10**6, alone),
    }


@pytest.mark.parametrize("name", broken_schedules())
def test_a_broken_schedule_is_noticed(name: str) -> None:
    function, rule = broken_schedules()[name]

    class Conformance(ScheduleConformance):
        def make(self) -> Callable[[float], float]:
            return function

    with pytest.raises(AssertionError):
        getattr(Conformance(), rule)()


# ---------------------------------------------------------------- optimizers


class TestAdamW(OptimizerConformance):
    optimizer = "rlcore-torch/adamw"
    settings: ClassVar[dict[str, Any]] = {"weight_decay": 0.1, "beta1": 0.5}


class TestRAdam(OptimizerConformance):
    optimizer = "rlcore-torch/radam"


class Momentum(torch.optim.SGD):
    def __init__(self, parameters: list[Any], learning_rate: float, settings: Any) -> None:
        super().__init__(parameters, lr=learning_rate, momentum=0.9)


class Registered(OptimizerConformance):
    optimizer = "acme"
    target = Momentum

    def plugins(self) -> Plugins:
        target = f"{__name__}:{type(self).target.__name__}"

        class Acme:
            @hookimpl
            def rlcore_optimizers(self) -> list[OptimizerSpec]:
                settings = "rlcore_torch:OptimizerSettings"
                return [OptimizerSpec(name="acme", target=target, settings=settings, summary="s")]

        plugins = load_plugins()
        plugins.register(Acme(), "acme")
        return plugins


class TestMomentum(Registered):
    pass


class Broken(Momentum):
    steps = 0

    def parameters(self) -> list[Any]:
        return [p for group in self.param_groups for p in group["params"]]

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        self.steps += 1
        self.before()
        super().step()
        with torch.no_grad():
            self.after()

    def before(self) -> None:
        """Break a rule."""

    def after(self) -> None:
        """Break a rule."""


class Climbs(Broken):
    def before(self) -> None:
        for p in self.parameters():
            if p.grad is not None:
                p.grad.neg_()


class DecaysEverything(Broken):
    def after(self) -> None:
        for p in self.parameters():
            p.mul_(0.999)


class KeepsItsRate(Broken):
    def before(self) -> None:
        for group in self.param_groups:
            group["lr"] = self.defaults["lr"]


class Draws(Broken):
    def after(self) -> None:
        for p in self.parameters():
            p.add_(1e-3 * torch.randn_like(p))


class CountsOutsideItsState(Broken):
    def before(self) -> None:
        for group in self.param_groups:
            group["momentum"] = 0.9 / self.steps


@pytest.mark.parametrize(
    ("broken", "rule"),
    [
        (Climbs, "test_steps_come_nearer_to_a_minimum"),
        (DecaysEverything, "test_every_parameter_with_a_gradient_is_changed_and_no_other_one"),
        (KeepsItsRate, "test_obeys_the_learning_rate_of_a_schedule"),
        (Draws, "test_equal_gradients_give_equal_steps_and_no_random_numbers_are_drawn"),
        (CountsOutsideItsState, "test_goes_on_from_its_state_as_if_never_stopped"),
    ],
)
def test_a_broken_optimizer_is_noticed(tmp_path: Path, broken: type[Momentum], rule: str) -> None:
    conformance: Any = type("Conformance", (Registered,), {"target": broken})()
    conformance.directory = tmp_path
    with pytest.raises(AssertionError):
        getattr(conformance, rule)(*((7,) if "goes_on" in rule else ()))
