"""Random numbers that depend on what they are for, computed on a device: a key for each environment and episode.

A key is a 64-bit integer. ``fold_in`` mixes a number into a key, as ``jax.random.fold_in`` does: the key of an episode
is ``fold_in(fold_in(run_key(seed), environment), episode)``. The mixing function is that of SplitMix64 (Steele, Lea and
Flood 2014, "Fast splittable pseudorandom number generators") with the constants of Java's ``SplittableRandom``. All
operations are those of integers, so numbers are equal on every device.
"""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["environment_keys", "fold_in", "uniforms"]

_GOLDEN = 0x9E3779B97F4A7C15  # the increment of SplitMix64
_FIRST = 0xBF58476D1CE4E5B9
_SECOND = 0x94D049BB133111EB


def _signed(number: int) -> int:
    """The 64 bits of ``number`` as PyTorch's int64 has them."""
    half = 1 << 63
    return (number + half) % (2 * half) - half


def run_key(run_seed: int, device: torch.device) -> Tensor:
    """Return the key of a run, [] int64."""
    bits = torch.tensor(_signed(run_seed), dtype=torch.int64, device=device)
    return _mixed(bits)


def fold_in(key: Tensor, number: Tensor) -> Tensor:
    """Return the keys [*L] that ``number`` [*L] makes of ``key`` [*L]; both are int64, and broadcast to *L."""
    return _mixed(key ^ number * _signed(_GOLDEN))


def environment_keys(run_seed: int, environments: Tensor) -> Tensor:
    """Return the keys [N] of ``environments`` [N] int64, numbered in the run.

    The key of an episode is ``fold_in(key, number)`` of its environment's.
    """
    return fold_in(run_key(run_seed, environments.device), environments)


def uniforms(key: Tensor, count: int) -> Tensor:
    """Return ``count`` uniform numbers in [0, 1) for each of the keys [N]: [N, count] float32, multiples of 2^-24."""
    numbers = torch.arange(count, device=key.device)
    bits = fold_in(key.unsqueeze(-1), numbers)
    # The upper 24 bits, as many as float32 holds: more would be rounded, at times up to 1.
    upper = _shifted(bits, 64 - 24)
    return upper.to(torch.float32) * 2.0**-24


def _shifted(bits: Tensor, places: int) -> Tensor:
    """Shift to the right with zeros from the left; PyTorch's own shift repeats the sign."""
    remaining = (1 << (64 - places)) - 1
    return (bits >> places) & remaining


def _mixed(bits: Tensor) -> Tensor:
    """The next output of SplitMix64 with the state ``bits``; products of int64 wrap around, as it needs."""
    bits = bits + _signed(_GOLDEN)
    bits = (bits ^ _shifted(bits, 30)) * _signed(_FIRST)
    bits = (bits ^ _shifted(bits, 27)) * _signed(_SECOND)
    return bits ^ _shifted(bits, 31)
