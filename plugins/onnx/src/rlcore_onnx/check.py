"""The check of an exported file: its structure, and its numbers against the policy that it was made from."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from onnx import shape_inference
from torch import Tensor, nn

from rlcore import BehaviorSpec, PluginError
from rlcore_onnx.actions import SMALLEST
from rlcore_onnx.examples import example_mask, example_observations
from rlcore_onnx.session import Arrays, Session
from rlcore_torch import ActionLayout, PolicyModule

__all__ = ["Comparison", "check_structure", "gumbel_noise"]

ROWS = (1, 2, 7)
STEPS = 4


def check_structure(model: onnx.ModelProto) -> None:
    """Check the model against the standard, and infer the shapes of all tensors. Raises PluginError."""
    try:
        onnx.checker.check_model(model, full_check=True)
        shape_inference.infer_shapes(model, check_type=True, strict_mode=True)
    except (onnx.checker.ValidationError, shape_inference.InferenceError) as error:
        raise PluginError(f"the file is not a valid ONNX model: {error}") from error


class Comparison:
    """A comparison of a file with the policy that it was made from.

    Observations and noise are random; batches have several sizes, and memory is carried over several steps.
    Deterministic actions and memory are compared with those of ``policy.act``, drawn ones with those that ``module``
    draws with the same noise. Equal options say little about the numbers behind them, so the logits are compared too:
    ``logits`` is the file with the masked logits as the output ``extra``; None if the file has none.

    A difference is in parts of the value, and at least of 1. For an action with bounds, it is in parts of the bounds.
    Rounding grows with the numbers that a network makes, so the differences of actions and logits are also in parts of
    the largest number of the network's last layer.
    """

    def __init__(
        self,
        session: Session,
        logits: Session | None,
        policy: Any,
        module: nn.Module,
        behavior: BehaviorSpec,
        tolerance: float,
    ) -> None:
        self.session, self.logits, self.policy, self.module = session, logits, policy, module
        self.behavior = behavior
        self.layout = ActionLayout(behavior)
        self.tolerance = tolerance
        self.largest = 0.0
        self.magnitude = 1.0  # of the numbers that the last layer makes of one batch
        self.generator = np.random.default_rng(0)
        sizes = np.maximum(np.abs(self.layout.low), np.abs(self.layout.high))
        self.sizes = np.where(np.isfinite(self.layout.clip), np.maximum(sizes, 1), 1)

    @torch.no_grad()
    def run(self) -> float:
        """Compare, and return the largest difference.

        Raises PluginError for a difference larger than ``tolerance``, for an option whose logit is not the largest by
        more than ``tolerance``, and for results that are not finite where no option is allowed.
        """
        inputs, size = self.session.metadata.inputs, self.session.metadata.behavior.memory_size
        for rows in ROWS:
            memory = np.zeros((rows, size), np.float32) if size else None
            for _ in range(STEPS):
                observations = example_observations(self.behavior, self.module, rows, self.generator)
                mask = None if inputs.action_mask is None else example_mask(self.layout, rows, self.generator)
                epsilon = self.generator.standard_normal((rows, inputs.epsilon_size), np.float32)
                found = self.session(observations, mask, memory, epsilon)
                self._compare(found, observations, mask, memory, epsilon)
        if inputs.action_mask is not None:
            self._trial_run()
        if not self.largest <= self.tolerance:  # also for NaN
            raise PluginError(
                f"onnxruntime and the policy differ by {self.largest:.2g}, which is more than tolerance "
                f"({self.tolerance:g}); the file was deleted"
            )
        return self.largest

    def _compare(
        self,
        found: Arrays,
        observations: Arrays,
        mask: NDArray[np.bool_] | None,
        memory: NDArray[np.float32] | None,
        epsilon: NDArray[np.float32],
    ) -> None:
        """Compare the results for one batch; ``memory`` becomes that after the step."""
        tensors = {name: torch.from_numpy(array) for name, array in observations.items()}
        given = [None if array is None else torch.from_numpy(array.copy()) for array in (mask, memory)]
        logits = None
        if isinstance(self.module, PolicyModule):
            made = self.module.distribution_parameters(tensors, None, given[1])[:2]
            self.magnitude = max([1.0, *(float(each.abs().max()) for each in made if each is not None)])
            logits = _numpy(self.module.distribution_parameters(tensors, *given)[1])
            if self.logits is not None and logits is not None:
                self._numbers(self.logits(observations, mask, memory, epsilon)["extra"], logits, self.magnitude)
        expected = self.policy.act(observations, mask, True, *(() if memory is None else (memory,)))
        self._continuous(found.get("deterministic_continuous"), expected.continuous)
        self._discrete(found.get("deterministic_discrete"), expected.discrete, logits, 0.0)
        if "actions" in found:
            self._side_by_side(found["actions"], expected.continuous, logits)
        if self.session.metadata.inputs.epsilon is not None:
            gaussian, normal = np.split(epsilon, [epsilon.shape[1] - self.layout.logits], axis=1)
            noise, error = gumbel_noise(normal)
            drawn = self.module(tensors, *given, (torch.from_numpy(gaussian), torch.from_numpy(noise)))
            self._continuous(found.get("continuous"), _numpy(drawn.continuous))
            self._discrete(
                found.get("discrete"), _numpy(drawn.discrete), None if logits is None else logits + noise, error
            )
        if memory is not None:
            self._numbers(found["memory"], memory, 1.0)

    def _continuous(self, found: NDArray[Any] | None, expected: NDArray[Any] | None) -> None:
        if found is None or expected is None:
            return
        if self.session.metadata.continuous_units == "normalized":
            found = self.layout.to_environment(found)
        self._numbers(found, expected, self.sizes * self.magnitude)

    def _numbers(self, found: NDArray[Any], expected: NDArray[Any], sizes: NDArray[Any] | float) -> None:
        if found.shape != expected.shape:
            raise PluginError(
                f"the file makes {list(found.shape)} numbers where the policy makes {list(expected.shape)}"
            )
        difference = np.abs(found - expected) / np.maximum(np.maximum(np.abs(expected), 1.0), sizes)
        self.largest = max(self.largest, float(np.max(difference, initial=0.0)), key=_nan_largest)

    def _discrete(
        self, found: NDArray[Any] | None, expected: NDArray[Any] | None, logits: NDArray[Any] | None, error: Any
    ) -> None:
        """Options must be equal, except where the logits [R, logits] of both differ by less than rounding can."""
        if found is None or expected is None:
            return
        for row, branch in np.argwhere(found != expected):
            first = self.layout.offsets[branch]
            pair = [first + found[row, branch], first + expected[row, branch]]
            room = self.tolerance * self.magnitude + 2 * np.max(
                np.broadcast_to(error, (len(found), self.layout.logits))[row, pair]
            )
            if logits is None or not abs(logits[row, pair[0]] - logits[row, pair[1]]) <= room:
                raise PluginError(
                    f"onnxruntime chose option {found[row, branch]} of branch {branch}, and the policy option "
                    f"{expected[row, branch]}; the file was deleted"
                )

    def _side_by_side(self, found: NDArray[Any], continuous: NDArray[Any] | None, logits: NDArray[Any] | None) -> None:
        """Compare the output ``actions``: continuous parts, then the probabilities of the options of each branch."""
        parts, probabilities = np.split(found, [self.layout.continuous], axis=1)
        self._continuous(parts, continuous)
        if logits is not None:
            branches = torch.from_numpy(logits).split(self.layout.branches, dim=1)  # type: ignore[no-untyped-call]
            self._numbers(
                probabilities, torch.cat([each.softmax(1) for each in branches], dim=1).numpy(), self.magnitude
            )

    def _trial_run(self) -> None:
        """Unity tries a model with zeros only, so that every option is forbidden."""
        behavior = self.behavior
        zeros = {o.name: np.zeros((1, *o.shape), o.dtype) for o in behavior.observations}
        forbidden = np.zeros((1, self.layout.logits), np.bool_)
        for session in filter(None, (self.session, self.logits)):
            for array in session(zeros, forbidden).values():
                if not np.isfinite(array).all():
                    raise PluginError("results are not finite where every option is forbidden; the file was deleted")


def gumbel_noise(normal: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Gumbel noise for standard normal numbers, and how far rounding of float32 can move it; all of one shape."""
    u = 0.5 * (1.0 + torch.erf(torch.from_numpy(normal).double() * 0.5**0.5)).numpy()
    u = np.clip(u, SMALLEST, 1.0 - SMALLEST)
    slope = 1.0 / (u * -np.log(u))
    return (-np.log(-np.log(u))).astype(np.float32), (slope * 2.0**-22).astype(np.float32)


def _nan_largest(number: float) -> float:
    return np.inf if np.isnan(number) else number


def _numpy(tensor: Tensor | None) -> NDArray[Any] | None:
    return None if tensor is None else np.asarray(tensor.numpy())
