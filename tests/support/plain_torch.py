"""Trainers in plain PyTorch, as with ``torch_settings.fast_cpu: false``, for ``pytest --plain-torch``."""

from __future__ import annotations

import os
from typing import Any

# Set for the processes that tests fork; they call compute_with_plain_torch() too.
SWITCH = "PYTEST_PLAIN_TORCH"


def compute_with_plain_torch() -> None:
    """Let every trainer that this process builds on a template have the backend of ``fast_cpu: false``."""
    from rlcore_torch import template
    from rlcore_torch.backend import Backend
    from rlcore_torch.torch_settings import torch_settings

    os.environ[SWITCH] = "1"
    choose = template.choose_backend

    def choose_plain(run: Any) -> Backend:
        device = choose(run).device
        return Backend(device, torch_settings(run.config).num_threads or 1)

    template.choose_backend = choose_plain
