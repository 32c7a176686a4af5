"""Optimizers of plugins beside PyTorch's own, driven by hand; their states across checkpoints; mistakes of plugins."""

# mypy: allow-untyped-calls
from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from rlcore import PluginError, RunStateError
from rlcore_devkit.conformance.states import assert_equal, check_storable, copied
from rlcore_torch import OptimizerSettings, OptimizerSpec
from rlcore_torch.optimization.plugin_optimizer import PluginOptimizer

Make = Callable[..., Any]  # of parameters, learning_rate and settings
AcmeOptimizer = Callable[..., PluginOptimizer]

SPEC = OptimizerSpec(name="acme", target="acme_optimizer:make", settings="rlcore_torch:OptimizerSettings")


@pytest.fixture
def acme(monkeypatch: pytest.MonkeyPatch) -> AcmeOptimizer:
    """``acme(make, model, rate)``: the optimizer of a plugin whose target is ``make``."""
    module = ModuleType("acme_optimizer")
    monkeypatch.setitem(sys.modules, "acme_optimizer", module)

    def optimizer(make: Make, model: nn.Module, rate: float = 0.01) -> PluginOptimizer:
        module.make = make  # type: ignore[attr-defined]
        return PluginOptimizer(SPEC, OptimizerSettings(type="acme"), list(model.parameters()), rate)

    return optimizer


def torch_class(name: str, **options: Any) -> Make:
    def make(parameters: list[nn.Parameter], learning_rate: float, settings: OptimizerSettings) -> Any:
        assert settings.type == "acme"
        return getattr(torch.optim, name)(parameters, lr=learning_rate, **options)

    return make


def in_groups(parameters: list[nn.Parameter], learning_rate: float, settings: OptimizerSettings) -> Any:
    """AdamW that does not decay biases, with the groups in another order than the parameters."""
    biases = [p for p in parameters if p.ndim < 2]
    weights = [p for p in parameters if p.ndim > 1]
    groups = [{"params": biases, "weight_decay": 0.0}, {"params": weights, "weight_decay": 0.1}]
    return torch.optim.AdamW(groups, lr=learning_rate)


class Counting(torch.optim.SGD):
    """Changes an option of its group at every step, and keeps values of several types from the third step on."""

    def step(self, closure: Any = None) -> Any:
        super().step(closure)
        for group in self.param_groups:
            group["count"] = group.get("count", 0) + 1
            group["momentum"] = 0.9 - 0.1 / group["count"]
            if group["count"] >= 3:
                for p in group["params"]:
                    self.state[p] |= {"since": group["count"], "nothing": None, "late": p.detach().double()}
                    self.state[p] |= {"count": torch.tensor(3), "positive": p.detach() > 0}
        return None


def counting(parameters: list[nn.Parameter], learning_rate: float, settings: OptimizerSettings) -> Any:
    return Counting(parameters, lr=learning_rate, momentum=0.5)


KINDS: dict[str, Make] = {
    "adamw": torch_class("AdamW", weight_decay=0.1),
    "adamw in groups": in_groups,
    "plain sgd": torch_class("SGD"),
    "momentum": torch_class("SGD", momentum=0.9, nesterov=True),
    "rmsprop": torch_class("RMSprop", momentum=0.5, centered=True),
    "adagrad": torch_class("Adagrad"),
    "adafactor": torch_class("Adafactor"),
    "counting": counting,
}
EVERY = pytest.mark.parametrize("kind", KINDS)


class Model(nn.Module):
    """Two layers, and a scalar and a layer that get no gradient."""

    def __init__(self, width: int = 5) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.Sequential(nn.Linear(3, width), nn.Tanh(), nn.Linear(width, 2))
        self.log_temperature = nn.Parameter(torch.zeros(()))
        self.unused = nn.Linear(2, 2)


def gradient(model: Model, step: int) -> None:
    x = torch.randn(8, 3, generator=torch.Generator().manual_seed(step))
    (model.layers(x).square().sum() + model.log_temperature.exp()).backward()


def learn(optimizer: PluginOptimizer, model: Model, first: int, steps: int = 5) -> None:
    for step in range(first, first + steps):
        optimizer.zero_grad()
        gradient(model, step)
        optimizer.clip_grad_norm(0.5)
        optimizer.step()


def same(ours: nn.Module, theirs: nn.Module) -> bool:
    return all(mine.equal(other) for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True))


