"""Random network distillation compared with numpy: errors, scale of the rewards, which observations count."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from rlcore import Actions, BehaviorSpec, Transitions
from rlcore_devkit.conformance.rewards import evaluate, in_one_row
from rlcore_devkit.environments import identity_hybrid
from rlcore_intrinsic.reward_scale import RewardScale

SLOTS = 3
ROWS = 5
GAMMA = 0.9
TAG = "Losses/RND Loss"


@pytest.fixture
def behavior() -> BehaviorSpec:
    [behavior] = identity_hybrid(SLOTS).behaviors.values()
    return behavior


@pytest.fixture
def make_rnd(make: Any, behavior: BehaviorSpec) -> Callable[..., Any]:
    small = {"network_settings": {"hidden_units": 8, "num_layers": 1}, "gamma": GAMMA, "batch_size": 4}
    return lambda **settings: make("rnd", behavior, **{**small, **settings})


Rollout = Callable[[int], Transitions]


@pytest.fixture
def rollout(behavior: BehaviorSpec, transitions_of: Any) -> Rollout:
    return lambda seed: transitions_of(behavior, (ROWS, SLOTS), seed)


def silu(x: NDArray[np.float64]) -> NDArray[np.float64]:
    return x / (1 + np.exp(-x))


def errors(state: dict[str, Any], given: Transitions, columns: NDArray[np.bool_] | None) -> NDArray[np.float64]:
    """Squared errors [*L], summed over outputs, computed from the saved arrays. ``columns`` are normalized."""
    model = {name: np.asarray(array, np.float64) for name, array in state["model"].items()}
    rows = [array.reshape(given.reward.size, -1) for array in given.next_observations.values()]
    x = np.concatenate(rows, 1).astype(np.float64)
    if columns is not None:
        mean = model["inputs.normalizer.mean"]
        count = model["inputs.normalizer.count"]
        scaled = np.clip((x - mean) / np.sqrt(model["inputs.normalizer.m2"] / count + 1e-8), -5, 5)
        x = np.where(columns, scaled, x)

    def layer(name: str, x: NDArray[np.float64]) -> NDArray[np.float64]:
        product: NDArray[np.float64] = x @ model[f"{name}.weight"].T + model[f"{name}.bias"]
        return product

    target = layer("target.head.0", silu(layer("target.body.layers.0", x)))
    hidden = silu(layer("predictor.body.layers.0", x))
    for k in (0, 2):
        hidden = np.maximum(layer(f"predictor.head.{k}", hidden), 0)
    predicted = layer("predictor.head.4", hidden)
    summed: NDArray[np.float64] = ((predicted - target) ** 2).sum(1)
    return summed.reshape(given.reward.shape)


def updated(reward: Any, given: Transitions) -> dict[str, Any]:
    """Update the reward. Returns what errors were measured with: the new normalizer and the old predictor."""
    before: dict[str, Any] = reward.state_dict()
    reward.update(given)
    after = reward.state_dict()["model"]
    before["model"].update({name: after[name] for name in after if name.startswith("inputs.normalizer.")})
    return before


def test_rewards_are_errors_in_units_of_the_spread_of_their_discounted_sums(make_rnd: Any, rollout: Rollout) -> None:
    reward = make_rnd()
    first = rollout(1)
    second = rollout(2)
    assert not evaluate(reward, first).any(), "nothing to normalize by"
    columns = reward.model.inputs.normalized_columns.numpy()
    assert columns.any() and not columns.all()
    sums = np.zeros(SLOTS)
    returns = []
    for given in (first, second):
        for row in errors(updated(reward, given), given, columns):
            sums = GAMMA * sums + row
            returns.append(sums)
    expected = errors(reward.state_dict(), second, columns) / np.std(returns)
    np.testing.assert_allclose(evaluate(reward, second), expected, rtol=1e-4)


def test_a_minibatch_is_scaled_by_what_was_collected_in_whatever_shape(
    make_rnd: Any, rollout: Rollout, behavior: BehaviorSpec, transitions_of: Any
) -> None:
    """Equal experience gives one scale: as [T, S], as [N] with slots, and beside minibatches that have no order."""
    columns = make_rnd().model.inputs.normalized_columns.numpy()
    whole = make_rnd()
    flat = make_rnd()
    beside = make_rnd()
    given = rollout(1)
    drawn = transitions_of(behavior, (4,), 2)
    sums = np.zeros(SLOTS)
    returns = []
    for row in errors(updated(whole, given), given, columns):
        sums = GAMMA * sums + row
        returns.append(sums)
    expected = np.std(returns)
    flat.update(in_one_row(given))
    drawn.collecting = lambda: given
    beside.update(drawn)
    for each in (whole, flat, beside):
        assert 1 / float(each.model.scale.factor) == pytest.approx(expected, rel=1e-4)
        np.testing.assert_allclose(each.model.scale.sums, sums, rtol=1e-4)
    drawn.collecting = lambda: None
    beside.update(drawn)
    assert 1 / float(beside.model.scale.factor) == pytest.approx(expected, rel=1e-4), "nothing new was collected"


@pytest.mark.parametrize("correlation", [0.0, 0.9, 0.99])
def test_the_scale_is_the_spread_of_sums_of_each_slot_for_slots_that_act_in_turns(correlation: float) -> None:
    """Compared with a recursion in float64; slot 0 acts in each step, slot 1 in every second one, slot 2 rarely."""
    random = np.random.default_rng(1)
    gamma = 0.99
    acted = [(step, slot) for step in range(400) for slot, every in enumerate((1, 2, 7)) if step % every == 0]
    slots = np.array([slot for _, slot in acted])
    noise = random.standard_normal(3)
    rewards = []
    for slot in slots:
        noise[slot] = correlation * noise[slot] + (1 - correlation**2) ** 0.5 * random.standard_normal()
        rewards.append((1 + 0.5 * noise[slot]) ** 2)
    sums = np.zeros(3)
    returns = []
    for slot, reward in zip(slots, rewards, strict=True):
        sums[slot] = gamma * sums[slot] + reward
        returns.append(sums[slot])
    scale = RewardScale(3, gamma)
    for part in np.array_split(np.arange(len(slots)), 5):
        scale.update(torch.tensor(rewards, dtype=torch.float32)[part], in_order(slots[part]))
    assert 1 / float(scale.factor) == pytest.approx(np.std(returns), rel=1e-4)


def in_order(slots: NDArray[np.int64]) -> Transitions:
    """Transitions of these slots, of which nothing else is read."""
    no_flags = np.zeros(len(slots), np.bool_)
    return Transitions({}, Actions(), np.zeros(len(slots), np.float32), no_flags, no_flags, slot=slots)


def test_the_loss_is_the_mean_error_and_falls_where_the_agents_are(make_rnd: Any, rollout: Rollout) -> None:
    settings = {"learning_rate": 3e-3, "normalize_rewards": False, "normalize_observations": False}
    reward = make_rnd(**settings, batch_size=100)
    given = rollout(1)
    losses = [errors(reward.state_dict(), given, None).mean()]
    for _ in range(20):
        assert reward.update(given)[TAG] == pytest.approx(losses[-1], rel=1e-4)
        losses.append(errors(reward.state_dict(), given, None).mean())
    assert losses[-1] < losses[0]
    np.testing.assert_allclose(evaluate(reward, rollout(2)), errors(reward.state_dict(), rollout(2), None), rtol=1e-4)
    assert reward.ignore_done and not make_rnd(episodic=True).ignore_done


def test_the_target_stays_and_weights_depend_on_the_runs_seed_alone(make_rnd: Any, rollout: Rollout) -> None:
    torch.manual_seed(1)
    reward = make_rnd()
    torch.manual_seed(2)
    same = make_rnd()
    other = make_rnd(seed=2)
    name = "target.head.0.weight"
    before = reward.state_dict()["model"]
    np.testing.assert_array_equal(before[name], same.state_dict()["model"][name])
    assert (before[name] != other.state_dict()["model"][name]).all()
    reward.update(rollout(1))
    after = reward.state_dict()["model"]
    assert all((before[n] == after[n]).all() for n in before if n.startswith("target."))
    assert all((before[n] != after[n]).any() for n in before if n.startswith("predictor.") and "weight" in n)
