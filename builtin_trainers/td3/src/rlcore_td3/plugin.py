"""The hooks of rlcore-td3. Imported whenever rlcore starts, so torch is imported with the target, not here."""

from __future__ import annotations

from rlcore import Preset, TrainerSpec, hookimpl
from rlcore_torch import AccelerationSpec


@hookimpl
def rlcore_trainers() -> list[TrainerSpec]:
    return [
        _trainer("td3", "TD3Settings", "TD3: off-policy, deterministic actor, twin critics, delayed updates"),
        _trainer("ddpg", "DDPGSettings", "DDPG: off-policy, deterministic actor, one critic"),
    ]


def _trainer(name: str, settings: str, summary: str) -> TrainerSpec:
    """The record of one of both algorithms, which differ in their settings only."""
    return TrainerSpec(
        name=name,
        target="rlcore_td3.trainer:TD3Trainer",
        settings=f"rlcore_td3.settings:{settings}",
        network="rlcore_torch:NetworkSettings",
        spaces={"continuous"},
        summary=summary,
        behavioral_cloning=True,
        critic=True,
        memory=True,
        ranks=True,
    )


@hookimpl
def rlcore_accelerations() -> list[AccelerationSpec]:
    return [
        AccelerationSpec(
            name="td3",
            trainer="rlcore_td3.trainer:TD3Trainer",
            target="rlcore_td3.by_hand:GRADIENTS",
            summary="the gradients of TD3's losses written by hand, for networks of linear layers",
        ),
        AccelerationSpec(
            name="td3-threads",
            trainer="rlcore_td3.trainer:TD3Trainer",
            target="rlcore_td3.by_hand:THREADS",
            summary="one thread or two in a gradient step, by measuring",
        ),
    ]


@hookimpl
def rlcore_config_sections() -> list[Preset]:
    return [
        Preset(
            name="td3",
            target="rlcore_td3.presets:TD3",
            trainer="td3",
            spaces={"continuous"},
            summary="TD3 for continuous actions, such as MuJoCo and Pendulum",
            source="Fujimoto et al. 2018 (arXiv:1802.09477), section 6.1 and appendix C, with the network of the "
            "authors' code, the rate of RL Zoo's td3.yml, and 1,000 random steps in all environments: chosen by "
            "Pendulum at 10,000 steps, seeds 11 and 12",
        ),
        Preset(
            name="ddpg",
            target="rlcore_td3.presets:DDPG",
            trainer="ddpg",
            spaces={"continuous"},
            summary="DDPG for continuous actions, such as Pendulum",
            source="Lillicrap et al. 2016 (arXiv:1509.02971), section 7, with the network, the rate, the batch, the "
            "noise and the target networks of the preset td3",
        ),
    ]
