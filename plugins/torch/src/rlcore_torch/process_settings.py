"""Settings of PyTorch that belong to the whole process, for the check of what the import of a plugin changes."""

from __future__ import annotations

import sys
from collections.abc import Mapping

__all__ = ["read_process_settings"]

DEFAULTS = {
    "torch.get_default_dtype()": "torch.float32",
    "torch.get_default_device()": "cpu",
    "torch.get_float32_matmul_precision()": "highest",
    "torch.is_grad_enabled()": True,
    "torch.are_deterministic_algorithms_enabled()": False,
    "torch.backends.cudnn.benchmark": False,
}


def read_process_settings() -> Mapping[str, object]:
    """Return the settings by name: the defaults while PyTorch is not imported, or not imported to the end."""
    torch = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "get_default_device"):
        return DEFAULTS
    return {
        "torch.get_default_dtype()": str(torch.get_default_dtype()),
        "torch.get_default_device()": str(torch.get_default_device()),
        "torch.get_float32_matmul_precision()": torch.get_float32_matmul_precision(),
        "torch.is_grad_enabled()": torch.is_grad_enabled(),
        "torch.are_deterministic_algorithms_enabled()": torch.are_deterministic_algorithms_enabled(),
        "torch.backends.cudnn.benchmark": torch.backends.cudnn.benchmark,
    }
