"""The rules of :class:`rlcore_torch.ActionDistribution` as tests for authors of distributions to inherit.

::

    class TestMyDistribution(ActionDistributionConformance):
        distribution = "acme-beta/beta"
"""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from rlcore import BehaviorSpec, ObservationSpec
from rlcore_devkit.conformance.rules import RecordRules
from rlcore_torch import ActionDistribution, ActionDistributionSpec, NetworkSettings, make_distribution

DRAWS = 20_000  # the standard error of a share of them is at most 0.0036
FEATURES = 6  # of the last layer, for a distribution that reads them
ROWS = 5  # random columns that a test looks at


class ActionDistributionConformance(RecordRules):
    """Tests of distributions of actions: set ``distribution``.

    Attributes:
        distribution: The distribution, NAME or DIST/NAME, as installed.
        settings: The block ``action_distribution_settings``.
        deterministic: What a deterministic policy does: ``"mode"``, ``"mean"`` or ``"median"``.
        spread: Standard deviation of the columns that are drawn.
        skip: Names of tests that cannot hold, with the reason.
    """

    record_class = ActionDistributionSpec
    named = "distribution"
    distribution: ClassVar[str] = ""
    deterministic: ClassVar[Literal["mode", "mean", "median"]] = "mode"
    spread: ClassVar[float] = 0.7

    def make(self, parts: int = 1) -> ActionDistribution:
        """Return the distribution of that many continuous parts, as a policy's head has it."""
        network = NetworkSettings(
            action_distribution=self.distribution,
            action_distribution_settings=self.block(),
            records={"action_distribution": self.record()},
        )
        observation = ObservationSpec("state", (1,), np.float32)
        high = np.ones(parts, np.float32)
        low = -high
        behavior = BehaviorSpec("Agent", (observation,), parts, (), low, high)
        distribution = make_distribution(network, behavior)
        if distribution.reads_features:
            distribution.read_features(FEATURES)
        return distribution.requires_grad_(False)

    def columns(self, distribution: ActionDistribution, rows: int = ROWS) -> Tensor:
        """Return random columns [rows, width]."""
        generator = torch.Generator().manual_seed(1)
        columns = torch.randn(rows, distribution.width, generator=generator)
        return self.spread * columns

    def draws(self, distribution: ActionDistribution, column: Tensor) -> Tensor:
        """Return raw actions [draws, C] for one row of columns, ``column`` [1, width]."""
        columns = column.expand(DRAWS, -1)
        noise = normal(DRAWS, distribution.noise_size)
        return distribution.sample(columns, noise)

    @pytest.mark.parametrize("rows", [0, 1, 4])
    @pytest.mark.parametrize("parts", [1, 3])
    def test_results_have_a_row_for_each_observation(self, rows: int, parts: int) -> None:
        distribution = self.make(parts)
        columns = self.columns(distribution, rows)
        noise = normal(rows, distribution.noise_size)
        raw = distribution.sample(columns, noise)
        likely = distribution.deterministic(columns)
        log_prob = distribution.log_prob(columns, raw)
        entropy = distribution.entropy(columns)
        assert raw.shape == likely.shape == (rows, parts)
        assert log_prob.shape == (rows,)
        assert entropy.shape in ((rows,), ())  # one number may hold for all rows, as that of a fixed deviation does
        assert {raw.dtype, likely.dtype, log_prob.dtype} == {torch.float32}

    def test_a_draw_is_a_function_of_its_row_and_its_noise(self) -> None:
        distribution = self.make(2)
        columns = self.columns(distribution)
        noise = normal(ROWS, distribution.noise_size)
        before = torch.random.get_rng_state()
        raw = distribution.sample(columns, noise)
        again = distribution.sample(columns, noise)
        last_rows = distribution.sample(columns[2:], noise[2:])
        other_noise = distribution.sample(columns, noise.roll(1, 0))
        after = torch.random.get_rng_state()
        assert torch.equal(after, before), "the draw took PyTorch's own random numbers"
        torch.testing.assert_close(again, raw, rtol=0.0, atol=0.0)
        # Fewer rows may take another kernel, whose sums are in another order.
        torch.testing.assert_close(last_rows, raw[2:], rtol=1e-5, atol=1e-6)
        assert not torch.allclose(other_noise, raw), "the noise has no effect"

    def test_the_density_integrates_to_one_and_is_that_of_the_draws(self) -> None:
        distribution = self.make()
        for column in self._single_columns(distribution):
            draws = self.draws(distribution, column).flatten()
            ordered = draws.sort().values
            points, widths = grid(ordered, distribution.bounded)
            columns = column.expand(len(points), -1)
            log_density = distribution.log_prob(columns, points.unsqueeze(1))
            masses = log_density.exp().double() * widths
            computed = masses.cumsum(0)
            assert computed[-1].item() == pytest.approx(1.0, abs=0.01)
            # The largest difference between the distribution functions (Kolmogorov): 1.95 / sqrt(N) at one in 1000.
            allowed = 1.95 / DRAWS**0.5 + 0.01
            drawn = torch.searchsorted(ordered, points, right=True) / DRAWS
            difference = (drawn - computed).abs().max()
            assert difference.item() < allowed

    def test_the_entropy_is_minus_the_mean_log_probability_of_draws(self) -> None:
        distribution = self.make(2)
        for column in self._single_columns(distribution):
            draws = self.draws(distribution, column)
            log_prob = self._log_prob(distribution, column, draws)
            expected = -log_prob.mean().item()
            error = five_errors(log_prob)
            entropy = distribution.entropy(column).item()
            assert entropy == pytest.approx(expected, abs=error + 0.005)

    def test_the_deterministic_action_is_the_mode_the_mean_or_the_median(self) -> None:
        distribution = self.make()
        for column in self._single_columns(distribution):
            action = distribution.deterministic(column)
            draws = self.draws(distribution, column)
            if self.deterministic == "mode":
                log_probs = self._log_prob(distribution, column, draws)
                highest = log_probs.max().item()
                log_prob = distribution.log_prob(column, action)
                assert log_prob.item() >= highest - 1e-4
            elif self.deterministic == "mean":
                mean = draws.mean().item()
                error = five_errors(draws)
                assert action.item() == pytest.approx(mean, abs=error + 1e-5)
            else:
                # The share below the median is binomial: its standard error is 0.5 / sqrt(N), and five are allowed.
                error = 2.5 / DRAWS**0.5
                below = (draws < action).float().mean()
                assert below.item() == pytest.approx(0.5, abs=error)

    def _single_columns(self, distribution: ActionDistribution) -> Tensor:
        """Return rows of columns one by one, [rows, 1, width]."""
        return self.columns(distribution).unsqueeze(1)

    def _log_prob(self, distribution: ActionDistribution, column: Tensor, draws: Tensor) -> Tensor:
        """Return the log-probability of each of the ``draws`` for one row of columns."""
        columns = column.expand(DRAWS, -1)
        return distribution.log_prob(columns, draws).double()

    def test_draws_of_a_bounded_distribution_lie_within_its_bounds(self) -> None:
        distribution = self.make(2)
        if not distribution.bounded:
            return
        columns = 10.0 * self.columns(distribution, DRAWS)
        noise = normal(DRAWS, distribution.noise_size)
        raw = distribution.sample(columns, noise)
        likely = distribution.deterministic(columns)
        for actions in (raw, likely):
            assert actions.abs().max().item() <= 1.0

    def test_everything_is_finite_for_large_columns_and_has_finite_gradients(self) -> None:
        distribution = self.make(2)
        sizes = torch.tensor([-20.0, -1.0, 0.0, 1.0, 20.0])
        columns = sizes[:, None].repeat(1, distribution.width).requires_grad_()
        noise = normal(len(sizes), distribution.noise_size)
        raw = distribution.sample(columns, noise)
        drawn = raw.detach()
        results = [
            raw,
            distribution.deterministic(columns),
            distribution.entropy(columns),
            distribution.log_prob(columns, drawn),
            distribution.log_prob(columns, torch.sign(drawn)),  # at the bounds of a bounded distribution
        ]
        for result in results:
            assert result.isfinite().all().item()
            if result.requires_grad:
                [gradient] = torch.autograd.grad(result.sum(), columns, retain_graph=True)
                assert gradient.isfinite().all().item()

    def test_numpy_draws_are_those_of_the_module(self) -> None:
        distribution = self.make(2)
        draw = distribution.numpy_draw()
        if draw is None:
            return
        columns = self.columns(distribution)
        noise = normal(ROWS, distribution.noise_size)
        raw = draw(columns.numpy(), noise.numpy())
        likely = draw(columns.numpy(), None)
        expected_raw = distribution.sample(columns, noise)
        expected_likely = distribution.deterministic(columns)
        for by_numpy, by_module in ((raw, expected_raw), (likely, expected_likely)):
            np.testing.assert_allclose(by_numpy, by_module.numpy(), rtol=1e-4, atol=1e-5)

    def test_draws_can_be_exported(self) -> None:
        distribution = self.make(2)
        draws = Draws(distribution)
        columns = self.columns(distribution)
        noise = normal(ROWS, distribution.noise_size)
        program = torch.export.export(draws, (columns, noise))
        exported = program.module()
        torch.testing.assert_close(exported(columns, noise), draws(columns, noise))


