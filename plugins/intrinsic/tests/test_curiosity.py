"""The intrinsic curiosity module compared with numpy: both losses, the reward, and what learns from which loss."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from rlcore import Actions, BehaviorSpec, Transitions
from rlcore_devkit.conformance.rewards import evaluate
from rlcore_devkit.environments import identity_hybrid, identity_multi_branch
from rlcore_intrinsic.curiosity import parts_of

FORWARD = "Losses/Curiosity Forward Loss"
INVERSE = "Losses/Curiosity Inverse Loss"
Array = NDArray[np.float64]
SMALL = {
    "network_settings": {"hidden_units": 8, "num_layers": 1, "activation": "relu"},
    "normalize_observations": False,
    "normalize_rewards": False,
    "batch_size": 100,
    "gamma": 0.9,
    "strength": 0.01,  # a limit that no error reaches
}


@pytest.fixture(params=[identity_hybrid, identity_multi_branch], ids=["hybrid", "branches"])
def behavior(request: pytest.FixtureRequest) -> BehaviorSpec:
    [behavior] = request.param(3).behaviors.values()
    # Parts of other bounds: the module predicts actions in [-1, 1], whatever their units.
    return attrs.evolve(behavior, low=4 * behavior.low, high=4 * behavior.high)


@pytest.fixture
def make_curiosity(make: Any, behavior: BehaviorSpec) -> Callable[..., Any]:
    return lambda **settings: make("curiosity", behavior, **{**SMALL, **settings})


@pytest.fixture
def rollout(behavior: BehaviorSpec, transitions_of: Any) -> Callable[[int], Transitions]:
    def rollout(seed: int) -> Transitions:
        given = transitions_of(behavior, (5, 3), seed)
        continuous = given.actions.continuous
        actions = Actions(None if continuous is None else 4 * continuous, given.actions.discrete)
        return attrs.evolve(given, actions=actions)

    return rollout


class ByHand:
    """Both losses and the errors [N] of the forward model, from the saved arrays."""

    def __init__(self, state: dict[str, Any], behavior: BehaviorSpec, given: Transitions) -> None:
        model = {name: np.asarray(array, np.float64) for name, array in state["model"].items()}
        count = given.reward.size

        def layer(name: str, x: Array) -> Array:
            product: Array = x @ model[f"{name}.weight"].T + model[f"{name}.bias"]
            return product

        def features(observations: Any) -> Array:
            x = np.concatenate([array.reshape(count, -1) for array in observations.values()], 1)
            return np.maximum(layer("encoder.layers.0", x), 0)

        def head(name: str, x: Array) -> Array:
            hidden = layer(f"{name}.0", x)
            return layer(f"{name}.2", hidden / (1 + np.exp(-hidden)))

        before = features(given.observations)
        after = features(given.next_observations)
        columns = []
        if given.actions.continuous is not None:
            columns.append(given.actions.continuous.reshape(count, -1) / 4)
        choices = given.actions.discrete.reshape(count, -1)  # type: ignore[union-attr]
        columns += [np.eye(n)[choices[:, k]] for k, n in enumerate(behavior.discrete)]
        action = np.concatenate(columns, 1)
        self.errors = 0.5 * ((head("forward_model", np.hstack([before, action])) - after) ** 2).sum(1)
        predicted = head("inverse", np.hstack([before, after]))
        real = behavior.continuous
        self.inverse = ((predicted - action)[:, :real] ** 2).sum(1)
        start = real
        for k, n in enumerate(behavior.discrete):
            logits = predicted[:, start : start + n]
            p = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
            self.inverse = self.inverse - np.log(p[np.arange(count), choices[:, k]])
            start += n


def test_losses_are_those_of_the_paper(make_curiosity: Any, behavior: BehaviorSpec, rollout: Any) -> None:
    reward = make_curiosity()
    given = rollout(1)
    by_hand = ByHand(reward.state_dict(), behavior, given)
    descended: list[torch.Tensor] = []
    reward.gradient_step = descended.append
    stats, (forward, inverse) = reward.update(given), (by_hand.errors.mean(), by_hand.inverse.mean())
    assert (stats[FORWARD], stats[INVERSE]) == (pytest.approx(forward, rel=1e-4), pytest.approx(inverse, rel=1e-4))
    assert [loss.item() for loss in descended] == [pytest.approx(10 * (0.2 * forward + 0.8 * inverse), rel=1e-4)]


def test_the_reward_is_the_forward_error_after_the_first_update(
    make_curiosity: Any, behavior: BehaviorSpec, rollout: Any
) -> None:
    reward = make_curiosity()
    assert not evaluate(reward, rollout(1)).any()
    reward.update(rollout(1))
    expected = ByHand(reward.state_dict(), behavior, rollout(2)).errors.reshape(5, 3)
    np.testing.assert_allclose(evaluate(reward, rollout(2)), expected, rtol=1e-4)


def test_without_normalization_rewards_are_at_most_one_after_strength_as_in_ml_agents(
    make_curiosity: Any, rollout: Any
) -> None:
    free = make_curiosity(strength=0.0)
    free.update(rollout(1))
    errors = evaluate(free, rollout(2))
    strength = float(1 / np.median(errors))
    limited = make_curiosity(strength=strength)
    limited.update(rollout(1))
    np.testing.assert_allclose(evaluate(limited, rollout(2)), np.minimum(errors, 1 / strength), rtol=1e-5)


def test_the_encoder_learns_from_the_inverse_model_alone(make_curiosity: Any, rollout: Any) -> None:
    reward = make_curiosity()
    given = rollout(1)
    before, after, actions = parts_of(reward.rows(given))
    features = reward.model.features(before)
    following = reward.model.features(after)
    encoder = list(reward.model.encoder.parameters())
    forward = reward.model.errors(features, actions, following).mean()
    assert torch.autograd.grad(forward, encoder, allow_unused=True, retain_graph=True) == (None,) * len(encoder)
    inverse = reward.model.inverse_loss(features, actions, following)
    assert all(gradient.any() for gradient in torch.autograd.grad(inverse, encoder))
