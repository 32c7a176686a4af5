"""Networks in checkpoints: which saved network fits a configuration, and its values to and from NumPy arrays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch
from torch import nn

from rlcore import RunStateError, non_finite
from rlcore_torch.networks.inputs import to_numpy
from rlcore_torch.networks.normalizer import RunningNormalizer

__all__ = ["load_model_state", "model_state"]

# Saved with the weights, so that a policy always normalizes as it learned to.
_STATISTICS = tuple(f".normalizer.{name}" for name in ("mean", "m2", "count"))


def model_state(model: nn.Module) -> dict[str, np.ndarray[Any, Any]]:
    """Parameters and buffers by name, copied."""
    return {name: to_numpy(tensor).copy() for name, tensor in model.state_dict().items()}


def require_model_fit(model: nn.Module, state: Mapping[str, Any], behavior: str) -> None:
    """Raises RunStateError unless every name, shape and type fits."""
    expected = model_state(model)
    problems = [f"missing {name}" for name in sorted(expected.keys() - state.keys())]
    problems += [f"unknown {name}" for name in sorted(state.keys() - expected.keys())]
    for name in sorted(expected.keys() & state.keys()):
        saved = state[name]
        array = expected[name]
        if _kind(saved, exact=True) != _kind(array, exact=True):
            problems.append(f"{name} is {_kind(saved)} in the checkpoint and {_kind(array)} in this run")
    if not problems:
        return
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
    arrays = model_state(model)
    names = {name for name in arrays if name.endswith(_STATISTICS)}
    saved_names = {name for name in state if name.endswith(_STATISTICS)}
    if names == saved_names:
        return None
    fitted = dict(state)
    for name in saved_names - names:
        del fitted[name]
    for name in names - saved_names:
        fitted[name] = arrays[name]
    return fitted


def with_critics(state: Mapping[str, Any], model: nn.Module, critics: Iterable[str]) -> dict[str, Any]:
    """The saved values of a policy, and those of ``model`` for the names of its ``critics``.

    A target policy, ``target.actor...``, begins as the policy.
    """
    arrays = model_state(model)
    own = {name: state.get(name.removeprefix("target."), arrays[name]) for name in critics}
    return {**state, **own}


def load_model_state(model: nn.Module, state: Mapping[str, Any], behavior: str) -> None:
    """Put saved values into the model.

    Raises RunStateError, changing nothing, unless all names, shapes and types fit and all values are finite.
    ``behavior`` is the name of the behavior, for the message.
    """
    require_model_fit(model, state, behavior)
    diverged = non_finite({"model": state})
    if diverged is not None:
        raise RunStateError(f"behavior {behavior!r}: {diverged} is not finite; the training had diverged")
    with torch.no_grad():
        for name, tensor in model.state_dict().items():
            saved = np.array(state[name])  # a copy: arrays of a checkpoint may be read-only
            tensor.copy_(torch.from_numpy(saved))
    # Tensors were written into, so that no hook of `load_state_dict` has run.
    for module in model.modules():
        if isinstance(module, RunningNormalizer):
            module.refresh()
