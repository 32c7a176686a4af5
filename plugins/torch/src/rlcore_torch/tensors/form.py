"""Whether the tensors of a batch have the form that its behavior declares. No value is read from the device."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rlcore import BehaviorSpec, EnvironmentFailed
from rlcore_torch.tensors.environment import TensorBatch

__all__ = ["BatchForm"]


Form = tuple[tuple[int, ...], torch.dtype]  # shape and type
MISSING = object()


class BatchForm:
    """Shapes, types and device of the batches of one environment: a tensor of another form may be copied silently.

    As in a run without tensors, real numbers of any precision are taken, and whole numbers of a smaller range.
    """

    def __init__(self, behaviors: Mapping[str, BehaviorSpec], device: Any, takes_turns: bool, name: str) -> None:
        """``name`` is that of the environment in messages."""
        self._name = name
        self._takes_turns = takes_turns
        self._device = torch.empty(0, device=device).device  # "cuda" as "cuda:0"
        self._behaviors = behaviors
        self._observations: dict[str, dict[str, Form]] = {}
        for behavior, spec in behaviors.items():
            forms = {}
            for o in spec.observations:
                dtype = torch.from_numpy(np.empty(0, o.dtype)).dtype
                forms[o.name] = ((spec.slots, *o.shape), dtype)
            self._observations[behavior] = forms

    def require(self, batches: Any, method: str) -> None:
        """Raise EnvironmentFailed unless ``batches``, which ``method`` returned, have the form of the behaviors."""
        for behavior in self._behaviors:
            batch = batches.get(behavior) if isinstance(batches, Mapping) else None
            if not isinstance(batch, TensorBatch):
                returned = sorted(batches) if isinstance(batches, Mapping) else type(batches).__name__
                expected = f"a mapping with a TensorBatch for behavior {behavior!r}"
                raise EnvironmentFailed(f"{self._name}: {method} returned {returned}, and must return {expected}")
            problem = self._problem(behavior, batch)
            if problem is not None:
                raise EnvironmentFailed(
                    f"{self._name}: behavior {behavior!r}: {problem} (in {method}); fix the environment, so that it "
                    "returns what its behavior says"
                )

    def _problem(self, behavior: str, batch: TensorBatch) -> str | None:
        """What is wrong with the first tensor of another form; None if there is none."""
        if batch.needs_action is not None and not self._takes_turns:
            return "needs_action is given, and takes_turns is false"
        for what, tensor, (shape, dtype) in self._tensors(behavior, batch):
            # All of it takes less than a microsecond for each tensor.
            if (
                type(tensor) is not Tensor
                or tensor.shape != shape
                or tensor.dtype is not dtype
                or tensor.device != self._device
                or tensor.requires_grad
            ):
                problem = self._problem_of_tensor(tensor, shape, dtype)
                if problem is not None:
                    return f"{what} {problem}"
        return None

    def _tensors(self, behavior: str, batch: TensorBatch) -> Iterator[tuple[str, Any, Form]]:
        """Each tensor with its name in messages, and the form that it must have; MISSING for one that is not there."""
        kinds: dict[str, Any] = {"observation": batch.observations}
        if batch.final_observations is not None:
            kinds["final observation"] = batch.final_observations
        for kind, observations in kinds.items():
            tensors = observations if isinstance(observations, Mapping) else {}
            for name, form in self._observations[behavior].items():
                yield f"{kind} {name!r}", tensors.get(name, MISSING), form
        spec = self._behaviors[behavior]
        slots = (spec.slots,)
        yield "reward", batch.reward, (slots, torch.float32)
        yield "terminated", batch.terminated, (slots, torch.bool)
        yield "truncated", batch.truncated, (slots, torch.bool)
        options = (spec.slots, spec.mask_size)
        if batch.needs_action is not None:
            yield "needs_action", batch.needs_action, (slots, torch.bool)
        if batch.action_mask is not None:
            yield "action_mask", batch.action_mask, (options, torch.bool)
        if batch.final_action_mask is not None:
            yield "final_action_mask", batch.final_action_mask, (options, torch.bool)

    def _problem_of_tensor(self, tensor: Any, shape: tuple[int, ...], dtype: torch.dtype) -> str | None:
        """Why ``tensor`` cannot be used instead of one of this form; None if it can."""
        if tensor is MISSING:
            return "is missing"
        expected = f"a tensor of {_name(dtype)} of shape {list(shape)} on {self._device}"
        if not isinstance(tensor, Tensor):
            return f"is {type(tensor).__name__}, not {expected}"
        if dtype.is_floating_point:
            fits = tensor.is_floating_point()
        else:
            fits = torch.promote_types(tensor.dtype, dtype) == dtype
        if tensor.shape != shape or tensor.device != self._device or not fits:
            returned = f"a tensor of {_name(tensor.dtype)} of shape {list(tensor.shape)} on {tensor.device}"
            return f"is {returned}, not {expected}"
        if tensor.requires_grad:
            return "requires a gradient; detach it"
        return None


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
