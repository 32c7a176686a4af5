"""gSDE: the noise of agents that explore, and the distribution that it is seen as."""

# mypy: allow-untyped-calls
from __future__ import annotations

from typing import Any, ClassVar

import attrs
import numpy as np
import pytest
import torch
from torch.distributions import Independent, Normal, TanhTransform, TransformedDistribution

from rlcore import BehaviorSpec, ObservationSpec
from rlcore_devkit import ActionDistributionConformance
from rlcore_torch import Actor, NetworkSettings
from rlcore_torch.networks.actions import ActionNoise
from rlcore_torch.networks.distributions import ActionDistribution
from rlcore_torch.networks.gsde import GSDE, SquashedGSDE
from rlcore_torch.networks.settings import GSDESettings, SquashedGSDESettings

PARTS = 2
FEATURES = 4
BOUNDS = np.ones(PARTS, np.float32)
SEEN = (ObservationSpec("seen", (3,), np.float32),)
BEHAVIOR = BehaviorSpec("Agent", SEEN, PARTS, (3,), -BOUNDS, BOUNDS, np.arange(2))


class TestGSDE(ActionDistributionConformance):
    distribution = "gsde"
    settings: ClassVar[Any] = {"initial_log_std": -1.0}


class TestSquashedGSDE(ActionDistributionConformance):
    distribution = "squashed_gsde"
    settings: ClassVar[Any] = {"initial_log_std": -1.0}
    deterministic = "median"


def made(kind: type[GSDE] | type[SquashedGSDE], **settings: Any) -> Any:
    chosen = (SquashedGSDESettings if kind is SquashedGSDE else GSDESettings)(**settings)
    distribution = kind(BEHAVIOR, chosen)  # type: ignore[arg-type]
    distribution.read_features(FEATURES)
    torch.manual_seed(0)
    with torch.no_grad():
        distribution.log_std.add_(0.7 * torch.randn_like(distribution.log_std))
    return distribution


