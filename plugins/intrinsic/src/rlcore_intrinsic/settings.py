"""Blocks of ``reward_signals``: names, defaults and meanings are ML-Agents' where it has the key."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import attrs

from rlcore import BehaviorSettings, RewardSettings, RunConfig, is_plain_name, setting
from rlcore_torch import NetworkSettings

if TYPE_CHECKING:
    from rlcore import Plugins

MAX_ROWS = 1_000_000_000
MAX_GAMMA = 0.9999
MAX_UNITS = 65_536
MAX_PASSES = 1_000


@attrs.frozen(kw_only=True)
class LearningRewardSettings(RewardSettings):
    """The keys that all rewards of this plugin have."""

    network_settings: NetworkSettings = setting(factory=NetworkSettings, description="Networks of the reward.")
    learning_rate: float = setting(3e-4, "Learning rate of the reward's networks.", exclusive_minimum=0.0)
    encoding_size: int | None = setting(
        None,
        "Deprecated by ML-Agents: write network_settings.hidden_units. It counts only if network_settings are all "
        "defaults.",
        minimum=1,
        maximum=MAX_UNITS,
    )
    batch_size: int = setting(256, "Transitions in one gradient step (an rlcore key).", minimum=1, maximum=MAX_ROWS)
    num_epoch: int = setting(
        1,
        "Passes over the transitions of one update (an rlcore key; ML-Agents takes those of the trainer).",
        minimum=1,
        maximum=MAX_PASSES,
    )
    normalize_observations: bool = setting(
        True,
        "Scale vector observations with a running mean and variance of the reward's own (an rlcore key). "
        "network_settings.normalize does the same.",
    )

    def problems(
        self, behavior: BehaviorSettings, config: RunConfig, plugins: Plugins
    ) -> Iterator[tuple[tuple[str, ...], str]]:
        """Yield the keys of ``network_settings`` that networks of rewards do not have."""
        for key in ("memory", "critic", "action_distribution"):
            if getattr(self.network_settings, key) is not None:
                yield ("network_settings", key), f"a reward has no {key}; leave it out"

    @property
    def network(self) -> NetworkSettings:
        """``network_settings``, with ``encoding_size`` as the width if nothing else was set."""
        network = self.network_settings
        if self.encoding_size is not None and network == NetworkSettings():
            network = attrs.evolve(network, hidden_units=self.encoding_size)
        return attrs.evolve(network, normalize=network.normalize or self.normalize_observations)


@attrs.frozen(kw_only=True)
class ExplorationSettings(LearningRewardSettings):
    """The keys that rewards for what is new have."""

    # Novelty continues past the end of an episode, so its sum has no limit without a discount.
    gamma: float = setting(0.99, "Discount factor of this reward, below 1.", minimum=0.0, maximum=MAX_GAMMA)
    normalize_rewards: bool = setting(
        True,
        "Divide rewards by the standard deviation of their discounted sums (an rlcore key); false for the scale of "
        "ML-Agents.",
    )
    episodic: bool = setting(
        False,
        "Whether the value of this reward ends with the episode (an rlcore key); false for ML-Agents' meaning.",
    )


@attrs.frozen(kw_only=True)
class CuriositySettings(ExplorationSettings):
    """How the intrinsic curiosity module learns and rewards."""


@attrs.frozen(kw_only=True)
class RNDSettings(ExplorationSettings):
    """How random network distillation learns and rewards."""

    learning_rate: float = setting(1e-4, "Learning rate of the predictor.", exclusive_minimum=0.0)


@attrs.frozen(kw_only=True)
class GAILSettings(LearningRewardSettings):
    """How the discriminator of GAIL learns."""

    demo_path: str = setting(
        description="Recorded episodes of the expert: a path, or a name that a format knows.", foreign=is_plain_name
    )
    use_actions: bool = setting(
        False, "Whether the discriminator sees actions, and whether the episode terminated, beside observations."
    )
    use_vail: bool = setting(
        False, "Whether a variational bottleneck limits what the discriminator knows of its inputs (VAIL)."
    )
