# mypy: allow-untyped-calls
"""The Beta distribution: its density, its draws, and policies that act by it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rlcore import Run, load_policies
from rlcore.testing import ActionDistributionConformance, PluginConformance
from rlcore.testing.trainings import SmallTrainings
from rlcore.torch.distributions import ActionDistribution

SMALL = {"buffer_size": 256, "batch_size": 64, "learning_rate": 3e-3, "learning_rate_schedule": "constant"}
NETWORK = {"hidden_units": 32, "num_layers": 1, "activation": "tanh", "action_distribution": "beta"}


class TestPlugin(PluginConformance):
    plugin = "acme-beta"


class TestBeta(ActionDistributionConformance):
    distribution = "acme-beta/beta"
    deterministic = "mean"

    # From nearly uniform (alpha and beta close to 1) to narrow ones.
    SHAPES = ((1.0001, 1.0001), (1.001, 4.0), (1.7, 1.7), (3.0, 1.2), (60.0, 2.0), (400.0, 900.0))

    def shaped(self, alpha: float, beta: float) -> tuple[ActionDistribution, torch.Tensor]:
        """The distribution and its columns [1, 2]."""
        excess = torch.tensor([[alpha, beta]], dtype=torch.float64) - 1.0 - 1e-6
        return self.make(), torch.where(excess > 20, excess, excess.expm1().log()).float()

    @pytest.mark.parametrize("shape", SHAPES)
    def test_density_and_entropy_are_those_of_torch_distributions(self, shape: tuple[float, float]) -> None:
        made, column = self.shaped(*shape)
        theirs = torch.distributions.Beta(*torch.tensor(shape, dtype=torch.float64))
        raw = torch.linspace(-0.99, 0.99, 41)
        log_prob = theirs.log_prob((raw.double() + 1) / 2) - np.log(2)
        ours = made.log_prob(column.expand(41, -1), raw.unsqueeze(1)).double()
        torch.testing.assert_close(ours, log_prob, rtol=1e-4, atol=2e-3)
        torch.testing.assert_close(made.entropy(column)[0].double(), theirs.entropy() + np.log(2), rtol=1e-3, atol=1e-3)
        assert made.deterministic(column).item() == pytest.approx(2 * theirs.mean.item() - 1, abs=1e-3)

    @pytest.mark.parametrize("shape", SHAPES)
    def test_draws_are_those_of_numpys_beta(self, shape: tuple[float, float]) -> None:
        """The largest difference of two empirical distribution functions (Kolmogorov and Smirnov), at one in 1000."""
        made, column = self.shaped(*shape)
        count = 40_000
        noise = np.random.default_rng(1).standard_normal((count, made.noise_size), np.float32)
        ours = np.sort((made.sample(column.expand(count, -1), torch.from_numpy(noise)).numpy()[:, 0] + 1) / 2)
        theirs = np.sort(np.random.default_rng(2).beta(*shape, count))
        both = np.concatenate([ours, theirs])
        gap = np.searchsorted(ours, both, "right") - np.searchsorted(theirs, both, "right")
        assert np.abs(gap).max() / count < 1.95 * (2 / count) ** 0.5

    def test_the_gradient_of_a_draw_is_nearly_that_of_the_mean(self) -> None:
        """The draw differentiates only the accepted proposal, so a part of the gradient is left out."""
        for shape in ((1.1, 1.1), (1.7, 1.7), (3.0, 1.2), (60.0, 2.0)):
            made, column = self.shaped(*shape)
            column.requires_grad_()
            noise = torch.randn(100_000, made.noise_size, generator=torch.Generator().manual_seed(3))
            mean = made.sample(column.expand(100_000, -1), noise).mean()
            alpha, beta = 1 + torch.nn.functional.softplus(column[0])
            exact = torch.autograd.grad(2 * alpha / (alpha + beta), column)[0]
            torch.testing.assert_close(torch.autograd.grad(mean, column)[0], exact, rtol=0.15, atol=5e-4)


# ---------------------------------------------------------------- policies


@pytest.fixture
def trainings(tmp_path: Path) -> SmallTrainings:
    return SmallTrainings("ppo", tmp_path, SMALL, NETWORK)


def state(run: Run) -> Mapping[str, Any]:
    model: Mapping[str, Any] = run.behaviors["Agent"].trainer.state_dict()["model"]
    return model


@pytest.mark.parametrize("memory", [None, {"memory_size": 8, "sequence_length": 4}])
def test_equal_seeds_and_a_resumed_run_give_equal_policies(trainings: SmallTrainings, memory: Any) -> None:
    options: dict[str, Any] = {"network": {"memory": memory}, "max_steps": 1024, "checkpoint_interval": 512}
    with trainings.run("identity_hybrid", run_id="whole", **options) as run:
        run.train()
        whole = state(run)
    with trainings.run("identity_hybrid", run_id="cut", **{**options, "max_steps": 512}) as run:
        run.train()
        half = state(run)
    again = trainings.directory / "results/cut"
    config = again / "configuration.yaml"
    assert "action_distribution: beta" in config.read_text()
    with trainings.run("identity_hybrid", run_id="cut", start={"resume": True}, **options) as run:
        run.train()
        resumed = state(run)
    for name, array in whole.items():
        np.testing.assert_array_equal(resumed[name], array)
    assert any((half[name] != array).any() for name, array in whole.items())


def test_actions_are_learned_within_their_bounds(trainings: SmallTrainings) -> None:
    with trainings.run("identity_continuous", max_steps=20_480) as run:
        run.train()
        assert run.evaluate(episodes=20).behaviors["Agent"].mean_reward > 0.9 * 8  # the best is 8
        policy = run.behaviors["Agent"].policy
        module = policy.module()
        [seen] = policy.behavior.observations
        given = {seen.name: np.random.default_rng(0).uniform(-1, 1, (64, *seen.shape)).astype(np.float32)}
        expected = policy.act(given).continuous
    restored = load_policies(trainings.directory / "results/run")["Agent"]
    np.testing.assert_array_equal(restored.act(given).continuous, expected)
    exported = module({seen.name: torch.from_numpy(given[seen.name])}).continuous
    np.testing.assert_allclose(exported.detach().numpy(), expected, rtol=1e-5, atol=1e-6)
