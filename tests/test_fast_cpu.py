"""``torch_settings.fast_cpu``: every trainer learns the same without rlcore's own CPU code, in plain PyTorch."""

# mypy: allow-untyped-calls
from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from recorded import recorded
from small_runs import data

from rlcore import Environment
from rlcore_devkit import SmallTrainings
from rlcore_devkit.conformance.loop import learn
from rlcore_devkit.conformance.states import assert_equal, copied
from rlcore_devkit.environments import ImageIdentity, TinyCorridor, identity_continuous, identity_hybrid
from rlcore_torch import TorchAdam, backend, template
from rlcore_torch.acceleration.flat_adam import FlatAdam

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
            network={"activation": ACTIVATIONS[name]},
            torch_settings={"fast_cpu": fast, "num_threads": 1},
            **(demo if name in OFFLINE else {}),
        )

    return make


def updated(trainer: Any, environment: Environment, name: str) -> list[Mapping[str, Any]]:
    """Statistics of a dozen updates or more."""
    if name in OFFLINE:
        return [trainer.update() for _ in range(15)]
    return learn(trainer, environment, 200 if name == "ppo" else 60)


@pytest.mark.parametrize(
    ("name", "space", "imitate"),
    [
        ("ppo", "image", False),
        ("sac", "masked", False),
        ("bc", "hybrid", False),
        ("iql", "continuous", False),
        ("ppo", "hybrid", True),
        ("sac", "hybrid", True),
    ],
)
def test_switched_off_equals_plain_pytorch(make_trainer: MakeTrainer, name: str, space: str, imitate: bool) -> None:
    """Both compute in float32, with sums in another order: errors of 1e-7 that a dozen updates make a hundredfold."""
    outcomes = []
    for fast in (True, False):
        environment = ENVIRONMENTS[space]()
        trainer = make_trainer(name, environment, fast, imitate)
        before = copied(trainer.state_dict()["model"])
        assert type(trainer.actor_optimizer()) is (FlatAdam if fast else TorchAdam)
        stats = updated(trainer, environment, name)
        outcomes.append((before, stats, trainer.state_dict()["model"]))
    (before, ours, fast_model), (plain_before, theirs, plain_model) = outcomes
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
