"""Advice for a loss that is not finite any more, from the numbers that the trainer learned from."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from numpy.typing import NDArray

from rlcore import ExtrinsicReward, RewardProvider

# Losses and gradient norms are sums of squares in float32, which ends at 3.4e38.
REWARD_OVERFLOWS = 1e17  # a value target is up to hundreds of rewards
OBSERVATION_OVERFLOWS = 1e9  # a gradient is about an observation times a value, which grows with the observation
# Normalized observations are squared in float64 only.
NORMALIZED_OVERFLOWS = 1e30
# No overflow by themselves, but more than networks learn from easily.
LARGE_REWARD, LARGE_OBSERVATION = 1e6, 10.0


def remedy(
    experience: Any, normalized: bool, strength: float, lower: str = "learning_rate", where: str = "environment"
) -> str:
    """The advice, with the number that calls for it, for ``experience``: a rollout or a replay buffer.

    ``normalized``: observations are; ``strength`` multiplies rewards, and is 0 where no loss is made of them; ``lower``
    is the setting to lower if nothing in ``experience`` is to blame; ``where`` observations and rewards come from.
    """
    reward = strength * max(largest(experience.reward), largest(experience.group_reward))
    sizes = {name: largest(values) for name, values in experience.observations.items()}
    name = max(sizes, key=lambda each: sizes[each])
    setting = "reward_signals.extrinsic.strength"
    plain = strength in (0.0, 1.0)
    rewards = f"the largest reward is {reward:g}" if plain else f"the largest reward times {setting} is {reward:g}"
    shrink = f"scale rewards down in the {where}" if plain else f"lower {setting}, or scale rewards down in the {where}"
    observations = f"the largest value of observation {name!r} is {sizes[name]:g}"
    normalize = "set network_settings.normalize: true"
    causes = []
    if reward >= REWARD_OVERFLOWS:
        causes.append(f"{rewards}, too large to learn from: {shrink}")
    if sizes[name] >= NORMALIZED_OVERFLOWS:
        causes.append(f"{observations}, too large to learn from: scale the observation down in the {where}")
    elif sizes[name] >= OBSERVATION_OVERFLOWS and not normalized:
        causes.append(f"{observations}, too large to learn from: {normalize}, or scale it down in the {where}")
    if causes:
        return "; ".join(causes)
    advice = f"lower {lower}"
    if sizes[name] > LARGE_OBSERVATION and not normalized:
        advice = f"{normalize} ({observations}), or {advice}"
    if reward > LARGE_REWARD:
        advice += f", or {shrink} ({rewards})"
    return advice


def strength_of(providers: Iterable[RewardProvider]) -> float:
    """The factor on the environment's rewards; 0 if the trainer does not learn from them."""
    return next((each.strength for each in providers if isinstance(each, ExtrinsicReward)), 0.0)


def largest(values: NDArray[Any] | None) -> float:
    """The largest absolute value; 0 for what holds none, and for pictures and flags, whose values are small."""
    if values is None or not values.size or values.dtype.kind not in "fi":
        return 0.0
    return float(max(abs(float(values.max())), abs(float(values.min()))))
