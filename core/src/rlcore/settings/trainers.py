"""Settings that all trainers and all reward signals have; names, defaults and meanings are ML-Agents'."""

from __future__ import annotations

from typing import Any

import attrs

from rlcore.settings.fields import setting


@attrs.frozen(kw_only=True)
class PolicySettings:
    """``network_settings`` of a trainer whose record names no other class; the base of all such classes."""

    deterministic: bool = setting(False, "Take the mean or most likely action in training too.")


@attrs.frozen(kw_only=True)
class RewardSettings:
    """Settings of every reward signal; a reward plugin's settings class derives from this class."""

    gamma: float = setting(0.99, "Discount factor of this reward.", minimum=0.0, maximum=1.0)
    strength: float = setting(1.0, "Factor on this reward.")


@attrs.frozen(kw_only=True)
class ExtrinsicSettings(RewardSettings):
    """Settings of the reward ``extrinsic``, the environment's own."""

    network_settings: dict[str, Any] | None = setting(
        None, "Without effect: ML-Agents has the key in every reward signal, and this one has no network."
    )


@attrs.frozen(kw_only=True)
class AbsentRewardSettings(RewardSettings):
    """A reward whose plugin is absent, in a configuration that is loaded to measure policies."""
