"""Distributions of the continuous parts of an action: rlcore's Gaussians, and those that plugins register.

A policy's head owns one :class:`ActionDistribution`, and everything goes through it: acting, log-probabilities,
entropies, imitation and exported policies. Continuous parts are independent given the observation.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from rlcore import BehaviorSpec, PluginError, blamed
from rlcore_torch.arrays import FloatArray
from rlcore_torch.networks.settings import NetworkSettings, StateDependentGaussianSettings

__all__ = ["ActionDistribution", "DeterministicTanh", "Gaussian", "SquashedGaussian", "StateDependentGaussian"]

LOG_STD_RANGE = (-20.0, 2.0)
"""Limits of the log standard deviation of squashed Gaussians (Haarnoja et al. 2018, as in their code)."""

# Columns [R, columns * C] and noise [R, noise_size], or None to act deterministically, to raw actions [R, C].
NumpyDraw = Callable[[FloatArray, FloatArray | None], FloatArray]


class ActionDistribution(nn.Module):
    """The distribution of C continuous parts of an action; base class of all of them.

    The head of the policy gives each observation ``columns`` numbers for each part: first the first numbers of all C
    parts, then all second ones, and so on. A draw is a function of these columns and of ``noise_per_part`` standard
    normal numbers for each part, laid out in the same way. So equal seeds give equal draws, and the same function is
    exported. Parameters and buffers of the module are saved with the policy, and learn with it.

    A *raw* action is what the distribution draws, and what a loss needs. The environment gets it clipped to [-1, 1] and
    stretched to its bounds; a part without bounds passes unchanged. With ``bounded``, draws lie within [-1, 1], and
    actions without bounds are refused.

    A subclass implements :meth:`sample`, :meth:`deterministic`, :meth:`log_prob` and :meth:`entropy` with operations of
    PyTorch, on any device and without branches that depend on values, so that policies can be traced and exported.
    Gradients of all four with respect to the columns must be finite; ``behavioral_cloning`` uses that of
    :meth:`sample`.

    Attributes:
        columns: Numbers that the head of the policy gives for each part.
        noise_per_part: Standard normal numbers that a draw of each part needs.
        bounded: Whether draws lie within [-1, 1]; actions without bounds are refused then.
        reads_features: Whether the features of the policy's last layer follow the columns; see :meth:`read_features`.
        features: The number of these features; 0 without them.
        hold: Environment steps for which an agent that explores keeps :attr:`held_size` numbers; see :meth:`noise_of`.
        parts: C, the number of continuous parts.
    """

    columns: int = 1
    noise_per_part: int = 1
    bounded: bool = False
    reads_features: bool = False
    features: int = 0
    hold: int = 1

    def __init__(self, behavior: BehaviorSpec) -> None:
        super().__init__()
        self.parts = behavior.continuous  # C

    @property
    def width(self) -> int:
        """The numbers of a row of columns: ``columns`` for each part, and the features after them."""
        return self.columns * self.parts + self.features

    @property
    def noise_size(self) -> int:
        """The standard normal numbers that one draw needs."""
        return self.parts * self.noise_per_part

    def sample(self, columns: Tensor, noise: Tensor) -> Tensor:
        """Raw actions [B, C], a draw for ``columns`` [B, columns * C] made of ``noise`` [B, noise_size]."""
        raise NotImplementedError

    def deterministic(self, columns: Tensor) -> Tensor:
        """Raw actions [B, C] of a policy that acts deterministically: the mode, the mean or the median.

        All three are the mean of a Gaussian. For other distributions, choose what earns most.
        """
        raise NotImplementedError

    def log_prob(self, columns: Tensor, raw: Tensor) -> Tensor:
        """The logarithm [B] of the joint density of ``raw`` [B, C], finite for all raw actions that can occur.

        Recorded actions can lie at the bounds, where raw actions are exactly -1 and 1.
        """
        raise NotImplementedError

    def entropy(self, columns: Tensor) -> Tensor:
        """The joint differential entropy in nats, [B]; a scalar if it does not depend on the observation."""
        raise NotImplementedError

    def initialize(self, weight: Tensor, bias: Tensor) -> None:
        """Change the initial rows of the head: ``weight`` [columns * C, features] and ``bias`` [columns * C], in place.

        Called once, without gradients, after ``network_settings.init`` gave the weights small values and the biases 0
        (``uniform``: PyTorch's own). By default they stay as they are.
        """

    def read_features(self, features: int) -> None:
        """Learn how many features follow the columns, before the first call of any other method.

        Called once for a distribution that ``reads_features``. Columns are then [B, columns * C + features].
        """

    @property
    def held_size(self) -> int:
        """The standard normal numbers that an agent keeps for ``hold`` steps while it explores."""
        return self.noise_size

    def noise_of(self, columns: FloatArray, held: FloatArray) -> FloatArray:
        """The noise [R, noise_size] of a draw while exploring, of numbers that are held [R, held_size].

        Seen over all held numbers, it must be standard normal. By default the held numbers are the noise.
        """
        return held

    def sample_log_prob(self, columns: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Draws [B, C] as of :meth:`sample`, and their joint log-probability [B]; differentiable in ``columns``.

        SAC needs it: computed from the draw alone, the log-probability would be wrong where tanh rounds. A record with
        ``log_prob_of_draws`` says that a distribution implements it.
        """
        raise NotImplementedError

    def numpy_draw(self) -> NumpyDraw | None:
        """Return a function that computes :meth:`sample` and :meth:`deterministic` in NumPy, or None, the default.

        NumPy is faster for a few rows. Called again after parameters changed. It is used only if its results
        equal those of the module on a few rows.
        """
        return None


class Gaussian(ActionDistribution):
    """A Gaussian whose standard deviation does not depend on the observation, as in ML-Agents and the PPO paper.

    The column of a part is its mean. ``log_std`` [C], a parameter, has the logarithms of the standard deviations.
    """

    def __init__(self, behavior: BehaviorSpec, settings: None = None, initial_log_std: float = 0.0) -> None:
        super().__init__(behavior)
        initial = torch.full((self.parts,), initial_log_std)
        self.log_std = nn.Parameter(initial)

    def sample(self, columns: Tensor, noise: Tensor) -> Tensor:
        return columns + self.log_std.exp() * noise

    def deterministic(self, columns: Tensor) -> Tensor:
        return columns

    def log_prob(self, columns: Tensor, raw: Tensor) -> Tensor:
        return gaussian_log_prob(columns, self.log_std, raw)

    def entropy(self, columns: Tensor) -> Tensor:
        return gaussian_entropy(self.log_std)

    def numpy_draw(self) -> NumpyDraw:
        log_std = self.log_std.detach().cpu().numpy()
        std: FloatArray = np.exp(log_std)

        def draw(columns: FloatArray, noise: FloatArray | None) -> FloatArray:
            if noise is None:
                return columns
            return columns + std * noise

        return draw


class StateDependentGaussian(ActionDistribution):
    """A Gaussian whose mean and standard deviation depend on the observation.

    The columns of a part are its mean and the logarithm of its standard deviation, which is limited to ``limits``.
    """

    columns = 2

    def __init__(
        self,
        behavior: BehaviorSpec,
        settings: StateDependentGaussianSettings | None = None,
        initial_log_std: float = 0.0,
    ) -> None:
        super().__init__(behavior)
        settings = settings or StateDependentGaussianSettings()
        self.limits = (settings.min_log_std, settings.max_log_std)
        self.initial_log_std = initial_log_std

    def initialize(self, weight: Tensor, bias: Tensor) -> None:
        bias[self.parts :] += self.initial_log_std

    def mean_log_std(self, columns: Tensor) -> tuple[Tensor, Tensor]:
        """Means [B, C] and logarithms of standard deviations [B, C] within the limits."""
        mean, log_std = columns.chunk(2, dim=1)
        return mean, log_std.clamp(*self.limits)

    def sample(self, columns: Tensor, noise: Tensor) -> Tensor:
        mean, log_std = self.mean_log_std(columns)
        return mean + log_std.exp() * noise

    def deterministic(self, columns: Tensor) -> Tensor:
        return columns[:, : self.parts]

    def log_prob(self, columns: Tensor, raw: Tensor) -> Tensor:
        mean, log_std = self.mean_log_std(columns)
        scaled = (raw - mean) * torch.exp(-log_std)
        distance = -0.5 * scaled.square().sum(-1)
        return distance - log_std.sum(-1) - HALF_LOG_2PI * self.parts

    def entropy(self, columns: Tensor) -> Tensor:
        _, log_std = self.mean_log_std(columns)
        return gaussian_entropy(log_std)

    def numpy_draw(self) -> NumpyDraw | None:
        parts = self.parts
        limits = self.limits

        def draw(columns: FloatArray, noise: FloatArray | None) -> FloatArray:
            mean: FloatArray = columns[:, :parts]
            if noise is None:
                return mean
            log_std = np.clip(columns[:, parts:], *limits)
            std: FloatArray = np.exp(log_std)
            return mean + std * noise

        return draw


class SquashedGaussian(StateDependentGaussian):
    """A Gaussian whose draws pass through tanh (Haarnoja et al. 2018, arXiv:1801.01290, appendix C).

    The columns are those of :class:`StateDependentGaussian`. A deterministic policy acts with the tanh of the mean,
    which is the median of the distribution; the mode would often lie at a bound.

    Attributes:
        nodes: [6] variances of the Gaussians whose mixture :meth:`entropy` uses.
        weights: [6] their shares.
    """

    bounded = True
    nodes: Tensor
    weights: Tensor

    def __init__(self, behavior: BehaviorSpec, settings: None = None, initial_log_std: float = 0.0) -> None:
        super().__init__(behavior, None, initial_log_std)
        self.limits = LOG_STD_RANGE
        deviations = torch.tensor(_DEVIATIONS)
        self.register_buffer("nodes", deviations.square(), persistent=False)
        self.register_buffer("weights", torch.tensor(_SHARES), persistent=False)

    def sample(self, columns: Tensor, noise: Tensor) -> Tensor:
        return super().sample(columns, noise).tanh()

    def deterministic(self, columns: Tensor) -> Tensor:
        return super().deterministic(columns).tanh()

    def log_prob(self, columns: Tensor, raw: Tensor) -> Tensor:
        # tanh rounds to 1 from about 9 on, and nothing finite has the tanh 1.
        within = raw.clamp(-_LARGEST_TANH, _LARGEST_TANH)
        u = within.atanh()
        # log(1 - tanh(u)^2) - log 4, by the identity of `squashed_draw`.
        log_slope = -2.0 * (u + softplus(-2.0 * u))
        return super().log_prob(columns, u) - log_slope.sum(-1) - LOG_4 * self.parts

    def sample_log_prob(self, columns: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        mean, log_std = self.mean_log_std(columns)
        return squashed_draw(mean, log_std, noise)

    def entropy(self, columns: Tensor) -> Tensor:
        """Return the entropy [B], the Gaussian's and the mean of log(1 - tanh(u)^2); exact to 1e-5 for each part.

        log(1 - tanh(u)^2) is log 4 - 2 E|u - v| for logistic v with the scale 1/2. As v is a mixture of Gaussians, so
        is u - v, and E|x| of a Gaussian is known.
        """
        mean, log_std = self.mean_log_std(columns)
        mean = mean.unsqueeze(2)  # [B, C, 1]
        of_draws = (2.0 * log_std).exp().unsqueeze(2)
        variance = of_draws + self.nodes  # [B, C, 6], of u - v
        # E|x| of a normal x with this mean and variance.
        ratio = mean * (2.0 * variance).rsqrt()
        of_zero_mean = (variance * (2.0 / math.pi)).sqrt()
        distance = of_zero_mean * (-ratio.square()).exp() + mean * ratio.erf()
        mean_distance = (distance * self.weights).sum((1, 2))  # [B]
        return gaussian_entropy(log_std) - 2.0 * mean_distance + LOG_4 * self.parts

    def numpy_draw(self) -> NumpyDraw | None:
        gaussian = super().numpy_draw()
        assert gaussian is not None
        return lambda columns, noise: np.tanh(gaussian(columns, noise))


class DeterministicTanh(SquashedGaussian):
    """The tanh of one column for each part: the policy of a deterministic actor, as in DDPG and TD3.

    No part of it learns. Draws are those of a :class:`SquashedGaussian` with a fixed standard deviation, which is so
    small by default that they are the deterministic actions; a trainer adds the noise of its exploration.

    Attributes:
        log_std: The logarithm of the standard deviation, before tanh.
    """

    columns = 1

    def __init__(self, behavior: BehaviorSpec, log_std: float = LOG_STD_RANGE[0]) -> None:
        super().__init__(behavior)
        self.log_std = log_std

    def mean_log_std(self, columns: Tensor) -> tuple[Tensor, Tensor]:
        return columns, torch.full_like(columns, self.log_std)

    def numpy_draw(self) -> NumpyDraw:
        std = np.float32(math.exp(self.log_std))

        def draw(columns: FloatArray, noise: FloatArray | None) -> FloatArray:
            if noise is not None:
                columns = columns + std * noise
            action: FloatArray = np.tanh(columns)
            return action

        return draw


_LARGEST_TANH = 1.0 - 2.0**-23  # just below 1 in float32, so that its atanh is finite
HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)
LOG_4 = 2.0 * math.log(2.0)
# Standard deviations, and their shares, of Gaussians whose mixture is logistic with the scale 1/2. Deviations of the
# exact mixture have Kolmogorov's distribution (Andrews and Mallows 1974, "Scale mixtures of normal distributions");
# these are the Gauss rule of six nodes for the logarithm of a deviation.
_DEVIATIONS = (0.38375648, 0.52291301, 0.71970643, 1.00573770, 1.40317882, 1.94358906)
_SHARES = (0.00748472, 0.13130283, 0.39785672, 0.35767482, 0.10042087, 0.00526004)


def gaussian_log_prob(mean: Tensor, log_std: Tensor, raw: Tensor) -> Tensor:
    """log N(raw; mean, diag(exp(log_std))^2), summed over parts: [B] from [B, C], [C], [B, C]."""
    scaled = (raw - mean) * torch.exp(-log_std)
    constant = log_std.sum() + HALF_LOG_2PI * mean.shape[-1]  # [], equal for all rows
    return -0.5 * scaled.square().sum(-1) - constant


def gaussian_entropy(log_std: Tensor) -> Tensor:
    """Entropy of diagonal Gaussians in nats: a scalar for log_std [C], [B] for [B, C]."""
    of_unit_variance = 0.5 * (1.0 + math.log(2 * math.pi))  # of one part
    return log_std.sum(-1) + of_unit_variance * log_std.shape[-1]


def squashed_draw(mean: Tensor, log_std: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
    """Actions tanh(mean + std * noise) [B, C] and their joint log-probability [B], before tanh rounds.

    log(1 - tanh(u)^2) is 2 (log 2 - u - softplus(-2u)), which does not cancel for large u.
    """
    u = mean + log_std.exp() * noise
    constant = 0.5 * noise.square().sum(-1) + (HALF_LOG_2PI + LOG_4) * noise.shape[1]
    shrinking = 2.0 * (u + softplus(-2.0 * u))  # log 4 - log(1 - tanh(u)^2)
    log_prob = -(log_std - shrinking).sum(-1) - constant
    return u.tanh(), log_prob


# ---------------------------------------------------------------- by name

BUILT_IN: dict[str, Callable[..., ActionDistribution]] = {
    "gaussian": Gaussian,
    "state_dependent_gaussian": StateDependentGaussian,
    "squashed_gaussian": SquashedGaussian,
}
DEFAULT = "gaussian"  # of trainers that let ``action_distribution`` choose


def make_distribution(
    settings: NetworkSettings, behavior: BehaviorSpec, initial_log_std: float = 0.0
) -> ActionDistribution:
    """The distribution that ``settings`` names for the continuous parts of the actions of ``behavior``.

    ``initial_log_std`` is the logarithm of the first standard deviation of distributions whose record asks for it.
    Raises PluginError, which names the record and its plugin, if the distribution is not as
    :class:`ActionDistributionSpec` describes; ConfigError if ``settings`` names a distribution that was not found when
    the configuration was loaded.
    """
    if settings.action_distribution is None:
        return Gaussian(behavior, None, initial_log_std)
    make, described = settings.target("action_distribution", BUILT_IN)
    record = settings.records.get("action_distribution")
    arguments = {"behavior": behavior, "settings": settings.action_distribution_settings}
    if record is None or record.initial_log_std:
        arguments["initial_log_std"] = initial_log_std
    with blamed(described, f"for {behavior.continuous} continuous parts of an action"):
        distribution = make(**arguments)
        if not isinstance(distribution, ActionDistribution):
            raise PluginError(f"{described}: returned a {type(distribution).__name__}, not an ActionDistribution")
        problem = _problem(distribution)
    if problem is not None:
        raise PluginError(f"{described}: {problem}")
    return distribution


_ROWS = 2  # of the batch that a distribution is tried with


@torch.no_grad()
def _problem(distribution: ActionDistribution) -> str | None:
    """What is wrong with the results of a distribution for columns of zeros; None for nothing."""
    for name in ("columns", "noise_per_part"):
        number = getattr(distribution, name)
        if not isinstance(number, int) or number < 1:
            return f"{name} must be a whole number of at least 1, not {number!r}"
    # A generator of its own: PyTorch's, which initial weights are drawn from, stays where it is.
    generator = torch.Generator().manual_seed(0)
    columns = torch.zeros(_ROWS, distribution.width)
    noise = torch.randn(_ROWS, distribution.noise_size, generator=generator)
    raw = distribution.sample(columns, noise)
    actions = (_ROWS, distribution.parts)
    numbers = (_ROWS,)
    results: dict[str, tuple[Any, list[tuple[int, ...]]]] = {
        "sample": (raw, [actions]),
        "deterministic": (distribution.deterministic(columns), [actions]),
        "log_prob": (distribution.log_prob(columns, raw), [numbers]),
        "entropy": (distribution.entropy(columns), [numbers, ()]),
    }
    for name, (result, shapes) in results.items():
        form: Any = type(result).__name__
        if isinstance(result, Tensor):
            form = (tuple(result.shape), result.dtype)
        if form not in [(shape, torch.float32) for shape in shapes]:
            return f"{name} made {form} of {_ROWS} rows, not torch.float32 {' or '.join(map(str, shapes))}"
        if not bool(result.isfinite().all()):
            return f"{name} is not finite for columns of zeros"
    return None