class Draws(nn.Module):
    """The draw and the deterministic action of a distribution, as an exported policy computes them."""

    def __init__(self, distribution: ActionDistribution) -> None:
        super().__init__()
        self.distribution = distribution

    def forward(self, columns: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        drawn = self.distribution.sample(columns, noise)
        likely = self.distribution.deterministic(columns)
        return drawn, likely


def normal(rows: int, size: int) -> Tensor:
    """Return standard normal noise [rows, size]."""
    generator = torch.Generator().manual_seed(2)
    return torch.randn(rows, size, generator=generator)


def five_errors(numbers: Tensor) -> float:
    """Return five standard errors of the mean of :data:`DRAWS` numbers: one correct mean in two million is off more."""
    return 5.0 * numbers.std().item() / float(DRAWS**0.5)


def grid(draws: Tensor, bounded: bool) -> tuple[Tensor, Tensor]:
    """Return points between all that is likely to be drawn, in order, and the width of the cell around each."""
    if bounded:
        # tanh puts edges closer to each other near the bounds, where densities may be steep.
        edges = torch.linspace(-8.0, 8.0, 20_001, dtype=torch.float64).tanh()
    else:
        middle = draws.mean().double().item()
        reach = 12.0 * draws.std().double().item()
        first = middle - reach
        last = middle + reach
        edges = torch.linspace(first, last, 20_001, dtype=torch.float64)
    points = (edges[1:] + edges[:-1]) / 2
    return points.to(torch.float32), edges.diff()
