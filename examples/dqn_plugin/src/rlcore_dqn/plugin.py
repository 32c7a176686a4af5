"""What rlcore-dqn brings. Imported whenever rlcore starts: torch enters with the target, not here."""

from __future__ import annotations

from rlcore import TrainerSpec, hookimpl


@hookimpl
def rlcore_trainers() -> list[TrainerSpec]:
    return [
        TrainerSpec(
            name="dqn",
            target="rlcore_dqn.trainer:DQNTrainer",
            settings="rlcore_dqn.settings:DQNSettings",
            spaces={"discrete"},
            summary="deep Q-learning: off-policy, discrete actions, double Q targets",
        )
    ]
