"""The hooks and settings of rlcore-rnd. rlcore imports this module at every start, so it must not import torch."""

from __future__ import annotations

import attrs

from rlcore import RewardProviderSpec, hookimpl
from rlcore.settings import RewardSettings, setting


@attrs.frozen(kw_only=True)
class RNDSettings(RewardSettings):
    """Settings of RND. ``network_settings`` sizes both networks: ``hidden_units`` and ``num_layers``."""

    # Novelty outlives episodes, so its sum is endless: without a discount it has no limit.
    gamma: float = setting(0.99, "Discount factor of this reward, below 1.", minimum=0.0, maximum=0.9999)
    learning_rate: float = setting(1e-4, "Learning rate of the predictor.", minimum=1e-10, maximum=1.0)
    features: int = setting(64, "Outputs of the target that the predictor learns.", minimum=1, maximum=4096)
    batch_size: int = setting(256, "Transitions in one gradient step of the predictor.", minimum=1)


@hookimpl
def rlcore_reward_providers() -> list[RewardProviderSpec]:
    return [
        RewardProviderSpec(
            name="rnd",
            target="rlcore_rnd.reward:RNDReward",
            settings="rlcore_rnd.plugin:RNDSettings",
            summary="random network distillation: a reward for observations that are new",
        )
    ]
