"""How a trainer computes: in plain PyTorch, or with the pieces of :mod:`rlcore_torch.acceleration`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

import attrs
import torch
from torch import nn

from rlcore import ConfigError, Ranks, RunContext, launched
from rlcore_torch.acceleration.flat_adam import FlatAdam
from rlcore_torch.acceleration.numpy_actor import NumpyActor, numpy_actor
from rlcore_torch.acceleration.numpy_memory import NumpyMemory
from rlcore_torch.acceleration.registry import Piece
from rlcore_torch.networks.bodies import Body
from rlcore_torch.networks.models import Actor
from rlcore_torch.optimization.optimizer import Adam, TorchAdam
from rlcore_torch.torch_settings import torch_settings

__all__ = ["choose_backend", "chosen_device"]


@attrs.frozen
class Backend:
    """The choices that ``torch_settings`` makes for one trainer. The defaults are plain PyTorch.

    Attributes:
        device: The device of the networks.
        threads: Threads that PyTorch uses in one operation.
        adam: Creates Adam from parameters, learning rate, epsilon and betas.
        numpy_actor: Returns code that acts without PyTorch, or None if there is none for the network; None: never.
        numpy_memory: Returns code for steps of networks with memory without PyTorch; None: never.
        pieces: Which accelerations may be used: gradients and values written by hand, threads for pieces of a
            minibatch, and threads of gradient steps that are chosen by measuring.
        cuda_graphs: Whether gradient steps are recorded as CUDA graphs.
        bf16: Whether layers of network bodies compute in bfloat16.
        compiled: Whether gradient steps are compiled with ``torch.compile``.
    """

    device: torch.device
    threads: int = 1
    adam: Callable[[Iterable[nn.Parameter], float, float, tuple[float, float]], Adam] = TorchAdam
    numpy_actor: Callable[[Actor], NumpyActor | None] | None = None
    numpy_memory: Callable[[Actor], NumpyMemory] | None = None
    pieces: frozenset[Piece] = frozenset()
    cuda_graphs: bool = False
    bf16: bool = False
    compiled: bool = False

    @property
    def changes_steps(self) -> bool:
        """Whether gradient steps are recorded or compiled."""
        return self.cuda_graphs or self.compiled

    def prepare(self, model: nn.Module) -> None:
        """Let every network body in ``model`` compute as ``bf16`` says."""
        for module in model.modules():
            if isinstance(module, Body):
                module.bf16 = self.bf16


def choose_backend(run: RunContext) -> Backend:
    """Return the backend that ``torch_settings`` selects.

    The pieces of :mod:`rlcore_torch.acceleration` are used if ``fast_cpu`` is on and the device is the CPU, and not
    with ``bf16`` or ``compile``, which are for layers and gradients of PyTorch. The default device is the CPU, which is
    faster for the small networks of vector observations.

    Raises ConfigError for a device that PyTorch does not have, for CUDA graphs and TF32 on one that is not an NVIDIA
    GPU, and for bfloat16 on one that does not compute in it.
    """
    chosen = torch_settings(run.config)
    device = chosen_device(run)
    if chosen.cuda_graphs and device.type != "cuda":
        raise ConfigError(
            f"CUDA graphs need an NVIDIA GPU, and the device is {device}; set device: cuda, or leave cuda_graphs out",
            key=("torch_settings", "cuda_graphs"),
        )
    if chosen.tf32 and device.type != "cuda":
        raise ConfigError(
            f"TF32 needs an NVIDIA GPU, and the device is {device}; set device: cuda, or leave tf32 out",
            key=("torch_settings", "tf32"),
        )
    if chosen.bf16 and not _computes_in_bfloat16(device):
        raise ConfigError(
            f"{device} does not compute in bfloat16; leave bf16 out, or choose another device",
            key=("torch_settings", "bf16"),
        )
    if device.type == "cuda":  # of the process: a run without the key takes back what an earlier run set
        torch.set_float32_matmul_precision("high" if chosen.tf32 else "highest")
    if chosen.deterministic and device.type != "cpu":
        # cuBLAS reads it before its first product; PyTorch refuses to multiply without it.
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(True)
    threads = chosen.num_threads or 1
    if not chosen.fast_cpu or device.type != "cpu" or chosen.bf16 or chosen.compile:
        return Backend(device, threads, cuda_graphs=chosen.cuda_graphs, bf16=chosen.bf16, compiled=chosen.compile)
    pieces: set[Piece] = {"by_hand", "piece_threads"}
    if chosen.num_threads is None and run.ranks.size == 1:
        pieces.add("update_threads")
    return Backend(device, threads, FlatAdam, numpy_actor, NumpyMemory, frozenset(pieces))


def chosen_device(run: RunContext) -> torch.device:
    """Return the device of ``torch_settings``. Raises ConfigError for one that PyTorch does not have."""
    return _device(_of_rank(torch_settings(run.config).computing["device"], run.ranks))


def _computes_in_bfloat16(device: torch.device) -> bool:
    """Whether autocast knows the device, and the device multiplies such numbers itself: an NVIDIA GPU since Ampere."""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    return torch.amp.is_autocast_available(device.type)


def _of_rank(name: str, ranks: Ranks) -> str:
    """The device called ``name``: under torchrun, ``cuda`` is the GPU with the number of the rank on its machine."""
    launch = launched() if ranks.size > 1 else None
    if name != "cuda" or launch is None or not torch.cuda.is_available():
        return name
    return f"cuda:{launch.local_rank % torch.cuda.device_count()}"


def _device(name: str) -> torch.device:
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        cause = str(error).splitlines()[0]
        raise ConfigError(f"{name!r} cannot be used: {cause}", key=("torch_settings", "device")) from error
    return device
