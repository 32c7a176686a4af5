"""``torch_settings.fast_cpu``: every trainer learns the same without rlcore's own CPU code, in plain PyTorch."""

# mypy: allow-untyped-calls
from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from recorded import recorded
from small_runs import data
from torch import Tensor

from rlcore import Environment
from rlcore_devkit import SmallTrainings
from rlcore_devkit.conformance.states import assert_equal, copied
from rlcore_devkit.conformance.trainer import learn
from rlcore_devkit.environments import ImageIdentity, TinyCorridor, identity_continuous, identity_hybrid
from rlcore_torch import Minibatch, TorchAdam, backend, template
from rlcore_torch.cpu import FlatAdam, fused_dense
from rlcore_torch.networks.networks import dense

HYPERPARAMETERS: Mapping[str, Mapping[str, Any]] = data("fast_cpu")
ENVIRONMENTS: Mapping[str, Callable[[], Environment]] = {
    "continuous": lambda: identity_continuous(4),
    "masked": lambda: TinyCorridor(4, masked=True),
    "hybrid": lambda: identity_hybrid(4),
    "image": lambda: ImageIdentity(4, height=20, width=20),
}
OFFLINE = ("bc", "iql")
ACTIVATIONS = {"ppo": "tanh", "sac": "relu", "bc": "swish", "iql": "relu"}
MakeTrainer = Callable[..., Any]


