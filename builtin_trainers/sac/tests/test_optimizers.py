# mypy: allow-untyped-calls
"""Optimizers under SAC: one of a plugin, which resumes bit for bit, and the rates that a schedule gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from rlcore import Plugins, RunStateError, hookimpl, load_plugins
from rlcore_devkit.conformance.states import assert_equal, copied
from rlcore_devkit.conformance.trainer import learn
from rlcore_devkit.environments import identity_hybrid
from rlcore_sac.trainer import SACTrainer
from rlcore_torch import OptimizerSettings, OptimizerSpec
from rlcore_torch.optimization.plugin_optimizer import PluginOptimizer

MakeTrainer = Callable[..., SACTrainer]


def rmsprop(parameters: list[Any], learning_rate: float, settings: OptimizerSettings) -> torch.optim.Optimizer:
    return torch.optim.RMSprop(parameters, lr=learning_rate, momentum=0.5)


class Optimizers:
    @hookimpl
    def rlcore_optimizers(self) -> list[OptimizerSpec]:
        settings = "rlcore_torch:OptimizerSettings"
        return [OptimizerSpec(name="rmsprop", target=f"{__name__}:rmsprop", settings=settings)]


@pytest.fixture
def plugins() -> Plugins:
    loaded = load_plugins()
    loaded.register(Optimizers(), "optimizers")
    return loaded


def made(make_trainer: MakeTrainer, plugins: Plugins, optimizer: Any) -> SACTrainer:
    more = {"batch_size": 16, "save_replay_buffer": True, "buffer_init_steps": 20, "learning_rate_schedule": "cosine"}
    return make_trainer(identity_hybrid(2), plugins=plugins, optimizer=optimizer, **more)


def test_every_part_learns_with_the_optimizer_and_is_resumed_bit_for_bit(
    make_trainer: MakeTrainer, plugins: Plugins
) -> None:
    whole, twin, resumed = (made(make_trainer, plugins, {"type": "rmsprop"}) for _ in range(3))
    first = copied(whole.state_dict()["model"])
    for trainer in (whole, twin):
        learn(trainer, identity_hybrid(2), 40)
    assert_equal(whole.state_dict(), twin.state_dict())
    assert whole.gradient_steps > 0 and whole.optimizers.keys() == {"policy", "critic_0", "critic_1", "temperature"}
    for optimizer in whole.optimizers.values():
        assert type(optimizer) is PluginOptimizer
        assert optimizer.state_dict()["parameters"]["0"]["step"] == whole.gradient_steps
    moved = {name for name, value in whole.state_dict()["model"].items() if not (value == first[name]).all()}
    assert {name for name, _ in whole.model.named_parameters()} <= moved
    resumed.load_state_dict(copied(whole.state_dict()))
    for trainer in (whole, resumed):
        learn(trainer, identity_hybrid(2), 20, seed=2)
    assert_equal(whole.state_dict(), resumed.state_dict())


def test_a_checkpoint_of_adam_is_refused(make_trainer: MakeTrainer, plugins: Plugins) -> None:
    state = copied(made(make_trainer, plugins, None).state_dict())
    with pytest.raises(RunStateError, match=r"optimizer.type 'adam' and this run has 'rmsprop'; resume with the opt"):
        made(make_trainer, plugins, {"type": "rmsprop"}).load_state_dict(state)


def test_the_learning_rate_is_that_of_the_step_where_an_update_began_to_be_due(make_trainer: MakeTrainer) -> None:
    """Each update of 8 agents has the rate of 8 steps ago; none comes before step 304."""
    settings = {"buffer_init_steps": 304, "learning_rate_schedule": "linear", "learning_rate": 0.1, "batch_size": 1}
    environment = identity_hybrid(8)
    trainer = make_trainer(environment, block={"max_steps": 400}, **settings)
    rates = [stats["Policy/Learning Rate"] for stats in learn(trainer, environment, 50)]
    assert trainer.steps == 400
    np.testing.assert_allclose(rates, 0.1 * (1 - np.arange(304, 400, 8) / 400), rtol=1e-6)
