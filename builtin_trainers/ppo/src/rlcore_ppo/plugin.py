"""The hooks of rlcore-ppo. Imported whenever rlcore starts, so torch is imported with the target, not here."""

from __future__ import annotations

from rlcore import TrainerSpec, hookimpl


@hookimpl
def rlcore_trainers() -> list[TrainerSpec]:
    return [
        TrainerSpec(
            name="ppo",
            target="rlcore_ppo.trainer:PPOTrainer",
            settings="rlcore_ppo.settings:PPOSettings",
            network="rlcore_torch:NetworkSettings",
            summary="proximal policy optimization: on-policy, clipped policy gradient",
            behavioral_cloning=True,
            memory=True,
            critic=True,
            action_distributions=True,
            ranks=True,
        )
    ]
