"""Where a trainer computes."""

from __future__ import annotations

import torch

from rlcore.errors import ConfigError
from rlcore.plugins.run_context import RunContext
from rlcore.settings import BehaviorSettings


def choose_device(settings: BehaviorSettings, run: RunContext) -> torch.device:
    """``torch_settings.device``; without one, the CPU, which is faster for the small networks of vector observations.

    Raises ConfigError for a device PyTorch does not have.
    """
    name = run.config.torch_settings.device or "cpu"
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        cause = str(error).splitlines()[0]
        raise ConfigError(f"torch_settings.device: {name!r} cannot be used: {cause}") from error
    return device