@pytest.fixture(autouse=True)
def settings_choose(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let ``torch_settings`` choose, also under ``pytest --plain-torch``: both ways are compared."""
    monkeypatch.setattr(template, "choose_backend", backend.choose_backend)


@pytest.fixture
def make_trainer(tmp_path: Path) -> MakeTrainer:
    """``make_trainer("ppo", environment, fast=False, imitate=True)``"""

    def make(
        name: str,
        environment: Environment,
        fast: bool,
        imitate: bool = False,
        activation: str | None = None,
    ) -> Any:
        network = {"hidden_units": 24, "num_layers": 2, "normalize": name != "iql"}
        trainings = SmallTrainings(name, tmp_path, HYPERPARAMETERS[name], network)
        demo = {}
        if imitate or name in OFFLINE:
            (behavior,) = environment.behaviors
            demo = {"demo_path": recorded(tmp_path / "recorded" / behavior, environment, 60)}
        block = {"max_steps": 5000, **({"behavioral_cloning": {**demo, "steps": 4000}} if imitate else {})}
        return trainings.trainer(
            environment,
            block=block,
            network={"activation": activation or ACTIVATIONS[name]},
            torch_settings={"fast_cpu": fast, "num_threads": 1},
            **(demo if name in OFFLINE else {}),
        )

    return make


def updated(trainer: Any, environment: Environment, name: str) -> list[Mapping[str, Any]]:
    """Statistics of a dozen updates or more."""
    if name in OFFLINE:
        return [trainer.update() for _ in range(15)]
    return learn(trainer, environment, 200 if name == "ppo" else 60)


CASES = [
    *((name, space, False) for name in HYPERPARAMETERS for space in ENVIRONMENTS if (name, space) != ("iql", "image")),
    ("ppo", "hybrid", True),
    ("sac", "hybrid", True),
]
DAILY = {("ppo", "image", False), ("sac", "masked", False), ("bc", "hybrid", False), ("iql", "continuous", False),
         ("ppo", "hybrid", True), ("sac", "hybrid", True)}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "space", "imitate"),
    [pytest.param(*each, marks=() if each in DAILY else pytest.mark.learning) for each in CASES],
)
def test_switched_off_equals_plain_pytorch(make_trainer: MakeTrainer, name: str, space: str, imitate: bool) -> None:
    compare(make_trainer, name, space, imitate)


@pytest.mark.parametrize("activation", ["leaky_relu", "elu", "selu", "gelu", "mish", "softplus", "sigmoid"])
def test_other_activations_are_those_of_plain_pytorch(make_trainer: MakeTrainer, activation: str) -> None:
    compare(make_trainer, "ppo", "hybrid", activation=activation)


def compare(
    make_trainer: MakeTrainer, name: str, space: str, imitate: bool = False, activation: str | None = None
) -> None:
    """Both compute in float32, with sums in another order: errors of 1e-7 that a dozen updates make a hundredfold."""
    outcomes = []
    for fast in (True, False):
        environment = ENVIRONMENTS[space]()
        trainer = make_trainer(name, environment, fast, imitate, activation=activation)
        before = copied(trainer.state_dict()["model"])
        assert trainer.model.actor.dense is (fused_dense if fast else dense)
        assert type(trainer.actor_optimizer()) is (FlatAdam if fast else TorchAdam)
        stats = updated(trainer, environment, name)
        after = trainer.state_dict()
        outcomes.append((before, stats, after["model"], after))
    (before, ours, fast_model, _), (plain_before, theirs, plain_model, _) = outcomes
    assert_equal(before, plain_before)
    assert len(ours) == len(theirs) >= 10
    for one, other in zip(ours, theirs, strict=True):
        assert one.keys() == other.keys()
        for tag, value in one.items():
            np.testing.assert_allclose(value, other[tag], rtol=2e-3, atol=2e-4, err_msg=tag)
    for key, array in fast_model.items():
        np.testing.assert_allclose(array, plain_model[key], rtol=1e-3, atol=1e-4, err_msg=key)
    moved = max(float(np.abs(array - before[key]).max()) for key, array in fast_model.items() if "inputs" not in key)
    assert moved > 1e-3, "nothing was learned"


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize("name", list(HYPERPARAMETERS))
def test_a_checkpoint_of_either_continues_in_the_other(make_trainer: MakeTrainer, name: str, fast: bool) -> None:
    environment = identity_hybrid(4)
    saved, other = make_trainer(name, environment, fast), make_trainer(name, environment, not fast)
    updated(saved, environment, name)
    state = copied(saved.state_dict())
    other.load_state_dict(state)
    assert_equal(other.state_dict(), state)


# ---------------------------------------------------------------- torch.func and torch.compile, switched off


def ppo_minibatch(trainer: Any, rows: int) -> Minibatch:
    torch.manual_seed(2)
    heads = len(trainer.providers)
    return Minibatch(
        inputs=(torch.randn(rows, trainer.model.inputs.vector_size),),
        raw=torch.randn(rows, trainer.behavior.continuous),
        choices=torch.stack([torch.randint(n, (rows,)) for n in trainer.behavior.discrete], dim=1),
        mask=None,
        old_log_prob=torch.randn(rows) - 3,
        old_value=torch.randn(rows, heads),
        advantage=torch.randn(rows),
        returns=torch.randn(rows, heads),
    )


def grads_of(model: torch.nn.Module, loss: Tensor) -> dict[str, Tensor]:
    named = {name: p for name, p in model.named_parameters() if p.requires_grad}
    found = torch.autograd.grad(loss, list(named.values()), allow_unused=True)
    return {name: grad for name, grad in zip(named, found, strict=True) if grad is not None}


class LossModule(torch.nn.Module):
    """A loss as the forward pass of a module, as ``functional_call`` wants it."""

    def __init__(self, model: torch.nn.Module, loss: Callable[[], Tensor]) -> None:
        super().__init__()
        self.model = model
        self.loss = loss

    def forward(self) -> Tensor:
        return self.loss()


def losses_of(make_trainer: MakeTrainer) -> dict[str, tuple[torch.nn.Module, Callable[[], Tensor]]]:
    """A loss of each trainer on a fixed minibatch, as a function of the model's parameters."""
    environment = identity_hybrid(4)
    ppo = make_trainer("ppo", environment, fast=False)
    minibatch = ppo_minibatch(ppo, 16)
    sac = make_trainer("sac", environment, fast=False)
    learn(sac, environment, 30)
    batch = sac.reader.read(np.arange(16))
    noise = torch.randn(16, sac.behavior.continuous)
    return {
        "ppo": (ppo.model, lambda: ppo.loss(minibatch).total),
        "sac critics": (sac.model, lambda: sac.critic_loss(batch, noise).total),
        "sac policy": (sac.model, lambda: sac.policy_loss(batch, noise)[1]),
    }


LOSSES = pytest.mark.parametrize("which", ["ppo", "sac critics", "sac policy"])


@LOSSES
def test_torch_func_differentiates_the_losses(make_trainer: MakeTrainer, which: str) -> None:
    model, loss = losses_of(make_trainer)[which]
    expected = grads_of(model, loss())
    module = LossModule(model, loss)
    parameters = {name: p.detach() for name, p in module.named_parameters()}
    found = torch.func.grad(lambda p: torch.func.functional_call(module, p, ()))(parameters)
    assert expected
    for name, grad in expected.items():
        torch.testing.assert_close(found[f"model.{name}"], grad, rtol=1e-4, atol=1e-6)


@LOSSES
def test_torch_compile_captures_each_loss_as_one_graph(make_trainer: MakeTrainer, which: str) -> None:
    """Forward and backward, up to the generation of code, which would take a minute for each."""
    model, loss = losses_of(make_trainer)[which]
    expected = loss()
    compiled = torch.compile(loss, backend="aot_eager", fullgraph=True)
    found = compiled()
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6)
    ours, theirs = grads_of(model, found), grads_of(model, expected)
    assert ours.keys() == theirs.keys() and ours
    for name, grad in ours.items():
        torch.testing.assert_close(grad, theirs[name], rtol=1e-4, atol=1e-6)
