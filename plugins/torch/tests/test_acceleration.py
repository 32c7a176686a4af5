"""The registry of faster ways: a trainer gets those that are written for exactly its methods."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from rlcore import Plugins, hookimpl, load_plugins
from rlcore_torch import Acceleration, AccelerationSpec, function_of_tensors
from rlcore_torch.acceleration.registry import accelerate


class Network:
    def value(self) -> int:
        return 1


class Trainer:
    """The object of a template that asks the registry; ``captured`` is the one that records steps."""

    def __init__(self, model: Network, pieces: tuple[str, ...] = ("by_hand",), **hyperparameters: Any) -> None:
        self.model = model
        self.backend = SimpleNamespace(pieces=frozenset(pieces))
        self.hyperparameters = SimpleNamespace(**hyperparameters)

    def loss(self) -> str:
        return f"plain {self.part()}"

    def part(self) -> str:
        return "part"

    def beside(self) -> str:
        return "beside"

    def captured(self, step: Any) -> Any:
        return lambda: f"captured {step()}"

    @function_of_tensors()
    def step(self) -> str:
        return "step"

    @function_of_tensors(unless="target_kl")
    def limited_step(self) -> str:
        return "limited step"


def made(trainer: Trainer) -> Mapping[Any, Any]:
    return {Trainer.loss: lambda: f"fast {trainer.model.value()}"}


FASTER = Acceleration[Trainer](
    piece="by_hand", methods=(Trainer.loss, Trainer.part), model_methods=(Network.value,), make=made
)
UNFIT = Acceleration[Trainer](piece="by_hand", methods=(Trainer.loss,), make=lambda trainer: None)


class Package:
    """A package of a stranger."""

    @hookimpl
    def rlcore_accelerations(self) -> list[AccelerationSpec]:
        trainer = f"{__name__}:Trainer"
        return [
            AccelerationSpec(name="a-faster", trainer=trainer, target=f"{__name__}:FASTER"),
            AccelerationSpec(name="b-unfit", trainer=trainer, target=f"{__name__}:UNFIT"),
            AccelerationSpec(name="c-absent", trainer="absent_package.trainer:Other", target="absent_package:FASTER"),
        ]


@pytest.fixture(scope="module")
def plugins() -> Plugins:
    loaded = load_plugins()
    loaded.register(Package(), "stranger")
    return loaded


def accelerated(trainer: Trainer, plugins: Plugins, inference: bool = False) -> Trainer:
    run: Any = SimpleNamespace(plugins=plugins, inference=inference)
    accelerate(trainer, run)
    return trainer


def test_a_trainer_with_exactly_the_methods_gets_the_faster_way(plugins: Plugins) -> None:
    """A class that overrides another method keeps the faster way."""

    class Derived(Trainer):
        def beside(self) -> str:
            return "other"

    for kind in (Trainer, Derived):
        assert accelerated(kind(Network()), plugins).loss() == "fast 1"


@pytest.mark.parametrize("name", ["loss", "part"])
def test_a_class_that_overrides_a_method_is_left_alone(plugins: Plugins, name: str) -> None:
    kind = type("Derived", (Trainer,), {name: lambda self: f"own {name}"})
    assert accelerated(kind(Network()), plugins).loss() == {"loss": "own loss", "part": "plain own part"}[name]


def test_a_network_that_overrides_a_method_is_left_alone(plugins: Plugins) -> None:
    class Derived(Network):
        def value(self) -> int:
            return 2

    changed = Network()
    vars(changed)["value"] = lambda: 3
    for model in (Derived(), changed):
        assert accelerated(Trainer(model), plugins).loss() == "plain part"


def test_a_piece_that_is_off_and_a_policy_that_is_measured_run_in_plain_pytorch(plugins: Plugins) -> None:
    assert accelerated(Trainer(Network(), pieces=("update_threads",)), plugins).loss() == "plain part"
    assert accelerated(Trainer(Network()), plugins, inference=True).loss() == "plain part"


def test_a_decorated_step_is_captured_unless_its_hyperparameter_is_set_or_it_is_overridden(plugins: Plugins) -> None:
    class Derived(Trainer):
        def step(self) -> str:
            return "own step"

    trainer = accelerated(Trainer(Network(), target_kl=0.1), plugins)
    assert (trainer.step(), trainer.limited_step()) == ("captured step", "limited step")
    derived = accelerated(Derived(Network(), target_kl=None), plugins)
    assert (derived.step(), derived.limited_step()) == ("own step", "captured limited step")
