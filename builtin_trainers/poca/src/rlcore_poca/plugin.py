"""The hooks of rlcore-poca. Imported whenever rlcore starts, so torch is imported with the target, not here."""

from __future__ import annotations

from rlcore import TrainerSpec, hookimpl


@hookimpl
def rlcore_trainers() -> list[TrainerSpec]:
    return [
        TrainerSpec(
            name="poca",
            target="rlcore_poca.trainer:POCATrainer",
            settings="rlcore_poca.settings:POCASettings",
            network="rlcore_torch:NetworkSettings",
            summary="MA-POCA: on-policy, for groups that share rewards and whose members may leave early",
            behavioral_cloning=True,
            critic=True,
            action_distributions=True,
            ranks=True,
        )
    ]
