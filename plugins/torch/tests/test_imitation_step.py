# mypy: allow-untyped-calls
"""Imitation beside reinforcement learning: its loss, its Adam, its passes and its end, and what trainers keep of it."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import Any

import numpy as np
import pytest
import torch
from run_of_trainers import run_of
from torch.distributions import Categorical

from rlcore import BehaviorSettings, BehaviorSpec, Environment, Recording, RunStateError, TrainingDiverged
from rlcore_devkit.conformance.loop import learn
from rlcore_devkit.conformance.recordings import record
from rlcore_devkit.conformance.states import assert_equal, copied
from rlcore_devkit.environments import TinyCorridor, identity_continuous, identity_hybrid, identity_multi_branch
from rlcore_torch import (
    Actor,
    ActorPolicy,
    GradientStep,
    NetworkSettings,
    OffPolicySettings,
    OffPolicyTrainer,
    OnPolicySettings,
    Optimizer,
    SquashedGaussian,
    TorchTrainer,
    TransitionBatch,
)
from rlcore_torch.imitation import BehavioralCloning, imitating
from rlcore_torch.settings import BehavioralCloningSettings

ENVIRONMENTS: dict[str, Environment] = {
    "continuous": identity_continuous(2),
    "branches": identity_multi_branch(2),
    "hybrid": identity_hybrid(2),
    "masked": TinyCorridor(2, masked=True),
}


def spec_of(environment: Environment) -> BehaviorSpec:
    [behavior] = environment.behaviors.values()
    return behavior


class Imitator(TorchTrainer):
    """As much of a trainer as imitation needs."""

    def __init__(self, behavior: BehaviorSpec, squashed: bool = False) -> None:
        self.squashed = squashed
        network = NetworkSettings(hidden_units=8, num_layers=1)
        settings = BehaviorSettings(
            hyperparameters=OnPolicySettings(learning_rate=0.01, adam_epsilon=1e-8, batch_size=32, num_epoch=2),
            network_settings=network,
            reward_signals={"extrinsic": None},
        )
        super().__init__(settings, behavior, run_of())
        self.optimizer = self.make_optimizer(self.model.parameters())
        self.policy = ActorPolicy(behavior, self.model, self.backend)

    def build_model(self, value_heads: int) -> Actor:
        network = self.settings.network_settings
        return Actor(self.behavior, network, SquashedGaussian(self.behavior) if self.squashed else None)

    def actor_optimizer(self) -> Optimizer:
        return self.optimizer


def cloning(environment: Environment, squashed: bool = False, **settings: Any) -> BehavioralCloning:
    trainer = Imitator(spec_of(environment), squashed)
    block = BehavioralCloningSettings(demo_path="demos", **settings)
    return BehavioralCloning(trainer, block, record(environment, 50), seed=1)


# ---------------------------------------------------------------- the loss


@pytest.mark.parametrize("squashed", [False, True])
@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_the_loss_is_the_squared_error_of_a_draw_and_the_mean_cross_entropy(name: str, squashed: bool) -> None:
    imitation = cloning(ENVIRONMENTS[name], squashed=squashed)
    behavior = imitation.behavior
    batch = imitation.reader.actions(imitation.rows)
    columns, logits = imitation.model.policy(batch.inputs)
    noise = np.random.default_rng()
    noise.bit_generator.state = imitation._generator.bit_generator.state
    expected = 0.0
    if columns is not None:
        assert batch.raw is not None
        eps = torch.from_numpy(noise.standard_normal((len(columns), behavior.continuous), dtype=np.float32))
        if squashed:
            mean, log_std = columns.chunk(2, dim=1)
            drawn = torch.tanh(mean + log_std.clamp(-20, 2).exp() * eps)
        else:
            drawn = columns + imitation.model.policy_head.distribution.log_std.exp() * eps
        expected += ((drawn - batch.raw) ** 2).mean().item()
    if logits is not None:
        assert batch.choices is not None
        losses = []
        for branch, options in enumerate(behavior.discrete):
            first = sum(behavior.discrete[:branch])
            part = logits[:, first : first + options]
            if batch.mask is not None:
                part = part.masked_fill(~batch.mask[:, first : first + options], -torch.inf)
            losses.append(-Categorical(logits=part).log_prob(batch.choices[:, branch]))
        expected += torch.stack(losses).mean().item()
    assert imitation.loss(batch).item() == pytest.approx(expected, rel=1e-5)


# ---------------------------------------------------------------- its gradient steps


def counted(imitation: BehavioralCloning) -> list[list[int]]:
    """Return the rows of each minibatch, from now on."""
    batches: list[list[int]] = []
    read = imitation.reader.actions

    def actions(rows: Any) -> Any:
        batches.append(rows.tolist())
        return read(rows)

    imitation.reader.actions = actions  # type: ignore[method-assign]
    return batches


def test_an_update_passes_over_all_demonstrations_in_another_order_each_time() -> None:
    """As many passes as the trainer makes, for the block says no other number."""
    imitation = cloning(ENVIRONMENTS["masked"], batch_size=20)
    demonstrated = imitation.rows.tolist()
    batches = round(len(demonstrated) / 20)
    taken = counted(imitation)
    imitation.update(0)
    assert len(taken) == 2 * batches
    passes = [[*chain(*taken[k * batches : (k + 1) * batches])] for k in range(2)]
    assert all(sorted(each) == demonstrated for each in passes)
    assert len({tuple(each) for each in passes}) == 2


def test_the_learning_rate_is_the_trainers_times_strength_and_falls_over_steps() -> None:
    imitation = cloning(ENVIRONMENTS["masked"], strength=0.5, steps=1000)
    for step, share in ((0, 1.0), (250, 0.75), (999, 0.001)):
        assert imitation.update(step) is not None
        assert imitation.optimizer.learning_rate == pytest.approx(0.005 * share, rel=1e-4)
    endless = cloning(ENVIRONMENTS["masked"])
    assert endless.update(10**9) is not None and endless.optimizer.learning_rate == 0.01


def test_a_loss_that_is_not_finite_ends_the_run() -> None:
    imitation = cloning(ENVIRONMENTS["hybrid"])
    with torch.no_grad():
        imitation.model.policy_head.linear.bias.fill_(torch.nan)
    with pytest.raises(
        TrainingDiverged,
        match=r"the loss of behavioral_cloning became nan in the update at step 7; .*lower behavioral_cloning.strength",
    ):
        imitation.update(7)


# ---------------------------------------------------------------- after the update of a trainer


class OffPolicy(OffPolicyTrainer):
    def build_model(self, value_heads: int) -> Actor:
        return Actor(self.behavior, self.settings.network_settings, SquashedGaussian(self.behavior))

    def build_optimizers(self) -> Mapping[str, Optimizer]:
        return {"policy": self.make_optimizer(self.model.parameters())}

    def gradient_step(self, batch: TransitionBatch) -> GradientStep:
        return GradientStep({"Losses/Nothing": torch.zeros(())})


def trainer_of(recording: Any, block: dict[str, Any] | None = None) -> Any:
    settings = BehaviorSettings(
        trainer_type="x",
        hyperparameters=OffPolicySettings(buffer_size=400, batch_size=8, steps_per_update=4.0),
        network_settings=NetworkSettings(hidden_units=4, num_layers=1),
        reward_signals={"extrinsic": None},
        sections={} if block is None else {"behavioral_cloning": BehavioralCloningSettings(demo_path="demos", **block)},
    )

    run = run_of(read_recording=lambda path, behavior: {"demos": recording}[path])
    trainer = OffPolicy(settings, spec_of(identity_hybrid(2)), run)
    return trainer if block is None else imitating(trainer, run)


@pytest.fixture(scope="module")
def demonstrations() -> Recording:
    return record(identity_hybrid(2), 100)


@pytest.mark.parametrize(
    ("block", "count", "samples"),
    [
        ({}, 3, 3 * 8),
        ({"samples_per_update": 40, "num_epoch": 1, "batch_size": 20}, 2, 2 * 20),
    ],
)
def test_a_gradient_step_is_followed_by_these_minibatches(
    block: dict[str, Any], count: int, samples: int, demonstrations: Recording
) -> None:
    trainer = trainer_of(demonstrations, block)
    batches = counted(trainer.cloning)
    learn(trainer, identity_hybrid(2), 100)
    steps = trainer.gradient_steps
    assert steps > 2 and len(batches) == count * steps
    assert sum(len(batch) for batch in batches) == samples * steps


def test_a_trainer_of_another_framework_is_left_alone() -> None:
    stranger = object()
    assert imitating(stranger, run_of()) is stranger


def test_a_state_with_imitation_and_a_trainer_without_do_not_fit_nor_the_other_way_round(
    demonstrations: Recording,
) -> None:
    with_it = trainer_of(demonstrations, {})
    without = trainer_of(None)
    for trainer, other, words in ((without, with_it, ("with", "none")), (with_it, without, ("without", "one"))):
        before = copied(trainer.state_dict())
        told = "saved {} a behavioral_cloning block and this configuration has {}".format(*words)
        with pytest.raises(RunStateError, match=told):
            trainer.load_state_dict(other.state_dict())
        assert_equal(before, trainer.state_dict())
