"""The hooks and settings of rlcore-a2c. rlcore imports this module at every start, so it must not import torch."""

from __future__ import annotations

import attrs

from rlcore import TrainerSpec, hookimpl, setting
from rlcore_torch import OnPolicySettings


@attrs.frozen(kw_only=True)
class A2CSettings(OnPolicySettings):
    """Defaults are those of Stable-Baselines3 for eight environments: an update after five steps of each."""

    buffer_size: int = setting(40, "Agent steps collected, over all agents, before an update.", minimum=2)
    batch_size: int = setting(1_000_000, "Transitions of one gradient step; buffer_size or more: all.", minimum=1)
    learning_rate: float = setting(7e-4, "Step size of the optimizer.", exclusive_minimum=0.0)
    learning_rate_schedule: str = setting("constant", "Schedule of learning_rate over max_steps.", record="schedule")
    lambd: float = setting(1.0, "Lambda of advantage estimation; 1: plain returns.", minimum=0.0, maximum=1.0)
    advantage_normalization: str = setting("none", "Whether advantages are standardized.", choices=("rollout", "none"))
    value_coefficient: float = setting(0.5, "Weight of the value loss.", minimum=0.0)
    beta: float = setting(0.0, "Weight of the entropy bonus.", minimum=0.0)


@hookimpl
def rlcore_trainers() -> list[TrainerSpec]:
    return [
        TrainerSpec(
            name="a2c",
            target="rlcore_a2c.trainer:A2CTrainer",
            settings="rlcore_a2c.plugin:A2CSettings",
            network="rlcore_torch:NetworkSettings",
            critic=True,
            privileged_critic=True,
            action_distributions=True,
            summary="advantage actor-critic: on-policy, one gradient step for each rollout",
        )
    ]
