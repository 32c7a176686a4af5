"""The hooks of rlcore-crossq. Imported whenever rlcore starts, so torch is imported with the target, not here."""

from __future__ import annotations

from rlcore import Preset, TrainerSpec, hookimpl


@hookimpl
def rlcore_trainers() -> list[TrainerSpec]:
    return [
        TrainerSpec(
            name="crossq",
            target="rlcore_crossq.trainer:CrossQTrainer",
            settings="rlcore_crossq.settings:CrossQSettings",
            network="rlcore_crossq.settings:CrossQNetworkSettings",
            spaces={"continuous"},
            summary="CrossQ: off-policy, SAC without target networks, with batch normalization",
            behavioral_cloning=True,
            critic=True,
        ),
        TrainerSpec(
            name="xqc",
            target="rlcore_crossq.xqc:XQCTrainer",
            settings="rlcore_crossq.settings:XQCSettings",
            network="rlcore_crossq.settings:XQCNetworkSettings",
            spaces={"continuous"},
            summary="XQC: CrossQ with distributions of returns, weights of norm 1, and target networks",
            behavioral_cloning=True,
            critic=True,
        ),
    ]


@hookimpl
def rlcore_config_sections() -> list[Preset]:
    return [
        Preset(
            name="crossq",
            target="rlcore_crossq.presets:NARROW",
            trainer="crossq",
            spaces={"continuous"},
            summary="CrossQ for continuous actions, with critics that a CPU can train",
            source="Bhatt et al. 2024 (arXiv:1902.05605), and the authors' code, with critics of 512 units as in "
            "the crossq.yaml of the authors of XQC",
        ),
        Preset(
            name="crossq-wide",
            target="rlcore_crossq.presets:WIDE",
            trainer="crossq",
            spaces={"continuous"},
            summary="CrossQ for continuous actions as published, with critics of 2,048 units",
            source="Bhatt et al. 2024 (arXiv:1902.05605) and the authors' code",
        ),
        Preset(
            name="xqc",
            target="rlcore_crossq.presets:XQC",
            trainer="xqc",
            spaces={"continuous"},
            summary="XQC for continuous actions, with half the width and a gradient step for each step, for CPUs",
            source="Palenicek et al. 2026 (arXiv:2509.25174) and the authors' code, with critics of 4 x 256, a policy "
            "of 4 x 128, one gradient step for each step instead of two, and a constant learning rate",
        ),
        Preset(
            name="xqc-paper",
            target="rlcore_crossq.presets:XQC_PAPER",
            spaces={"continuous"},
            summary="XQC for continuous actions as published, about 8 times the arithmetic of the preset xqc",
            source="Palenicek et al. 2026 (arXiv:2509.25174) and the authors' code, with their values for MuJoCo",
        ),
    ]
