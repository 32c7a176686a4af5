"""The block ``torch_settings`` of a configuration: device, threads, and what makes PyTorch faster.

rlcore reads the block whenever the plugin is on, so this module does not import torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from rlcore import RunConfig, setting

__all__ = ["SECTION", "TorchSettings", "torch_settings"]

SECTION = "torch_settings"
MAX_THREADS = 1_024
# Keys that change numbers by rounding, but only where they are on.
_ROUNDING = ("tf32", "bf16", "compile")


@attrs.frozen(kw_only=True)
class TorchSettings:
    """Device and threads of PyTorch."""

    device: str | None = setting(None, "Device such as cpu or cuda:0; by default, the trainer chooses.", foreign=True)
    num_threads: int | None = setting(
        None, "Threads of a trainer; null: what is fastest (an rlcore key).", minimum=1, maximum=MAX_THREADS
    )
    fast_cpu: bool = setting(True, "Compute faster on a CPU than plain PyTorch, which false chooses (an rlcore key).")
    cuda_graphs: bool = setting(
        False,
        "Record gradient steps as CUDA graphs and replay them, which is faster for small networks on an NVIDIA GPU (an "
        "rlcore key).",
    )
    tf32: bool = setting(False, "Multiply on an NVIDIA GPU in TF32, which rounds factors to 10 bits (an rlcore key).")
    bf16: bool = setting(False, "Compute the layers of networks in bfloat16, by autocast (an rlcore key).")
    compile: bool = setting(False, "Compile gradient steps with torch.compile, without fast_cpu (an rlcore key).")
    deterministic: bool = setting(
        False,
        "On a GPU, compute only with operations that repeat bit for bit, so that a resume is exact there too (an "
        "rlcore key).",
    )
    rank_timeout: float = setting(
        60.0,
        "Seconds that ranks of torchrun wait for each other; more than the longest save or export (an rlcore key).",
        minimum=1.0,
    )

    @property
    def computing(self) -> Mapping[str, str]:
        """The device and the threads of the trainers, for the fingerprint of a checkpoint."""
        return {"device": self.device or "cpu", "threads": str(self.num_threads or 1)}

    @property
    def resume_limits(self) -> tuple[str, ...]:
        """Why a resumed run may compute other numbers than a run that was never stopped."""
        device = self.computing["device"]
        if device.startswith("cpu") or self.deterministic:
            return ()
        return (
            f"kernels of {device} may add numbers in another order (torch_settings.deterministic: true prevents it)",
        )

    @staticmethod
    def learning_part(block: Mapping[str, Any]) -> dict[str, Any]:
        """The part of the block that a training depends on and that ``computing`` does not have."""
        rounding = {key: True for key in _ROUNDING if block.get(key)}
        return {"fast_cpu": block.get("fast_cpu"), **rounding}


def torch_settings(config: RunConfig) -> TorchSettings:
    """Return the block ``torch_settings`` of a configuration; the defaults if a program left the block out."""
    settings: TorchSettings | None = config.sections.get(SECTION)
    return TorchSettings() if settings is None else settings
