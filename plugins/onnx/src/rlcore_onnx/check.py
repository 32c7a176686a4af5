"""The check of an exported file: its structure, and its numbers against the policy that it was made from."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from onnx import helper, shape_inference
from torch import Tensor, nn

from rlcore import BehaviorSpec, PluginError
from rlcore_onnx.conversion import BATCH, SMALLEST, gumbel
from rlcore_onnx.examples import example_mask, example_observations
from rlcore_onnx.session import Arrays, Session
from rlcore_torch import ActionLayout, PolicyModule

ROWS = (1, 2, 7)
STEPS = 4

Part = NDArray[Any] | None
"""One part of a result, such as the continuous actions; None for one that a policy or a file does not have."""


def check_structure(model: onnx.ModelProto) -> None:
    """Check the model against the standard, and infer the shapes of all tensors. Raises PluginError."""
    try:
        onnx.checker.check_model(model, full_check=True)
    except (onnx.checker.ValidationError, shape_inference.InferenceError) as error:
        raise PluginError(f"the file is not a valid ONNX model: {error}") from error


def with_output(written: bytes, tensor: str, size: int) -> bytes:
    """Return a model in which ``tensor`` [B, size] is an output too."""
    model = onnx.load_model_from_string(written)
    output = helper.make_tensor_value_info(tensor, onnx.TensorProto.FLOAT, [BATCH, size])
    model.graph.output.append(output)
    return bytes(model.SerializeToString())


class Comparison:
    """A comparison of a file with the policy that it was made from.

    Observations and noise are random; batches have several sizes, and memory is carried over several steps.
    Deterministic actions and memory are compared with those of ``policy.act``, drawn ones with those that ``module``
    draws with the same noise. Equal options say little about the numbers behind them, so the logits are compared too,
    if ``session`` has them as the output ``logits``.

    A difference is in parts of the value, and at least of 1. For an action with bounds, it is in parts of the bounds.
    Rounding grows with the numbers that a network makes, so the differences of actions and logits are also in parts of
    the largest number of the network's last layer.
    """

    def __init__(
        self, session: Session, policy: Any, module: nn.Module, behavior: BehaviorSpec, tolerance: float
    ) -> None:
        self.session = session
        self.policy = policy
        self.module = module
        self.behavior = behavior
        self.layout = ActionLayout(behavior)
        self.tolerance = tolerance
        self.largest = 0.0
        self.magnitude = 1.0  # of the numbers that the last layer makes of one batch
        self.generator = np.random.default_rng(0)
        bounds = np.maximum(np.abs(self.layout.low), np.abs(self.layout.high))
        bounded = np.isfinite(self.layout.clip)
        self.sizes = np.where(bounded, np.maximum(bounds, 1), 1)  # the units of a difference of continuous actions

    @torch.no_grad()
    def run(self) -> float:
        """Compare, and return the largest difference.

        Raises PluginError for a difference larger than ``tolerance``, for an option whose logit is not the largest by
        more than ``tolerance``, and for results that are not finite where no option is allowed.
        """
        inputs = self.session.metadata.inputs
        size = self.session.memory_size
        for rows in ROWS:
            memory = np.zeros((rows, size), np.float32) if size else None
            for _ in range(STEPS):
                observations = example_observations(self.behavior, self.module, rows, self.generator)
                mask = None if inputs.action_mask is None else example_mask(self.layout, rows, self.generator)
                epsilon = self.generator.standard_normal((rows, inputs.epsilon_size), np.float32)
                self._compare(observations, mask, memory, epsilon)
        if inputs.action_mask is not None:
            self._trial_run()
        if not self.largest <= self.tolerance:  # also for NaN
            raise PluginError(
                f"onnxruntime and the policy differ by {self.largest:.2g}, which is more than tolerance "
                f"({self.tolerance:g})"
            )
        return self.largest

    def _compare(
        self,
        observations: Arrays,
        mask: NDArray[np.bool_] | None,
        memory: NDArray[np.float32] | None,
        epsilon: NDArray[np.float32],
    ) -> None:
        """Compare the results for one batch; ``memory`` becomes that after the step."""
        results = self.session(observations, mask, memory, epsilon)
        tensors = {name: torch.from_numpy(array) for name, array in observations.items()}
        # Copies: the policy writes the memory after the step into the array.
        mask_tensor = None if mask is None else torch.from_numpy(mask.copy())
        memory_tensor = None if memory is None else torch.from_numpy(memory.copy())
        logits = self._logits(tensors, mask_tensor, memory_tensor)
        sizes = self.sizes * self.magnitude
        remembered = () if memory is None else (memory,)
        greedy = self.policy.act(observations, mask, True, *remembered)
        self._numbers(results.get("logits"), logits, self.magnitude)
        self._numbers(results.get("deterministic_continuous"), greedy.continuous, sizes)
        self._discrete(results.get("deterministic_discrete"), greedy.discrete, logits, 0.0)
        self._numbers(results.get("memory"), memory, 1.0)
        if "actions" in results:
            self._columns(results["actions"], greedy.continuous, logits)
        if self.session.metadata.inputs.epsilon is None:
            return
        gaussian_size = epsilon.shape[1] - self.layout.logits
        gaussian, normal = torch.from_numpy(epsilon).tensor_split([gaussian_size], dim=1)
        noise = gumbel(normal.double())
        drawn = self.module(tensors, mask_tensor, memory_tensor, (gaussian, noise.float()))
        self._numbers(results.get("continuous"), _numpy(drawn.continuous), sizes)
        noisy_logits = None if logits is None else logits + noise.numpy()
        self._discrete(results.get("discrete"), _numpy(drawn.discrete), noisy_logits, rounding(normal))

    def _logits(self, tensors: dict[str, Tensor], mask: Tensor | None, memory: Tensor | None) -> Part:
        """The masked logits of a batch, if the module shows them; and note how large the last layer's numbers are."""
        if not isinstance(self.module, PolicyModule):
            return None
        columns, unmasked, _ = self.module.distribution_parameters(tensors, None, memory)
        self.magnitude = 1.0
        for numbers in (columns, unmasked):
            if numbers is not None:
                self.magnitude = max(self.magnitude, float(numbers.abs().max()))
        _, logits, _ = self.module.distribution_parameters(tensors, mask, memory)
        return _numpy(logits)

    def _columns(self, columns: NDArray[Any], continuous: Part, logits: Part) -> None:
        """Compare the parts of actions side by side: continuous ones, then the probabilities of options."""
        units, probabilities = np.split(columns, [self.layout.continuous], axis=1)
        self._numbers(self.session.in_units(units), continuous, self.sizes * self.magnitude)
        if logits is not None:
            branches = torch.from_numpy(logits).split(self.layout.branches, dim=1)  # type: ignore[no-untyped-call]
            softmax = torch.cat([branch.softmax(1) for branch in branches], dim=1)
            self._numbers(probabilities, softmax.numpy(), self.magnitude)

    def _numbers(self, found: Part, expected: Part, sizes: NDArray[Any] | float) -> None:
        if found is None or expected is None:
            return
        if found.shape != expected.shape:
            raise PluginError(
                f"the file makes {list(found.shape)} numbers where the policy makes {list(expected.shape)}"
            )
        values = np.maximum(np.abs(expected), 1.0)
        unit = np.maximum(values, sizes)
        difference = np.abs(found - expected) / unit
        self.largest = float(np.max(difference, initial=self.largest))  # NaN if there is one

    def _discrete(self, found: Part, expected: Part, logits: Part, error: Any) -> None:
        """Options must be equal, except where the logits [R, logits] of both differ by less than rounding can."""
        if found is None or expected is None:
            return
        for row, branch in np.argwhere(found != expected):
            option = found[row, branch]
            other = expected[row, branch]
            if logits is not None:
                columns = self.layout.offsets[branch] + np.array([option, other])
                errors = np.broadcast_to(error, logits.shape)[row, columns]
                room = self.tolerance * self.magnitude + 2 * np.max(errors)
                first, second = logits[row, columns]
                if abs(first - second) <= room:
                    continue
            raise PluginError(f"onnxruntime chose option {option} of branch {branch}, and the policy option {other}")

    def _trial_run(self) -> None:
        """Unity tries a model with zeros only, so that every option is forbidden."""
        zeros = {o.name: np.zeros((1, *o.shape), o.dtype) for o in self.behavior.observations}
        forbidden = np.zeros((1, self.layout.logits), np.bool_)
        results = self.session(zeros, forbidden)
        if not all(np.isfinite(array).all() for array in results.values()):
            raise PluginError("results are not finite where every option is forbidden")


def rounding(normal: Tensor) -> NDArray[np.float64]:
    """How far rounding of float32 can move the Gumbel numbers of standard normal numbers."""
    u = 0.5 * (1.0 + torch.erf(normal.double() * 0.5**0.5))
    clipped = u.clamp(SMALLEST, 1.0 - SMALLEST).numpy()
    slope: NDArray[np.float64] = 1.0 / (clipped * -np.log(clipped))  # of -log(-log(u))
    return slope * 2.0**-22  # some roundings of u, each of 2**-24 at most


def _numpy(tensor: Tensor | None) -> Part:
    return None if tensor is None else np.asarray(tensor.numpy())
