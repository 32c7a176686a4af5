"""The rules of optimizers, see :class:`rlcore_torch.OptimizerSpec`, as tests for authors of optimizers to inherit.

::

    class TestMyOptimizer(OptimizerConformance):
        optimizer = "acme-lion/lion"
        settings = {"weight_decay": 0.1}
"""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
import torch
from numpy.typing import NDArray
from torch import nn

from rlcore import RunStateError
from rlcore_devkit.conformance.rules import RecordRules
from rlcore_devkit.conformance.states import assert_equal, assert_resumes, copied, equal
from rlcore_torch import OptimizerSpec, PluginOptimizer


class OptimizerConformance(RecordRules):
    """Tests of optimizers: set ``optimizer``.

    Attributes:
        optimizer: The optimizer, NAME or DIST/NAME, as installed.
        settings: The block ``optimizer`` of the hyperparameters, without ``type``.
        learning_rate: A learning rate with which 200 steps come nearer to the minimum of a parabola.
        skip: Names of tests that cannot hold, with the reason.
    """

    record_class = OptimizerSpec
    named = "optimizer"
    optimizer: ClassVar[str] = ""
    learning_rate: ClassVar[float] = 0.01

    def make(self, parameters: list[nn.Parameter], learning_rate: float | None = None) -> PluginOptimizer:
        """Create the optimizer over ``parameters``, as the trainers of :mod:`rlcore_torch` do."""
        rate = self.learning_rate if learning_rate is None else learning_rate
        return PluginOptimizer(self.record(), self.block(), parameters, rate)

    # ------------------------------------------------------------ rules

    def test_steps_come_nearer_to_a_minimum(self) -> None:
        weights = parameters()
        optimizer = self.make(weights)
        first = take_steps(optimizer, weights, 200)
        assert distance(weights) < first, "200 steps did not come nearer to the minimum of a parabola"
        for parameter in weights:
            assert parameter.isfinite().all()

    def test_every_parameter_with_a_gradient_is_changed_and_no_other_one(self) -> None:
        """A layer that a loss does not reach has no gradient, and one that is frozen never has one."""
        weights = parameters()
        before = values(weights)
        optimizer = self.make(weights)
        optimizer.zero_grad()
        weights[0].square().sum().backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        after = values(weights)
        assert not equal(after[0], before[0])
        assert_equal(after[1:], before[1:], "changed without one")

    def test_obeys_the_learning_rate_of_a_schedule(self) -> None:
        """A schedule may end at 0: a step then changes nothing."""
        weights = parameters()
        optimizer = self.make(weights)
        take_steps(optimizer, weights, 3)
        before = values(weights)
        optimizer.learning_rate = 0.0
        take_steps(optimizer, weights, 1)
        assert_equal(values(weights), before, "read `lr` of the group")
        optimizer.learning_rate = self.learning_rate
        take_steps(optimizer, weights, 1)
        assert not equal(values(weights)[0], before[0])

    def test_equal_gradients_give_equal_steps_and_no_random_numbers_are_drawn(self) -> None:
        outcomes = []
        before = torch.random.get_rng_state()
        for _ in range(2):
            weights = parameters()
            optimizer = self.make(weights)
            take_steps(optimizer, weights, 5)
            outcomes.append(values(weights))
        assert_equal(outcomes[0], outcomes[1])
        after = torch.random.get_rng_state()
        assert torch.equal(after, before), "an optimizer must not draw random numbers"

    @pytest.mark.parametrize("steps", [0, 1, 7])
    def test_goes_on_from_its_state_as_if_never_stopped(self, steps: int) -> None:
        """Through a file, at the first step and later, with another learning rate than at first."""
        weights = parameters()
        optimizer = self.make(weights)
        take_steps(optimizer, weights, steps)
        optimizer.learning_rate = self.learning_rate / 2.0
        copies = [weight.detach().clone() for weight in weights]
        resumed_weights = [nn.Parameter(copy) for copy in copies]
        resumed = self.make(resumed_weights)

        def continue_with(stepped: PluginOptimizer) -> list[NDArray[Any]]:
            stepped_weights = weights if stepped is optimizer else resumed_weights
            stepped.learning_rate = self.learning_rate / 2.0
            take_steps(stepped, stepped_weights, 5)
            return values(stepped_weights)

        message = "keep what later steps need in `state` or in the groups"
        assert_resumes(optimizer, resumed, self.directory, continue_with, message)

    def test_a_state_of_other_parameters_is_refused_and_changes_nothing(self) -> None:
        weights = parameters()
        optimizer = self.make(weights)
        take_steps(optimizer, weights, 2)
        before = copied(optimizer.state_dict())
        if not before["parameters"]:
            pytest.skip("keeps nothing for a parameter")
        other_weights = [nn.Parameter(torch.ones(5, 5)) for _ in range(4)]
        other = self.make(other_weights)
        take_steps(other, other_weights, 2)
        state = copied(other.state_dict())
        with pytest.raises(RunStateError):
            optimizer.load_state_dict(state)
        assert_equal(optimizer.state_dict(), before, "a refused state changed the optimizer")


def parameters() -> list[nn.Parameter]:
    """Return a matrix, a vector and a number, away from zero."""
    generator = torch.Generator().manual_seed(1)
    weights = []
    for shape in ((3, 4), (4,), ()):
        values = 2.0 + torch.rand(shape, generator=generator)
        weights.append(nn.Parameter(values))
    return weights


def values(weights: list[nn.Parameter]) -> list[NDArray[Any]]:
    """Return copies of the parameters."""
    arrays = [weight.detach().numpy() for weight in weights]
    return [array.copy() for array in arrays]


def distance(weights: list[nn.Parameter]) -> float:
    """Return the value of the parabola, whose minimum is at 0."""
    squares = [weight.detach().square().sum() for weight in weights]
    return sum(float(square) for square in squares)


def take_steps(optimizer: PluginOptimizer, weights: list[nn.Parameter], steps: int) -> float:
    """Take steps on the parabola; return its value before them."""
    first = distance(weights)
    for _ in range(steps):
        optimizer.zero_grad()
        squares = [weight.square().sum() for weight in weights]
        total = torch.stack(squares).sum()
        total.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return first
