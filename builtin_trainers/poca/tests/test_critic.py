"""The critic reads a group as a set: order, empty places and what an agent does itself change nothing."""

# mypy: allow-untyped-calls
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import numpy as np
import pytest
import torch

from rlcore import BehaviorSpec, EpisodeSeeds, ObservationSpec
from rlcore_devkit.environments import IdentityEnvironment
from rlcore_poca.trainer import Mates, POCATrainer
from rlcore_torch import Minibatch

MakeTrainer = Callable[..., POCATrainer]
ROWS = 17
PLACES = 4


@pytest.fixture
def trainer(make_trainer: MakeTrainer) -> POCATrainer:
    """A trainer of groups of up to five agents, which see an image and a vector, with hybrid actions."""
    behavior = BehaviorSpec(
        "Agent", (ObservationSpec("image", (20, 20, 1), np.uint8, "image"), ObservationSpec("seen", (3,), np.float32)),
        continuous=2, discrete=(3, 2), low=-np.ones(2, np.float32), high=np.ones(2, np.float32),
        env_index=np.zeros(5, np.int64), group=np.zeros(5, np.int64),
    )  # fmt: skip
    return make_trainer(behavior)


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(3)


def some_group(generator: torch.Generator) -> tuple[Any, Mates]:
    """The inputs of agents, and mates of which the first half is there."""

    def inputs(*lead: int) -> Any:
        image = torch.randint(256, (*lead, 20, 20, 1), generator=generator, dtype=torch.uint8)
        return torch.randn(*lead, 3, generator=generator), image

    present = torch.zeros(ROWS, PLACES, dtype=torch.bool)
    present[:, : PLACES // 2] = True
    actions = torch.randn(ROWS, PLACES, 7, generator=generator)
    return inputs(ROWS), Mates(inputs(ROWS, PLACES), present, actions)


def reordered(mates: Mates, order: torch.Tensor) -> Mates:
    return Mates(tuple(x[:, order] for x in mates.inputs), mates.present[:, order], mates.actions[:, order])


@torch.no_grad()
def outputs(trainer: POCATrainer, own: Any, mates: Mates) -> torch.Tensor:
    critic = trainer.model.critic
    value, baseline = critic.value_and_baseline(own, mates)
    torch.testing.assert_close(value, critic.value(own, mates), atol=1e-6, rtol=0)
    torch.testing.assert_close(baseline, critic.baseline(own, mates), atol=1e-6, rtol=0)
    return torch.stack([value, baseline])


def test_the_order_of_mates_does_not_matter(trainer: POCATrainer, generator: torch.Generator) -> None:
    own, mates = some_group(generator)
    found = outputs(trainer, own, mates)
    assert found.std(1).min() > 1e-3
    order = torch.tensor([3, 1, 0, 2])
    torch.testing.assert_close(outputs(trainer, own, reordered(mates, order)), found, atol=1e-6, rtol=0)


def test_mates_that_are_not_there_do_not_matter(trainer: POCATrainer, generator: torch.Generator) -> None:
    own, mates = some_group(generator)
    found = outputs(trainer, own, mates)
    there = reordered(mates, torch.arange(PLACES // 2))
    torch.testing.assert_close(outputs(trainer, own, there), found, atol=1e-6, rtol=0)
    gone = ~mates.present
    others = Mates(
        tuple(torch.where(gone.view(ROWS, PLACES, *[1] * (x.ndim - 2)), 200, x).to(x.dtype) for x in mates.inputs),
        mates.present,
        mates.actions.masked_fill(gone.unsqueeze(2), -1e6),
    )
    torch.testing.assert_close(outputs(trainer, own, others), found, atol=1e-6, rtol=0)
    alone = Mates(mates.inputs, torch.zeros_like(mates.present), mates.actions)
    assert torch.isfinite(outputs(trainer, own, alone)).all()


def test_mates_that_are_there_do_matter_and_their_actions_to_the_baseline_alone(
    trainer: POCATrainer, generator: torch.Generator
) -> None:
    own, mates = some_group(generator)
    value, baseline = outputs(trainer, own, mates)
    acting = Mates(mates.inputs, mates.present, mates.actions + 1.0)
    with_value, with_baseline = outputs(trainer, own, acting)
    assert torch.equal(value, with_value) and not torch.isclose(baseline, with_baseline).any()
    seeing = Mates((mates.inputs[0] + 1.0, mates.inputs[1]), mates.present, mates.actions)
    for before, after in zip((value, baseline), outputs(trainer, own, seeing), strict=True):
        assert not torch.isclose(before, after).any()


def test_all_members_of_a_group_have_one_value(trainer: POCATrainer, generator: torch.Generator) -> None:
    own, mates = some_group(generator)
    value, baseline = outputs(trainer, own, mates)
    swapped = tuple(torch.cat((x[:, None], y[:, 1:]), 1) for x, y in zip(own, mates.inputs, strict=True))
    first_mate = tuple(y[:, 0] for y in mates.inputs)
    other_value, other_baseline = outputs(trainer, first_mate, Mates(swapped, mates.present, mates.actions))
    torch.testing.assert_close(other_value, value, atol=1e-6, rtol=0)
    assert not torch.isclose(other_baseline, baseline).any()


def test_the_loss_has_half_the_weight_for_baselines(make_trainer: MakeTrainer, generator: torch.Generator) -> None:
    """total = policy + value_coefficient (value + baseline / 2) - beta entropy, from rows computed one by one."""
    behavior = BehaviorSpec(
        "Agent", (ObservationSpec("seen", (2,), np.float32),), discrete=(3,),
        env_index=np.zeros(3, np.int64), group=np.zeros(3, np.int64),
    )  # fmt: skip
    trainer = make_trainer(behavior, beta=0.1, epsilon=0.15, value_coefficient=0.7)
    mates = Mates(
        (torch.randn(ROWS, 2, 2, generator=generator),),
        torch.rand(ROWS, 2, generator=generator) < 0.6,
        torch.randn(ROWS, 2, 3, generator=generator),
    )
    batch = Minibatch(
        inputs=(torch.randn(ROWS, 2, generator=generator),),
        raw=None,
        choices=torch.randint(3, (ROWS, 1), generator=generator),
        mask=None,
        old_log_prob=torch.randn(ROWS, generator=generator) / 2 - 1.0,
        old_value=torch.zeros(ROWS, 1),
        advantage=torch.randn(ROWS, generator=generator),
        returns=torch.randn(ROWS, 1, generator=generator),
        beside=mates.columns(),
    )
    sums = {"policy": 0.0, "value": 0.0, "baseline": 0.0, "entropy": 0.0}
    with torch.no_grad():
        found = trainer.loss(batch)
        for row in range(ROWS):
            one = slice(row, row + 1)
            there = mates.present[row]
            of_row = Mates((mates.inputs[0][one, there],), mates.present[one, there], mates.actions[one, there])
            probabilities = trainer.model.policy((batch.inputs[0][one],))[1].softmax(1)[0].tolist()  # type: ignore[union-attr]
            ratio = probabilities[int(batch.choices[row])] / np.exp(float(batch.old_log_prob[row]))  # type: ignore[index]
            advantage = float(batch.advantage[row])
            target = float(batch.returns[row])
            sums["policy"] -= min(ratio * advantage, min(max(ratio, 0.85), 1.15) * advantage) / ROWS
            sums["entropy"] -= sum(p * np.log(p) for p in probabilities) / ROWS
            for name in ("value", "baseline"):
                predicted = float(getattr(trainer.model.critic, name)((batch.inputs[0][one],), of_row))
                sums[name] += (predicted - target) ** 2 / ROWS
    total = sums["policy"] + 0.7 * (sums["value"] + sums["baseline"] / 2) - 0.1 * sums["entropy"]
    assert float(found.total) == pytest.approx(total, rel=1e-5)
    assert float(found.policy) == pytest.approx(sums["policy"], rel=1e-5)
    assert float(found.value) == pytest.approx(sums["value"], rel=1e-5)
    assert float(found.reported["Losses/Baseline Loss"]) == pytest.approx(sums["baseline"], rel=1e-5)


def test_a_ratio_beyond_float32_has_no_gradient(make_trainer: MakeTrainer, generator: torch.Generator) -> None:
    """With an advantage that is not negative, as in float64, where the ratio is not infinite."""
    behavior = BehaviorSpec(
        "Agent", (ObservationSpec("seen", (2,), np.float32),), discrete=(3,),
        env_index=np.zeros(3, np.int64), group=np.zeros(3, np.int64),
    )  # fmt: skip
    trainer = make_trainer(behavior)
    mates = Mates(
        (torch.randn(6, 2, 2, generator=generator),), torch.ones(6, 2) > 0, torch.randn(6, 2, 3, generator=generator)
    )
    batch = Minibatch(
        inputs=(torch.randn(6, 2, generator=generator),),
        raw=None,
        choices=torch.zeros(6, 1, dtype=torch.int64),
        mask=None,
        old_log_prob=torch.tensor([-200.0, -200.0, -200.0, -1.0, -1.2, -0.8]),
        old_value=torch.zeros(6, 1),
        advantage=torch.tensor([2.0, 0.0, 0.5, 1.0, -1.0, 0.3]),
        returns=torch.ones(6, 1),
        beside=mates.columns(),
    )

    def gradients(batch: Minibatch) -> list[torch.Tensor]:
        trainer.model.zero_grad()
        trainer.loss(batch).total.backward()  # type: ignore[no-untyped-call]
        return [
            parameter.grad.float().clone() for parameter in trainer.model.parameters() if parameter.grad is not None
        ]

    found = gradients(batch)
    trainer.model.double()
    exact = gradients(batch.map(lambda x: x.double() if x.is_floating_point() else x))
    for ours, theirs in zip(found, exact, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


def test_hybrid_actions_of_mates_are_stored_as_they_were_taken(make_trainer: MakeTrainer) -> None:
    environment = IdentityEnvironment(4, continuous=2, discrete=(3, 2))
    [behavior] = environment.behaviors.values()
    pairs = np.arange(4) // 2
    trainer = make_trainer(attrs.evolve(behavior, env_index=pairs, group=pairs))
    [batch] = environment.reset(EpisodeSeeds(1), np.zeros(4, np.int64)).values()
    trainer.begin(batch)
    actions = trainer.act(batch)
    assert actions.continuous is not None and actions.discrete is not None
    stored = trainer.buffer.seen["/actions"][0, :, 0]  # [S, 7] of the only mate
    for slot in range(4):
        mate = slot ^ 1
        np.testing.assert_allclose(stored[slot, :2], actions.continuous[mate], atol=1e-6)
        chosen = [0.0] * 5
        chosen[actions.discrete[mate, 0]] = chosen[3 + actions.discrete[mate, 1]] = 1.0
        assert stored[slot, 2:].tolist() == chosen