def given(rows: int = 3) -> torch.Tensor:
    return torch.randn(rows, PARTS + FEATURES, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("settings", [{}, {"full_std": False}, {"expln": True, "initial_log_std": 0.5}])
def test_the_standard_deviation_is_that_of_the_noise_over_all_matrices(settings: dict[str, Any]) -> None:
    gsde = made(GSDE, **settings)
    columns = given()
    draws = 100_000
    sigma = gsde.log_std.detach().expand(FEATURES, PARTS)
    sigma = torch.where(sigma > 0, (1 + sigma).log() + 1, sigma.exp()) if "expln" in settings else sigma.exp()
    generator = torch.Generator().manual_seed(2)
    drawn = torch.randn(draws, FEATURES, PARTS, generator=generator) * sigma  # W
    noise = torch.einsum("bd,ndc->nbc", columns[:, PARTS:], drawn)
    mean, log_std = gsde.mean_log_std(columns)
    torch.testing.assert_close(mean, columns[:, :PARTS])
    # The standard deviation of n normal numbers has the relative standard error 1 / sqrt(2n): 0.0022.
    torch.testing.assert_close(log_std.exp(), noise.std(0), rtol=5 / (2 * draws) ** 0.5, atol=0.0)
    normal = Independent(Normal(columns[:, :PARTS], log_std.exp()), 1)
    raw = columns[:, :PARTS] + noise[0]
    torch.testing.assert_close(gsde.log_prob(columns, raw), normal.log_prob(raw))
    torch.testing.assert_close(gsde.entropy(columns), normal.entropy())


def test_an_agent_that_explores_adds_its_own_matrix_times_the_features() -> None:
    gsde = made(GSDE)
    columns = given(2)
    held = np.random.default_rng(3).standard_normal((2, gsde.held_size), np.float32)
    noise = gsde.noise_of(columns.numpy(), held)
    raw = gsde.sample(columns, torch.from_numpy(noise)).detach()
    for row in range(2):
        matrix = torch.from_numpy(held[row]).view(FEATURES, PARTS) * gsde.log_std.exp().detach()
        expected = columns[row, :PARTS] + columns[row, PARTS:] @ matrix
        torch.testing.assert_close(raw[row], expected, rtol=1e-4, atol=1e-5)


def test_squashed_draws_have_the_log_probability_of_a_normal_through_tanh() -> None:
    gsde = made(SquashedGSDE, clip_mean=0.5)
    columns = given(50)
    noise = torch.randn(50, PARTS)
    mean = columns[:, :PARTS].clamp(-0.5, 0.5)
    std = gsde.mean_log_std(columns)[1].exp()
    peer = TransformedDistribution(Independent(Normal(mean, std), 1), [TanhTransform(cache_size=1)])
    action, log_prob = gsde.sample_log_prob(columns, noise)
    torch.testing.assert_close(action, (mean + std * noise).tanh())
    torch.testing.assert_close(gsde.sample(columns, noise), action)
    torch.testing.assert_close(log_prob, peer.log_prob(action), rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(gsde.deterministic(columns), mean.tanh())
    assert bool((gsde.deterministic(20.0 * columns).abs() <= np.tanh(0.5) + 1e-6).all())


@pytest.mark.parametrize(("kind", "learned"), [(GSDE, False), (SquashedGSDE, True)])
def test_features_learn_from_the_size_of_the_noise_only_in_the_squashed_form(kind: Any, learned: bool) -> None:
    gsde = made(kind)
    columns = given().requires_grad_()
    gsde.log_prob(columns, torch.full((3, PARTS), 0.3)).sum().backward()
    assert columns.grad is not None
    assert bool((columns.grad[:, PARTS:] != 0).any()) is learned
    assert gsde.log_std.grad is not None and bool((gsde.log_std.grad != 0).all())


def test_the_features_of_the_last_layer_follow_the_means() -> None:
    behavior = attrs.evolve(BEHAVIOR, discrete=(3,))
    model = Actor(behavior, NetworkSettings(hidden_units=FEATURES, activation="tanh"), GSDE(behavior))
    inputs = (torch.randn(5, 3),)
    columns, logits = model.policy(inputs)
    assert columns is not None and logits is not None and model.policy_head.continuous == PARTS + FEATURES
    features = model.actor(inputs)
    together = model.policy_head.linear(features)
    torch.testing.assert_close(columns, torch.cat((together[:, :PARTS], features), dim=1))
    torch.testing.assert_close(logits, together[:, PARTS:])


@pytest.mark.parametrize("hold", [1, 3])
@pytest.mark.parametrize("stopped", range(8))
def test_each_agent_keeps_its_numbers_for_so_many_steps_also_across_a_checkpoint(hold: int, stopped: int) -> None:
    def source() -> ActionNoise:
        return ActionNoise(BEHAVIOR, 4, np.random.default_rng(0), 5, hold=hold)

    def drawn(noise: ActionNoise, steps: int) -> list[tuple[Any, Any]]:
        return [(gaussian.tolist(), gumbel.tolist()) for gaussian, gumbel in (noise.next() for _ in range(steps))]

    whole = drawn(source(), 20)
    for step, (gaussian, gumbel) in enumerate(whole):
        assert (gaussian == whole[step - 1][0]) is (step % hold != 0)
        assert gumbel != whole[step - 1][1] and gaussian[0] != gaussian[1]
    first = source()
    before = drawn(first, stopped)
    second = ActionNoise(BEHAVIOR, 4, first._generator, 5, hold=hold)
    second.load_state_dict(first.state_dict())
    assert before + drawn(second, 20 - stopped) == whole


def test_a_distribution_without_features_holds_nothing() -> None:
    plain = ActionDistribution(BEHAVIOR)
    held = np.ones((2, plain.held_size), np.float32)
    assert plain.hold == 1 and plain.noise_of(held, held) is held