@EVERY
@pytest.mark.parametrize("steps", [0, 1, 5])
def test_a_saved_optimizer_continues_bit_for_bit(acme: AcmeOptimizer, kind: str, steps: int) -> None:
    whole = Model()
    restored = Model()
    ours = acme(KINDS[kind], whole)
    learn(ours, whole, 0, steps)
    state = ours.state_dict()
    check_storable(state)
    other = acme(KINDS[kind], restored)
    learn(other, restored, 90, 3)  # what it learned before does not remain
    restored.load_state_dict(whole.state_dict())
    other.load_state_dict(copied(state))
    assert_equal(other.state_dict(), state)
    learn(ours, whole, 5)
    learn(other, restored, 5)
    assert same(whole, restored)
    assert_equal(other.state_dict(), ours.state_dict())


def test_a_gradient_written_by_hand_may_be_transposed(acme: AcmeOptimizer) -> None:
    """PyTorch's fused kernels take numbers in the order of memory; autograd's gradients have the parameter's."""
    weights = {}
    for transposed in (False, True):
        model = Model()
        optimizer = acme(torch_class("AdamW", fused=True), model)
        for step in range(3):
            optimizer.zero_grad()
            gradient(model, step)
            if transposed:
                for p in model.layers.parameters():
                    assert p.grad is not None
                    p.grad = p.grad.T.contiguous().T if p.ndim == 2 else p.grad
            optimizer.step()
        weights[transposed] = model
    assert same(weights[True], weights[False])


# ---------------------------------------------------------------- states that do not fit


def spoiled(name: str, value: Any) -> Callable[[dict[str, Any]], None]:
    return lambda state: state["parameters"]["1"].update({name: value})


@pytest.mark.parametrize(
    ("spoil", "problem"),
    [
        (spoiled("exp_avg", np.zeros((4, 3), np.float32)), r"exp_avg of parameter 1 is an array of float32"),
        (lambda state: state["parameters"]["1"].pop("exp_avg"), "has no exp_avg of parameter 1"),
        (spoiled("exp_avg", np.full((5, 3), np.nan, np.float32)), "exp_avg of parameter 1 is not finite"),
        (lambda state: state["parameters"].update({"9": {}}), "has a parameter 9 and this run's only 7"),
        (lambda state: state["groups"].update({"0": {"betas": [0.9]}}), r"betas of group 0 is \[0.9\]"),
        (lambda state: state.pop("groups"), "'groups' is missing"),
    ],
)
def test_a_state_that_does_not_fit_is_refused_and_nothing_changes(
    acme: AcmeOptimizer, spoil: Callable[[dict[str, Any]], None], problem: str
) -> None:
    model = Model()
    optimizer = acme(KINDS["adamw"], model)
    learn(optimizer, model, 0)
    before = copied(optimizer.state_dict())
    learn(optimizer, model, 5)
    after = copied(optimizer.state_dict())
    spoil(before)
    with pytest.raises(RunStateError, match=problem):
        optimizer.load_state_dict(before)
    assert_equal(optimizer.state_dict(), after)


# ---------------------------------------------------------------- mistakes of plugins


class ListKeeper(torch.optim.SGD):
    def step(self, closure: Any = None) -> Any:
        for group in self.param_groups:
            for p in group["params"]:
                self.state[p]["history"] = [1.0]


def raising(parameters: list[nn.Parameter], learning_rate: float, settings: OptimizerSettings) -> Any:
    raise ValueError("momentum 3 is too large")


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda parameters, learning_rate, settings: parameters, "returned a list, not a torch.optim.Optimizer"),
        (
            lambda parameters, learning_rate, settings: torch.optim.SGD(parameters[:5]),
            "returned an optimizer with 5 of the 7 parameters it was given and 0 others; its groups must have each",
        ),
        (raising, "failed in OptimizerSpec.target: ValueError: momentum 3 is too large"),
        (torch_class("LBFGS"), "failed in a step on copies of the parameters, with gradients of 0: TypeError"),
        (
            lambda parameters, learning_rate, settings: ListKeeper(parameters),
            "keeps a list as 'history'; a checkpoint has only tensors and numbers",
        ),
    ],
)
def test_mistakes_are_blamed_on_the_plugin_when_the_optimizer_is_created(
    acme: AcmeOptimizer, make: Make, problem: str
) -> None:
    with pytest.raises(PluginError) as refused:
        acme(make, Model())
    assert str(refused.value).startswith("optimizer 'acme'") and problem in str(refused.value)


def test_a_step_that_fails_is_blamed_on_the_plugin(acme: AcmeOptimizer) -> None:
    model = Model()
    optimizer = acme(KINDS["momentum"], model)
    learn(optimizer, model, 0, 1)
    optimizer._optimizer.state[model.log_temperature]["momentum_buffer"] = torch.zeros(3, 3)
    with pytest.raises(PluginError, match="optimizer 'acme' failed in step: RuntimeError"):
        learn(optimizer, model, 1, 1)
