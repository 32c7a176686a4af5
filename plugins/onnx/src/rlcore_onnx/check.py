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

ROWS = (1, 2, 7)  # the size of a batch is not fixed in the file
STEPS = 4  # over which memory is carried

Mask = NDArray[np.bool_] | None
Memory = NDArray[np.float32] | None
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
        layout = ActionLayout(behavior)
        self.layout = layout
        self.tolerance = tolerance
        self.largest = 0.0
        self.magnitude = 1.0  # of the numbers that the last layer makes of one batch
        self.generator = np.random.default_rng(0)
        bounds = np.maximum(np.abs(layout.low), np.abs(layout.high))
        bounded = np.isfinite(layout.clip)
        units = np.maximum(bounds, 1)
        self.sizes = np.where(bounded, units, 1)  # the units of a difference of continuous actions

    @torch.no_grad()
    def run(self) -> float:
        """Compare, and return the largest difference.

        Raises PluginError for a difference larger than ``tolerance``, for an option whose logit is not the largest by
        more than ``tolerance``, and for results that are not finite where no option is allowed.
        """
        inputs = self.session.metadata.inputs
        masked = inputs.action_mask is not None
        size = self.session.memory_size
        for rows in ROWS:
            memory = np.zeros((rows, size), np.float32) if size else None
            for _ in range(STEPS):
                observations = example_observations(self.behavior, self.module, rows, self.generator)
                mask = example_mask(self.layout, rows, self.generator) if masked else None
                epsilon = self.generator.standard_normal((rows, inputs.epsilon_size), np.float32)
                self._compare(observations, mask, memory, epsilon)
        if masked:
            self._trial_run()
        if not self.largest <= self.tolerance:  # also for NaN
            raise PluginError(
                f"onnxruntime and the policy differ by {self.largest:.2g}, which is more than tolerance "
                f"({self.tolerance:g})"
            )
        return self.largest

    def _compare(self, observations: Arrays, mask: Mask, memory: Memory, epsilon: NDArray[np.float32]) -> None:
        """Compare the results for one batch; ``memory`` becomes that after the step."""
        results = self.session(observations, mask, memory, epsilon)
        tensors = {name: torch.from_numpy(array) for name, array in observations.items()}
        mask_tensor = _tensor(mask)
        memory_tensor = _tensor(memory)
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
        # The continuous parts' numbers come first, then one for each option.
        gaussian_size = epsilon.shape[1] - self.layout.logits
        gaussian, normal = torch.from_numpy(epsilon).tensor_split([gaussian_size], dim=1)
        noise = gumbel(normal.double())
        drawn = self.module(tensors, mask_tensor, memory_tensor, (gaussian, noise.float()))
        self._numbers(results.get("continuous"), _numpy(drawn.continuous), sizes)
        # A draw of options is the largest of their logits plus Gumbel noise.
        noisy_logits = None if logits is None else logits + noise.numpy()
        options = _numpy(drawn.discrete)
        error = rounding(normal)
        self._discrete(results.get("discrete"), options, noisy_logits, error)

    def _logits(self, tensors: dict[str, Tensor], mask: Tensor | None, memory: Tensor | None) -> Part:
        """The masked logits of a batch, if the module shows them; and note how large the last layer's numbers are."""
        if not isinstance(self.module, PolicyModule):
            return None
        columns, unmasked, _ = self.module.distribution_parameters(tensors, None, memory)
        self.magnitude = 1.0
        for numbers in (columns, unmasked):
            if numbers is not None:
                largest = float(numbers.abs().max())
                self.magnitude = max(self.magnitude, largest)
        _, logits, _ = self.module.distribution_parameters(tensors, mask, memory)
        return _numpy(logits)

    def _columns(self, columns: NDArray[Any], continuous: Part, logits: Part) -> None:
        """Compare the parts of actions side by side: continuous ones, then the probabilities of options."""
        units, probabilities = np.split(columns, [self.layout.continuous], axis=1)
        actions = self.session.in_units(units)
        self._numbers(actions, continuous, self.sizes * self.magnitude)
        if logits is not None:
            branches = torch.from_numpy(logits).split(self.layout.branches, dim=1)  # type: ignore[no-untyped-call]
            softmax = torch.cat([branch.softmax(1) for branch in branches], dim=1)
            self._numbers(probabilities, softmax.numpy(), self.magnitude)

    def _numbers(self, computed: Part, expected: Part, sizes: NDArray[Any] | float) -> None:
        if computed is None or expected is None:
            return
        if computed.shape != expected.shape:
            shape = list(computed.shape)
            expected_shape = list(expected.shape)
            raise PluginError(f"the file makes {shape} numbers where the policy makes {expected_shape}")
        values = np.maximum(np.abs(expected), 1.0)
        unit = np.maximum(values, sizes)
        difference = np.abs(computed - expected) / unit
        self.largest = float(np.max(difference, initial=self.largest))  # NaN if there is one

    def _discrete(self, computed: Part, expected: Part, logits: Part, error: Any) -> None:
        """Options must be equal, except where the logits [R, logits] of both differ by less than rounding can."""
        if computed is None or expected is None:
            return
        for row, branch in np.argwhere(computed != expected):
            option = computed[row, branch]
            other = expected[row, branch]
            options = np.array([option, other])
            if logits is None or not self._nearly_equal(logits, error, row, branch, options):
                raise PluginError(
                    f"onnxruntime chose option {option} of branch {branch}, and the policy option {other}"
                )

    def _nearly_equal(self, logits: NDArray[Any], error: Any, row: int, branch: int, options: NDArray[Any]) -> bool:
        """Whether rounding can decide which of two ``options`` has the larger logit."""
        columns = self.layout.offsets[branch] + options
        errors = np.broadcast_to(error, logits.shape)[row, columns]
        # Networks round in both programs, and so does the noise of both options.
        room = self.tolerance * self.magnitude + 2 * np.max(errors)
        first, second = logits[row, columns]
        return bool(abs(first - second) <= room)

    def _trial_run(self) -> None:
        """Unity tries a model with zeros only, so that every option is forbidden."""
        zeros = {o.name: np.zeros((1, *o.shape), o.dtype) for o in self.behavior.observations}
        forbidden = np.zeros((1, self.layout.logits), np.bool_)
        results = self.session(zeros, forbidden)
        for array in results.values():
            if not np.isfinite(array).all():
                raise PluginError("results are not finite where every option is forbidden")


def rounding(normal: Tensor) -> NDArray[np.float64]:
    """How far rounding of float32 can move the Gumbel numbers of standard normal numbers."""
    scaled = normal.double() * 0.5**0.5
    u = 0.5 * (1.0 + torch.erf(scaled))
    clipped = u.clamp(SMALLEST, 1.0 - SMALLEST).numpy()
    slope: NDArray[np.float64] = 1.0 / (clipped * -np.log(clipped))  # of -log(-log(u))
    return slope * 2.0**-22  # some roundings of u, each of 2**-24 at most


def _numpy(tensor: Tensor | None) -> Part:
    return None if tensor is None else np.asarray(tensor.numpy())


def _tensor(array: Part) -> Tensor | None:
    """Return a copy: the policy overwrites the memory that it gets."""
    return None if array is None else torch.from_numpy(array.copy())
