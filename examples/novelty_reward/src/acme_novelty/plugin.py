"""The hook and the settings of acme-novelty. rlcore imports this module at every start, so it must not import torch."""

import attrs

from rlcore import RewardProviderSpec, RewardSettings, hookimpl, setting
from rlcore_torch import NetworkSettings


@attrs.frozen(kw_only=True)
class NoveltySettings(RewardSettings):
    """Settings of RND. ``network_settings`` sizes both networks: ``hidden_units`` and ``num_layers``."""

    # Novelty outlives episodes, so its sum is endless: without a discount it has no limit.
    gamma: float = setting(0.99, "Discount factor of this reward, below 1.", minimum=0.0, maximum=0.9999)
    episodic: bool = setting(False, "Whether the value of this reward ends with the episode.")
    learning_rate: float = setting(1e-4, "Learning rate of the predictor.", exclusive_minimum=0.0)
    batch_size: int = setting(256, "Transitions in one gradient step of the predictor.", minimum=1)
    network_settings: NetworkSettings = setting(factory=NetworkSettings, description="Sizes of both networks.")


@hookimpl
def rlcore_reward_providers():
    return [
        RewardProviderSpec(
            name="novelty",
            target="acme_novelty.reward:NoveltyReward",
            settings="acme_novelty.plugin:NoveltySettings",
            summary="a reward for what is new",
        )
    ]
