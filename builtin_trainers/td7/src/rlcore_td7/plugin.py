"""The hooks of rlcore-td7. Imported whenever rlcore starts, so torch is imported with the target, not here."""

from __future__ import annotations

from rlcore import Preset, TrainerSpec, hookimpl
from rlcore_torch import ReplaySamplerSpec


@hookimpl
def rlcore_trainers() -> list[TrainerSpec]:
    return [
        TrainerSpec(
            name="td7",
            target="rlcore_td7.trainer:TD7Trainer",
            settings="rlcore_td7.settings:TD7Settings",
            network="rlcore_torch:NetworkSettings",
            spaces={"continuous"},
            summary="TD7: TD3 with learned embeddings of states and actions, and prioritized replay",
            behavioral_cloning=True,
            critic=True,
        )
    ]


@hookimpl
def rlcore_replay_buffer_samplers() -> list[ReplaySamplerSpec]:
    return [
        ReplaySamplerSpec(
            name="lap",
            target="rlcore_td7.sampler:LAPSampler",
            settings="rlcore_td7.settings:LAPSettings",
            summary="priorities of at least one, without importance weights, for losses linear in large errors",
        )
    ]


@hookimpl
def rlcore_config_sections() -> list[Preset]:
    return [
        Preset(
            name="td7",
            target="rlcore_td7.presets:TD7",
            trainer="td7",
            spaces={"continuous"},
            summary="TD7 for robots of MuJoCo, as published but for its checkpoints",
            source="Fujimoto et al. 2023 (arXiv:2306.02451) and the authors' code, without the policy's checkpoints",
        )
    ]
