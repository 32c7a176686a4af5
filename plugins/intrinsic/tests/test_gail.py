"""GAIL compared with closed forms of a linear discriminator, and with gradients and divergences computed separately."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch.distributions import Normal, kl_divergence

from rlcore import BehaviorSpec, ObservationSpec, Recording, Transitions
from rlcore_devkit.conformance.rewards import evaluate
from rlcore_devkit.environments import identity_hybrid
from rlcore_intrinsic.discriminator import Discriminator
from rlcore_intrinsic.settings import GAILSettings
from rlcore_torch import NetworkSettings

LINEAR = {"network_settings": {"num_layers": 0}, "normalize_observations": False, "batch_size": 100}
COLUMNS = 2 + 3 + 1  # of an action with two real parts and three options, and of whether the episode terminated


@pytest.fixture
def behavior() -> BehaviorSpec:
    [behavior] = identity_hybrid(3).behaviors.values()
    return behavior


@pytest.fixture
def recording(behavior: BehaviorSpec, recording_of: Any) -> Recording:
    return recording_of(behavior)


@pytest.fixture
def make_gail(make: Any, behavior: BehaviorSpec, keep: Any, recording: Recording) -> Callable[..., Any]:
    keep("expert", recording)
    return lambda **settings: make("gail", behavior, **{**LINEAR, "demo_path": "expert", **settings})


Rollout = Callable[[int], Transitions]


@pytest.fixture
def rollout(behavior: BehaviorSpec, transitions_of: Any) -> Rollout:
    return lambda seed: transitions_of(behavior, (5, 3), seed)


def rows_of(given: Transitions, actions: bool) -> NDArray[np.float64]:
    """Return the columns that the discriminator sees, [N, columns], without code of the plugin."""
    count = given.reward.size
    parts = [array.reshape(count, -1) for array in given.observations.values()]
    if actions:
        assert given.actions.continuous is not None and given.actions.discrete is not None
        parts += [given.actions.continuous.reshape(count, -1), np.eye(3)[given.actions.discrete.reshape(count)]]
        parts += [given.terminated.reshape(count, 1)]
    return np.concatenate(parts, 1).astype(np.float64)


class Drawn:
    """Remembers the expert's transitions that a reward drew."""

    def __init__(self, reward: Any) -> None:
        self.steps: list[NDArray[np.int64]] = []
        self.given: list[Transitions] = []
        self._take = reward.expert.take
        reward.expert.take = self.take

    def take(self, steps: NDArray[np.int64]) -> Transitions:
        self.steps.append(steps)
        self.given.append(self._take(steps))
        return self.given[-1]


@pytest.mark.parametrize("use_actions", [False, True])
def test_loss_penalty_and_reward_of_a_linear_discriminator(make_gail: Any, rollout: Rollout, use_actions: bool) -> None:
    reward = make_gail(use_actions=use_actions)
    given = rollout(1)
    model = reward.state_dict()["model"]
    weight = model["estimate.weight"][0].astype(np.float64)
    bias = float(model["estimate.bias"][0])
    ours = rows_of(given, use_actions) @ weight + bias
    probability = 1 / (1 + np.exp(-ours))
    np.testing.assert_allclose(evaluate(reward, given), -np.log(1 - probability).reshape(5, 3), rtol=1e-5)
    drawn = Drawn(reward)
    stats = reward.update(given)
    theirs = 1 / (1 + np.exp(-(rows_of(drawn.given[0], use_actions) @ weight + bias)))
    assert stats["Losses/GAIL Loss"] == pytest.approx(-np.log(theirs).mean() - np.log(1 - probability).mean(), rel=1e-5)
    penalty = 10 * (np.sqrt((weight**2).sum() + 1e-7) - 1) ** 2  # the gradient is the weight everywhere
    assert stats["Policy/GAIL Grad Mag Loss"] == pytest.approx(penalty, rel=1e-5)
    assert stats["Policy/GAIL Policy Estimate"] == pytest.approx(probability.mean(), rel=1e-5)
    assert stats["Policy/GAIL Expert Estimate"] == pytest.approx(theirs.mean(), rel=1e-5)
    gradient = probability @ rows_of(given, use_actions) / 15 - (1 - theirs) @ rows_of(drawn.given[0], use_actions) / 15
    gradient += 20 * weight * (1 - 1 / np.linalg.norm(weight))
    moved = reward.state_dict()["model"]["estimate.weight"][0] - weight  # by Adam: first by the learning rate
    np.testing.assert_allclose(moved, -reward.settings.learning_rate * np.sign(gradient), rtol=1e-3)
    assert set(stats) == {
        "Losses/GAIL Loss", "Policy/GAIL Policy Estimate", "Policy/GAIL Expert Estimate", "Policy/GAIL Grad Mag Loss",
    }  # fmt: skip


def test_the_reward_has_the_limit_of_ml_agents(make_gail: Any, rollout: Rollout) -> None:
    reward = make_gail()
    assert not reward.ignore_done
    for bias, expected in ((50.0, -np.log(1e-7)), (-50.0, 0.0)):
        torch.nn.init.constant_(reward.model.estimate.bias, bias)
        assert evaluate(reward, rollout(1)) == pytest.approx(expected, rel=1e-6, abs=1e-6)


