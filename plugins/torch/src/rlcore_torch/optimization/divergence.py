"""Advice for a loss that is not finite any more, with the largest numbers that the trainer learned from."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from rlcore_torch.arrays import Array


def remedy(experience: Any, normalized: bool, lower: str = "learning_rate") -> str:
    """The largest numbers of ``experience``, a rollout or a replay buffer, and what may help.

    ``normalized``: observations are. ``lower`` is the setting to lower.
    """
    reward = max(largest(experience.reward), largest(experience.group_reward))
    sizes = {name: largest(values) for name, values in experience.observations.items()}
    name = max(sizes, key=sizes.__getitem__)
    normalize = "" if normalized else ", or set network_settings.normalize: true"
    return (
        f"the largest reward is {reward:g}, and the largest value of observation {name!r} {sizes[name]:g}; lower "
        f"{lower}, or scale down what is large{normalize}"
    )


def largest(values: Array | Tensor | None) -> float:
    """The largest absolute value; 0 for what holds none, and for pictures and flags, whose values are small."""
    if isinstance(values, Tensor):
        values = values.cpu().numpy()
    # Kinds of numpy: f is real, i a signed integer; bytes of pictures are unsigned.
    if values is None or not values.size or values.dtype.kind not in "fi":
        return 0.0
    highest = abs(float(values.max()))
    lowest = abs(float(values.min()))
    return max(highest, lowest)
