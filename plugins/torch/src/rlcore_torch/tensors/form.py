"""Whether the tensors of a batch have the form that its behavior declares. No value is read from the device."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NoReturn

import numpy as np
import torch
from torch import Tensor

from rlcore import BehaviorSpec, EnvironmentFailed
from rlcore_torch.tensors.environment import TensorBatch

__all__ = ["BatchForm"]


class BatchForm:
    """Shapes, types and device of the batches of one environment: a tensor of another form may be copied silently.

    As in a run without tensors, real numbers of any precision are taken, and whole numbers of a smaller range.
    """

    def __init__(self, behaviors: Mapping[str, BehaviorSpec], device: Any, takes_turns: bool, name: str) -> None:
        """``name`` is that of the environment in messages."""
        self._name = name
        self._takes_turns = takes_turns
        self._device = torch.empty(0, device=device).device  # "cuda" as "cuda:0"
        self._observed = {
            behavior: {o.name: ((spec.slots, *o.shape), _torch_type(o.dtype)) for o in spec.observations}
            for behavior, spec in behaviors.items()
        }
        self._sizes = {behavior: (spec.slots, spec.mask_size) for behavior, spec in behaviors.items()}

    def require(self, batches: Any, method: str) -> None:
        """Raise EnvironmentFailed unless ``batches``, which ``method`` returned, have the form of the behaviors."""
        for behavior in self._observed:
            batch = batches.get(behavior) if isinstance(batches, Mapping) else None
            if not isinstance(batch, TensorBatch):
                found = sorted(batches) if isinstance(batches, Mapping) else type(batches).__name__
                expected = f"a mapping with a TensorBatch for behavior {behavior!r}"
                raise EnvironmentFailed(f"{self._name}: {method} returned {found}, and must return {expected}")
            for what, tensor, shape, dtype in self._parts(behavior, batch, method):
                # All of it takes less than a microsecond for each tensor.
                if (
                    type(tensor) is not Tensor
                    or tensor.shape != shape
                    or tensor.dtype is not dtype
                    or tensor.device != self._device
                    or tensor.requires_grad
                ):
                    self._look(what, tensor, shape, dtype, behavior, method)

    def _parts(
        self, behavior: str, batch: TensorBatch, method: str
    ) -> Iterator[tuple[str, Any, tuple[int, ...], torch.dtype]]:
        """Each tensor with its name in messages, and the shape and type that it must have."""
        slots, mask_size = self._sizes[behavior]
        named = (("observation", batch.observations), ("final observation", batch.final_observations))
        for kind, observations in named:
            if observations is None and kind != "observation":
                continue
            for name, (shape, dtype) in self._observed[behavior].items():
                if not isinstance(observations, Mapping) or name not in observations:
                    self._refuse(f"{kind} {name!r}", "is missing", behavior, method)
                yield f"{kind} {name!r}", observations[name], shape, dtype
        yield "reward", batch.reward, (slots,), torch.float32
        yield "terminated", batch.terminated, (slots,), torch.bool
        yield "truncated", batch.truncated, (slots,), torch.bool
        if batch.needs_action is not None:
            if not self._takes_turns:
                self._refuse("needs_action", "is given, and takes_turns is false", behavior, method)
            yield "needs_action", batch.needs_action, (slots,), torch.bool
        for what, mask in (("action_mask", batch.action_mask), ("final_action_mask", batch.final_action_mask)):
            if mask is not None:
                yield what, mask, (slots, mask_size), torch.bool

    def _look(
        self, what: str, tensor: Any, shape: tuple[int, ...], dtype: torch.dtype, behavior: str, method: str
    ) -> None:
        """Raise EnvironmentFailed unless ``tensor`` may be used instead of one of this form."""
        wanted = f"a tensor of {_shown(dtype)} of shape {list(shape)} on {self._device}"
        if not isinstance(tensor, Tensor):
            self._refuse(what, f"is {type(tensor).__name__}, not {wanted}", behavior, method)
        fits = (
            tensor.is_floating_point() if dtype.is_floating_point else torch.promote_types(tensor.dtype, dtype) == dtype
        )
        if tensor.shape != shape or tensor.device != self._device or not fits:
            found = f"a tensor of {_shown(tensor.dtype)} of shape {list(tensor.shape)} on {tensor.device}"
            self._refuse(what, f"is {found}, not {wanted}", behavior, method)
        if tensor.requires_grad:
            self._refuse(what, "requires a gradient; detach it", behavior, method)

    def _refuse(self, what: str, problem: str, behavior: str, method: str) -> NoReturn:
        raise EnvironmentFailed(
            f"{self._name}: behavior {behavior!r}: {what} {problem} (in {method}); fix the environment, so that it "
            "returns what its behavior says"
        )


def _torch_type(dtype: np.dtype[Any]) -> torch.dtype:
    return torch.from_numpy(np.empty(0, dtype)).dtype


def _shown(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
