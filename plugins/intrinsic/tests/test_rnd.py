"""Random network distillation compared with numpy: errors, scale of the rewards, which observations count."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from rlcore import BehaviorSpec, Transitions
from rlcore_devkit.conformance.rewards import evaluate
from rlcore_devkit.environments import identity_hybrid

SLOTS, ROWS, GAMMA = 3, 5, 0.9
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
        mean, count = model["inputs.normalizer.mean"], model["inputs.normalizer.count"]
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
    first, second = rollout(1), rollout(2)
    assert not evaluate(reward, first).any(), "nothing to normalize by"
    columns = reward.model.inputs.normalized_columns.numpy()
    assert columns.any() and not columns.all()
    sums, returns = np.zeros(SLOTS), []
    for given in (first, second):
        for row in errors(updated(reward, given), given, columns):
            sums = GAMMA * sums + row
            returns.append(sums)
    expected = errors(reward.state_dict(), second, columns) / np.std(returns)
    np.testing.assert_allclose(evaluate(reward, second), expected, rtol=1e-4)


def test_transitions_in_no_order_are_scaled_as_if_errors_were_independent(
    make_rnd: Any, behavior: BehaviorSpec, transitions_of: Any
) -> None:
    reward, given = make_rnd(), transitions_of(behavior, (12,), 1)
    before = updated(reward, given)
    columns = reward.model.inputs.normalized_columns.numpy()
    spread = np.std(errors(before, given, columns)) / np.sqrt(1 - GAMMA**2)
    np.testing.assert_allclose(evaluate(reward, given), errors(reward.state_dict(), given, columns) / spread, rtol=1e-4)


def test_the_loss_is_the_mean_error_and_falls_where_the_agents_are(make_rnd: Any, rollout: Rollout) -> None:
    settings = {"learning_rate": 3e-3, "normalize_rewards": False, "normalize_observations": False}
    reward, given = make_rnd(**settings, batch_size=100), rollout(1)
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
    same, other = make_rnd(), make_rnd(seed=2)
    name = "target.head.0.weight"
    before = reward.state_dict()["model"]
    np.testing.assert_array_equal(before[name], same.state_dict()["model"][name])
    assert (before[name] != other.state_dict()["model"][name]).all()
    reward.update(rollout(1))
    after = reward.state_dict()["model"]
    assert all((before[n] == after[n]).all() for n in before if n.startswith("target."))
    assert all((before[n] != after[n]).any() for n in before if n.startswith("predictor.") and "weight" in n)
