"""What rlcore-old-trainer brings. rlcore imports this module at every start, so nothing heavy is imported here."""

from __future__ import annotations

from rlcore import TrainerSpec, hookimpl


@hookimpl
def rlcore_trainers() -> list[TrainerSpec]:
    return [
        TrainerSpec(
            name="old-trainer",
            target="rlcore_old_trainer.trainer:OldTrainerTrainer",
            settings="rlcore_old_trainer.settings:OldTrainerSettings",
            summary="linear actor-critic on discrete actions",
            spaces={"discrete"},
        )
    ]
