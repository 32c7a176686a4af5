"""The hooks of rlcore-pqn. Imported whenever rlcore starts, so torch is imported with the target, not here."""

from __future__ import annotations

from rlcore import Preset, TrainerSpec, hookimpl
from rlcore_torch import EncoderSpec


@hookimpl
def rlcore_trainers() -> list[TrainerSpec]:
    return [
        TrainerSpec(
            name="pqn",
            target="rlcore_pqn.trainer:PQNTrainer",
            settings="rlcore_pqn.settings:PQNSettings",
            network="rlcore_pqn.settings:PQNNetworkSettings",
            spaces={"discrete"},
            summary="PQN: Q-learning on rollouts, without replay and target networks; discrete actions",
            memory=True,
            ranks=True,
        )
    ]


@hookimpl
def rlcore_encoders() -> list[EncoderSpec]:
    return [
        EncoderSpec(
            name="layer_norm_cnn",
            target="rlcore_pqn.encoder:layer_norm_cnn",
            kinds={"image"},
            summary="convolutions for the size of the image, with LayerNorm after each",
        )
    ]


@hookimpl
def rlcore_config_sections() -> list[Preset]:
    return [
        Preset(
            name="pqn",
            target="rlcore_pqn.presets:PQN",
            trainer="pqn",
            spaces={"discrete"},
            images=False,
            summary="PQN for discrete actions and vectors, such as CartPole and Acrobot",
            source="CleanRL's pqn.py, with 16 environments for its 4 and rewards divided by the deviation of returns: "
            "chosen by CartPole and Acrobot (seeds 11 and 12)",
        ),
        Preset(
            name="pqn-images",
            target="rlcore_pqn.presets:PQN_IMAGES",
            trainer="pqn",
            spaces={"discrete"},
            images=True,
            summary="PQN for discrete actions and images, such as MinAtar's games",
            source="pqn_minatar.yaml of purejaxql, the code of Gallici et al. 2025 (arXiv:2407.04811), with 3 of its "
            "10 million steps",
        ),
    ]