def test_the_gradient_penalty_of_an_image_is_that_of_the_numbers_that_its_encoder_reads() -> None:
    """A picture of 0 and 255, one of 0 and 1, and one with both in its channels look alike to the network."""
    shape = (5, 5, 2)
    fractions = torch.randint(0, 2, (2, 3, *shape), generator=torch.Generator().manual_seed(1)).float()
    network = NetworkSettings(hidden_units=8, vis_encode_type="match3", init="uniform")
    found = []
    for high in (255.0, 1.0, np.array([255.0, 1.0])):
        eyes = ObservationSpec("eyes", shape, np.uint8, "image", high=high)
        with torch.random.fork_rng(devices=()):
            torch.manual_seed(2)
            model = Discriminator(
                BehaviorSpec("Agent", (eyes,), discrete=(2,)),
                GAILSettings(demo_path="expert", network_settings=network),
            )
        expert, policy = (fractions * torch.from_numpy(eyes.full_scale)).to(torch.uint8)
        mix = torch.tensor([[0.2], [0.5], [0.9]])
        found.append(model.gradient_penalty(((expert,), None), ((policy,), None), mix).item())
    assert found == pytest.approx([found[0]] * 3, rel=1e-4)


def test_the_gradient_penalty_is_that_of_all_inputs_between_expert_and_policy(make_gail: Any) -> None:
    reward = make_gail(network_settings={"hidden_units": 8, "activation": "tanh"}, use_actions=True)
    generator = torch.Generator().manual_seed(1)
    width = reward.model.inputs.vector_size
    shapes = [(4, width), (4, COLUMNS)] * 2 + [(4, 1)]
    expert, expert_extra, policy, policy_extra, mix = (torch.rand(shape, generator=generator) for shape in shapes)
    found = reward.model.gradient_penalty(((expert,), expert_extra), ((policy,), policy_extra), mix)
    norms = []
    for k in range(4):
        point = torch.cat(
            [mix[k] * policy[k] + (1 - mix[k]) * expert[k], mix[k] * policy_extra[k] + (1 - mix[k]) * expert_extra[k]]
        )

        def logit(x: torch.Tensor) -> torch.Tensor:
            return reward.model.logits((x[None, :width],), x[None, width:])[0][0]

        norms.append(torch.autograd.functional.jacobian(logit, point).norm())
    assert found.item() == pytest.approx(float((torch.stack(norms) - 1).square().mean()), rel=1e-4)


def test_the_information_of_vail_is_a_divergence_from_the_standard_normal(make_gail: Any) -> None:
    model = make_gail(use_vail=True).model
    means = torch.randn(2, 4, 128, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        model.z_log_std.copy_(torch.linspace(-1.0, 0.5, 128))
        divergence = kl_divergence(Normal(means, model.z_log_std.exp().expand_as(means)), Normal(0.0, 1.0))
        torch.testing.assert_close(model.information(*means), divergence.sum(2).mean(1).sum())


def test_beta_of_vail_follows_the_information(make_gail: Any, rollout: Rollout) -> None:
    reward = make_gail(use_vail=True)
    model = reward.model
    for information, beta in ((10.5, 0.005), (0.5, 0.005), (0.0, 0.00475), (-30.0, 0.0)):
        model.adapt_beta(torch.tensor(information))
        assert model.beta.item() == pytest.approx(beta, abs=1e-8)
    torch.nn.init.ones_(model.z_log_std)  # a bottleneck that lets much through
    stats = reward.update(rollout(1))
    assert stats["Losses/GAIL KL Loss"] > 100.0 and stats["Policy/GAIL Beta"] == 0.0  # the weight in this step
    expected = 5e-4 * (stats["Losses/GAIL KL Loss"] - 0.5)
    assert reward.state_dict()["model"]["beta"] == pytest.approx(expected, rel=1e-5)


def test_minibatches_have_as_many_transitions_of_the_expert_as_of_the_agents(
    make_gail: Any, rollout: Rollout, recording: Recording
) -> None:
    reward = make_gail(batch_size=4, num_epoch=50)
    drawn = Drawn(reward)
    reward.update(rollout(1))
    assert [len(steps) for steps in drawn.steps] == [4, 4, 4, 3] * 50
    assert set(np.concatenate(drawn.steps)) == set(range(recording.transitions)), "some are never drawn"
    for name, array in recording.observations.items():
        np.testing.assert_array_equal(
            reward.expert.take(np.arange(len(reward.expert))).observations[name], array[recording.rows]
        )


def test_observations_are_normalized_by_expert_and_agents_in_equal_parts(make_gail: Any, rollout: Rollout) -> None:
    reward = make_gail(normalize_observations=True)
    given = rollout(1)
    drawn = Drawn(reward)
    reward.update(given)
    rows = np.concatenate([rows_of(given, False), rows_of(drawn.given[0], False)])
    np.testing.assert_allclose(reward.state_dict()["model"]["inputs.normalizer.mean"], rows.mean(0), rtol=1e-5)
