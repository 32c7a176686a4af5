"""The hooks of rlcore-sac. Imported whenever rlcore starts, so torch is imported with the target, not here."""

from __future__ import annotations

from rlcore import Preset, TrainerSpec, hookimpl
from rlcore_torch import AccelerationSpec


@hookimpl
def rlcore_trainers() -> list[TrainerSpec]:
    return [
        TrainerSpec(
            name="sac",
            target="rlcore_sac.trainer:SACTrainer",
            settings="rlcore_sac.settings:SACSettings",
            network="rlcore_torch:NetworkSettings",
            summary="soft actor-critic: off-policy, maximum entropy, twin critics",
            behavioral_cloning=True,
            critic=True,
            action_distributions=True,
            memory=True,
            privileged_critic=True,
            ranks=True,
        ),
        TrainerSpec(
            name="tqc",
            target="rlcore_sac.tqc:TQCTrainer",
            settings="rlcore_sac.settings:TQCSettings",
            network="rlcore_torch:NetworkSettings",
            spaces={"continuous"},
            summary="truncated quantile critics: SAC whose critics predict distributions of returns",
            behavioral_cloning=True,
            critic=True,
            action_distributions=True,
            memory=True,
            privileged_critic=True,
            ranks=True,
        ),
    ]


@hookimpl
def rlcore_accelerations() -> list[AccelerationSpec]:
    return [
        AccelerationSpec(
            name="sac",
            trainer="rlcore_sac.trainer:SACTrainer",
            target="rlcore_sac.by_hand:GRADIENTS",
            summary="the gradients of SAC's losses written by hand, for networks of linear layers",
        ),
        AccelerationSpec(
            name="sac-threads",
            trainer="rlcore_sac.trainer:SACTrainer",
            target="rlcore_sac.by_hand:THREADS",
            summary="one thread or two in a gradient step, by measuring",
        ),
    ]


@hookimpl
def rlcore_config_sections() -> list[Preset]:
    return [
        Preset(
            name="sac",
            target="rlcore_sac.presets:SAC",
            trainer="sac",
            spaces={"continuous"},
            summary="SAC for continuous actions, such as MuJoCo and Pendulum",
            source="Haarnoja et al. 2018 (arXiv:1812.05905), table 1; with 1,000 random first steps",
        ),
        Preset(
            name="rlpd",
            target="rlcore_sac.presets:RLPD",
            spaces={"continuous"},
            summary="SAC with recorded transitions (RLPD) of the directory recordings, or where prior_data.demo_path "
            "says; about 40 times the arithmetic of the preset sac",
            source="Ball et al. 2023 (arXiv:2302.02948) and the authors' code",
        ),
        Preset(
            name="tqc",
            target="rlcore_sac.presets:TQC",
            trainer="tqc",
            spaces={"continuous"},
            summary="TQC with two narrow critics, for CPUs",
            source="the preset sac, with two critics of 25 quantiles, of which targets leave out two of each",
        ),
        Preset(
            name="tqc-paper",
            target="rlcore_sac.presets:TQC_PAPER",
            spaces={"continuous"},
            summary="TQC with five critics of 3 x 512, about 15 times the arithmetic of the preset tqc",
            source="Kuznetsov et al. 2020 (arXiv:2005.04269) and the authors' code; set dropped_quantiles: 5 "
            "for Hopper and 0 for HalfCheetah, as they do",
        ),
    ]
