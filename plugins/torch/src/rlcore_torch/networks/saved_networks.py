"""Networks in checkpoints: which saved network fits a configuration, and its values to and from NumPy arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import nn

from rlcore import RunStateError, non_finite
from rlcore_torch.networks.normalizer import RunningNormalizer

__all__ = ["load_model_state", "model_state"]

_STATISTICS = tuple(f".normalizer.{name}" for name in ("mean", "m2", "count"))


def model_state(model: nn.Module) -> dict[str, np.ndarray[Any, Any]]:
    """Parameters and buffers by name, copied."""
    return {name: tensor.detach().cpu().numpy().copy() for name, tensor in model.state_dict().items()}


def require_model_fit(model: nn.Module, state: Mapping[str, Any], behavior: str) -> None:
    """Raises RunStateError unless every name, shape and type fits."""
    own = {name: tensor.detach().cpu().numpy() for name, tensor in model.state_dict().items()}
    missing = sorted(own.keys() - state.keys())
    unknown = sorted(state.keys() - own.keys())
    others = [
        f"{name} is {_kind(state[name])} in the checkpoint and {_kind(own[name])} in this run"
        for name in sorted(own.keys() & state.keys())
        if _kind(state[name], True) != _kind(own[name], True)
    ]
    problems = [f"missing {name}" for name in missing] + [f"unknown {name}" for name in unknown] + others
    if problems:
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        raise RunStateError(
            f"behavior {behavior!r}: the saved network does not fit this configuration: {problems[0]}{more}; use the "
            "trainer_type, network_settings and environment the checkpoint was made with; if the code of "
            "a plugin has changed since, use its earlier version"
        )


def _kind(value: Any, exact: bool = False) -> str:
    """``(64, 4)``, for an array of anything but float32 with its type; always with it if it must be ``exact``."""
    if not isinstance(value, np.ndarray):
        return f"a {type(value).__name__}"
    if exact or value.dtype != np.float32:
        return f"{value.dtype} {value.shape}"
    return f"{value.shape}"


def fitted_normalizers(model: nn.Module, state: Mapping[str, Any]) -> dict[str, Any] | None:
    """The saved values as they fit a model with another ``normalize``; None if nothing is to be changed.

    Statistics of observations that only the checkpoint has are left out; those that only the model has stay as they
    are.
    """
    own = model_state(model)
    here = {name for name in own if name.endswith(_STATISTICS)}
    saved = {name for name in state if name.endswith(_STATISTICS)}
    if here == saved:
        return None
    kept = {name: value for name, value in state.items() if name not in saved - here}
    return kept | {name: own[name] for name in here - saved}


def load_model_state(model: nn.Module, state: Mapping[str, Any], behavior: str) -> None:
    """Put saved values into the model.

    Raises RunStateError, changing nothing, unless all names, shapes and types fit and all values are finite.
    ``behavior`` is the name of the behavior, for the message.
    """
    require_model_fit(model, state, behavior)
    diverged = non_finite({"model": state})
    if diverged is not None:
        raise RunStateError(f"behavior {behavior!r}: {diverged} is not finite; the training had diverged")
    own = model.state_dict()
    with torch.no_grad():
        for name, tensor in own.items():
            tensor.copy_(torch.from_numpy(np.array(state[name])))
    for module in model.modules():
        if isinstance(module, RunningNormalizer):
            module.refresh()
