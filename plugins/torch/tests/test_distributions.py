# mypy: allow-untyped-calls
"""Distributions of continuous actions: rlcore's own against torch.distributions, and those that plugins register."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.distributions import Independent, Normal, TanhTransform, TransformedDistribution

from rlcore import BehaviorSpec, ConfigError, ObservationSpec, PluginError
from rlcore_devkit import ActionDistributionConformance
from rlcore_torch import (
    ActionDistribution,
    ActionDistributionSpec,
    Actor,
    ActorCritic,
    ActorPolicy,
    DeterministicTanh,
    Gaussian,
    NetworkSettings,
    squashed_gaussian,
)
from rlcore_torch.acceleration.numpy_actor import numpy_actor
from rlcore_torch.backend import Backend
from rlcore_torch.networks.distributions import BUILT_IN, LOG_STD_RANGE, StateDependentGaussian, make_distribution
from rlcore_torch.networks.settings import StateDependentGaussianSettings

SEEN = (ObservationSpec("seen", (2,), np.float32),)


def behavior(continuous: int = 2, discrete: tuple[int, ...] = ()) -> BehaviorSpec:
    bounds = np.ones(continuous, np.float32)
    return BehaviorSpec("Agent", SEEN, continuous, discrete, -2 * bounds, 2 * bounds)


# ---------------------------------------------------------------- rlcore's own


class TestGaussian(ActionDistributionConformance):
    distribution = "gaussian"


class TestStateDependentGaussian(ActionDistributionConformance):
    distribution = "rlcore-torch/state_dependent_gaussian"
    settings = {"min_log_std": -4.0}


class TestSquashedGaussian(ActionDistributionConformance):
    distribution = "squashed_gaussian"
    deterministic = "median"


@pytest.mark.parametrize("columns", [-20.0, -0.7, 0.0, 0.3, 20.0])
def test_a_deterministic_actor_draws_and_acts_with_the_tanh_of_its_output(columns: float) -> None:
    distribution = DeterministicTanh(behavior(2))
    output = torch.tensor([[columns, -columns]], requires_grad=True)
    noise = torch.tensor([[3.0, -3.0]])
    expected = np.tanh([[columns, -columns]])
    for raw in (distribution.deterministic(output), distribution.sample(output, noise)):
        np.testing.assert_allclose(raw.detach(), expected, atol=1e-6)
        [slope] = torch.autograd.grad(raw.sum(), output)
        np.testing.assert_allclose(slope, 1.0 - expected**2, atol=1e-6)
    draw = distribution.numpy_draw()
    for drawn in (draw(output.detach().numpy(), None), draw(output.detach().numpy(), noise.numpy())):
        assert drawn.dtype == np.float32
        np.testing.assert_allclose(drawn, expected, atol=1e-6)
    assert distribution.log_prob(output, torch.ones(1, 2)).isfinite().all() and not list(distribution.parameters())


def test_a_state_dependent_gaussian_has_a_deviation_within_limits_for_each_row() -> None:
    settings = StateDependentGaussianSettings(min_log_std=-1.0, max_log_std=0.5)
    made = StateDependentGaussian(behavior(), settings)
    columns = torch.randn(50, 4) * 2
    raw = torch.randn(50, 2)
    noise = torch.randn(50, 2)
    std = columns[:, 2:].clamp(-1.0, 0.5).exp()
    normal = Independent(Normal(columns[:, :2], std), 1)
    torch.testing.assert_close(made.log_prob(columns, raw), normal.log_prob(raw))
    torch.testing.assert_close(made.entropy(columns), normal.entropy())
    torch.testing.assert_close(made.sample(columns, noise), columns[:, :2] + std * noise)


@pytest.mark.parametrize("name", BUILT_IN)
def test_the_first_standard_deviation_is_the_one_that_was_given(name: str) -> None:
    settings = NetworkSettings(action_distribution=name, init="orthogonal")
    model = ActorCritic(behavior(), settings, value_heads=1, shared=False, initial_log_std=-1.5)
    distribution = model.policy_head.distribution
    assert distribution is not None and type(distribution) is BUILT_IN[name]
    columns, _ = model.policy((torch.zeros(1, 2),))
    assert columns is not None
    spread = distribution.sample(columns, torch.ones(1, 2)) - distribution.deterministic(columns)
    expected = np.tanh(np.exp(-1.5)) if name == "squashed_gaussian" else np.exp(-1.5)
    np.testing.assert_allclose(spread.detach(), np.full((1, 2), expected), rtol=1e-3)


# ---------------------------------------------------------------- a stranger's


class Laplace(ActionDistribution):
    """Density exp(-|x - column|) / 2 in each part: a draw has an exponential size and any sign."""

    noise_per_part = 2

    def __init__(self, settings: Any, behavior: BehaviorSpec) -> None:
        super().__init__(behavior)

    def sample(self, columns: Tensor, noise: Tensor) -> Tensor:
        first, second = noise.chunk(2, dim=1)  # half the sum of two squared normal numbers is exponential
        size: Tensor = 0.5 * (first.square() + second.square())
        return columns + size * torch.sign(first * second)

    def deterministic(self, columns: Tensor) -> Tensor:
        return columns + 0.0

    def log_prob(self, columns: Tensor, raw: Tensor) -> Tensor:
        return -((raw - columns).abs() + math.log(2)).sum(1)

    def entropy(self, columns: Tensor) -> Tensor:
        return (1 + math.log(2)) * torch.ones(len(columns)) * self.parts


def network(source: Any, **settings: Any) -> NetworkSettings:
    module = ModuleType("acme_distribution")
    module.Made = source  # type: ignore[attr-defined]
    sys.modules["acme_distribution"] = module
    record = ActionDistributionSpec(name="acme", target="acme_distribution:Made")
    return NetworkSettings(
        action_distribution="acme", records={"action_distribution": record}, hidden_units=8, **settings
    )


def test_a_policy_acts_by_the_distribution_of_a_plugin() -> None:
    spec = behavior(2, (3,))
    model = Actor(spec, network(Laplace, activation="tanh"))
    policy = ActorPolicy(spec, model, Backend(torch.device("cpu"), numpy_actor=numpy_actor))
    seen = {"seen": np.random.default_rng(0).standard_normal((6, 2), np.float32)}
    columns, logits = policy.parameters(seen, None)
    assert columns is not None and logits is not None
    noise = np.random.default_rng(1).standard_normal((6, 4), np.float32)
    raw, choices = policy.choose((columns, logits), (noise, np.zeros((6, 3), np.float32)))
    assert raw is not None
    size = 0.5 * (noise[:, :2] ** 2 + noise[:, 2:] ** 2) * np.sign(noise[:, :2] * noise[:, 2:])
    np.testing.assert_allclose(raw, columns + size, rtol=1e-5)
    np.testing.assert_array_equal(choices, logits.argmax(1)[:, None])
    given = (torch.from_numpy(noise), torch.zeros(6, 3))
    drawn = policy.module()({"seen": torch.from_numpy(seen["seen"])}, noise=given).continuous
    np.testing.assert_allclose(drawn, 2 * np.clip(raw, -1, 1), rtol=1e-4, atol=1e-6)
    policy.seed(4)
    snapshot = policy.snapshot()
    snapshot.seed(4)
    first, second = (each.act(seen, deterministic=False).continuous for each in (policy, snapshot))
    np.testing.assert_array_equal(first, second)


class Doubled(Gaussian):
    """A draw that the NumPy function of the base class does not know of."""

    def sample(self, columns: Tensor, noise: Tensor) -> Tensor:
        return columns + 2.0 * noise


def test_a_draw_in_numpy_that_is_not_that_of_the_module_is_not_used() -> None:
    spec = behavior()
    policy = ActorPolicy(spec, Actor(spec, NetworkSettings(), Doubled(spec)), Backend(torch.device("cpu")))
    ones = np.ones((1, 2), np.float32)
    raw, _ = policy.choose((0 * ones, None), (ones, ones))
    np.testing.assert_array_equal(raw, 2 * ones)


def raising(error: Exception) -> Any:
    def make(settings: Any, behavior: BehaviorSpec) -> ActionDistribution:
        raise error

    return make


def changed(**attributes: Any) -> type[Laplace]:
    return type("Changed", (Laplace,), attributes)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (
            raising(KeyError("alpha")),
            "'acme' failed for 2 continuous parts of an action: KeyError.*alpha",
        ),
        (lambda **_: nn.Identity(), "'acme': returned a Identity, not an ActionDistribution"),
        (changed(log_prob=lambda s, c, r: r - c), r"log_prob made \(\(2, 2\), torch.float32\) of 2 rows, not .*\(2,\)"),
        (changed(log_prob=lambda s, c, r: (r - r).sum(1).log()), "log_prob is not finite for columns of zeros"),
    ],
)
def test_a_distribution_that_cannot_be_used_is_named(source: Any, message: str) -> None:
    with pytest.raises(PluginError, match=message):
        make_distribution(network(source), behavior())


def test_settings_of_a_program_name_built_in_distributions_only() -> None:
    with pytest.raises(ConfigError, match=r"action_distribution: 'acme' is none of gaussian, .* plugin was not loaded"):
        make_distribution(NetworkSettings(action_distribution="acme"), behavior())


# ---------------------------------------------------------------- broken on purpose


class Broken(ActionDistributionConformance):
    """The rules, for a distribution that breaks one."""

    source: Any = Laplace

    def make(self, parts: int = 1) -> ActionDistribution:
        return make_distribution(network(self.source), behavior(parts))


FINITE = "everything_is_finite_for_large_columns_and_has_finite_gradients"


@pytest.mark.parametrize(
    ("attributes", "rule"),
    [
        ({"log_prob": lambda s, c, r: -(r - c).abs().sum(1)}, "the_density_integrates_to_one_and_is_that_of_the_draws"),
        ({"entropy": lambda s, c: torch.ones(len(c))}, "the_entropy_is_minus_the_mean_log_probability_of_draws"),
        ({"deterministic": lambda s, c: c + 1}, "the_deterministic_action_is_the_mode_the_mean_or_the_median"),
        ({"sample": lambda s, c, n: c + torch.randn_like(c)}, "a_draw_is_a_function_of_its_row_and_its_noise"),
        ({"bounded": True}, "draws_of_a_bounded_distribution_lie_within_its_bounds"),
        ({"entropy": lambda s, c: c.abs().sum(1).sqrt()}, FINITE),
        ({"sample": lambda s, c, n: c + n[:, : s.parts] if n.sum() > 0 else c}, "draws_can_be_exported"),
        ({"numpy_draw": lambda s: lambda c, n: c}, "numpy_draws_are_those_of_the_module"),
    ],
)
def test_a_broken_rule_is_noticed(attributes: dict[str, Any], rule: str) -> None:
    whole = Broken()
    broken = Broken()
    broken.source = changed(**attributes)
    getattr(whole, f"test_{rule}")()
    with pytest.raises((AssertionError, RuntimeError, TypeError)):
        getattr(broken, f"test_{rule}")()


# ---------------------------------------------------------------- squashed Gaussians

Draw = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]


def by_distributions(columns: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
    mean, log_std = columns.chunk(2, dim=1)
    log_std = log_std.clamp(*LOG_STD_RANGE)
    transform = TanhTransform(cache_size=1)  # so that log_prob knows what the action was made of
    distribution = TransformedDistribution(Normal(mean, log_std.exp()), [transform])
    action = transform(mean + log_std.exp() * noise)
    return action, distribution.log_prob(action).sum(-1)


def with_gradients(draw: Draw, columns: Tensor, noise: Tensor, weights: tuple[Tensor, Tensor]) -> list[Tensor]:
    columns = columns.clone().requires_grad_()
    action, log_prob = draw(columns, noise)
    loss = (action * weights[0]).sum() + (log_prob * weights[1]).sum()
    return [action, log_prob, *torch.autograd.grad(loss, columns)]


def compare(columns: Tensor, noise: Tensor) -> None:
    generator = torch.Generator().manual_seed(0)
    shapes = noise.shape, noise.shape[:1]
    weights = tuple(torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes)
    for only in (None, 0, 1):  # both outputs enter a loss, or one of them
        chosen = tuple(w if only in (None, k) else torch.zeros_like(w) for k, w in enumerate(weights))
        ours, theirs = (with_gradients(draw, columns, noise, chosen) for draw in (squashed_gaussian, by_distributions))  # type: ignore[arg-type]
        for mine, other in zip(ours, theirs, strict=True):
            # PyTorch's softplus drops exp(-20) beyond 20, and its Normal divides small differences by e^-20.
            torch.testing.assert_close(mine, other, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("u", [-40.0, -8.0, 0.0, 8.0, 40.0])
def test_values_and_gradients_are_those_of_torch_distributions_also_far_from_zero(u: float) -> None:
    generator = torch.Generator().manual_seed(1)
    columns = torch.randn(200, 6, generator=generator, dtype=torch.float64)
    columns[:, :3] += u
    noise = torch.randn(200, 3, generator=generator, dtype=torch.float64)
    compare(columns, noise)
    action, log_prob = squashed_gaussian(columns.float(), noise.float())
    assert log_prob.isfinite().all() and (action.abs() <= 1).all()
