"""Models to and from the numpy arrays a checkpoint holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import nn

from rlcore.errors import RunStateError


def model_state(model: nn.Module) -> dict[str, np.ndarray[Any, Any]]:
    """Parameters and buffers by name, copied."""
    return {name: tensor.detach().cpu().numpy().copy() for name, tensor in model.state_dict().items()}


def require_model_fit(model: nn.Module, state: Mapping[str, Any], behavior: str) -> None:
    """Raises RunStateError unless every name and shape fits."""
    own = model.state_dict()
    missing, unknown = sorted(own.keys() - state.keys()), sorted(state.keys() - own.keys())
    shapes = [
        f"{name} is {tuple(state[name].shape)} in the checkpoint and {tuple(own[name].shape)} in this run"
        for name in own.keys() & state.keys()
        if tuple(state[name].shape) != tuple(own[name].shape)
    ]
    problems = [f"missing {name}" for name in missing] + [f"unknown {name}" for name in unknown] + sorted(shapes)
    if problems:
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        raise RunStateError(
            f"behavior {behavior!r}: the saved network does not fit this configuration: {problems[0]}{more}; use the "
            "trainer_type, network_settings and environment the checkpoint was made with"
        )


def load_model_state(model: nn.Module, state: Mapping[str, Any], behavior: str) -> None:
    """Puts saved values into the model. Raises RunStateError, changing nothing, unless every name and shape fits."""
    require_model_fit(model, state, behavior)
    own = model.state_dict()
    with torch.no_grad():
        for name, tensor in own.items():
            tensor.copy_(torch.from_numpy(np.array(state[name])))
