"""The hooks and settings of rlcore-td3. rlcore imports this module at every start, so it must not import torch."""

import attrs

from rlcore import TrainerSpec, hookimpl, setting
from rlcore_torch import OffPolicySettings


@attrs.frozen(kw_only=True)
class TD3Settings(OffPolicySettings):
    """Hyperparameters of TD3, in addition to those of every off-policy trainer. Noise is in units of [-1, 1]."""

    tau: float = setting(0.005, "Share of the way that target networks move.", exclusive_minimum=0.0, maximum=1.0)
    actor_delay: int = setting(2, "Critic steps for each step of the actor and the targets.", minimum=1)
    exploration_noise: float = setting(0.1, "Standard deviation of the noise on actions.", minimum=0.0)
    target_noise: float = setting(0.2, "Standard deviation of the noise on target actions.", minimum=0.0)
    target_noise_clip: float = setting(0.5, "Largest noise on a target action.", minimum=0.0)


@hookimpl
def rlcore_trainers() -> list[TrainerSpec]:
    trainer, settings = "rlcore_td3.trainer:TD3Trainer", "rlcore_td3.plugin:TD3Settings"
    network, summary = "rlcore_torch:NetworkSettings", "TD3: off-policy, continuous actions, delayed actor"
    spaces = {"continuous"}
    return [TrainerSpec(name="td3", target=trainer, settings=settings, network=network, spaces=spaces, summary=summary)]
