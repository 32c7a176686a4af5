"""The hooks of rlcore-dqn. rlcore imports this module at every start, so it must not import torch."""

from __future__ import annotations

from rlcore import TrainerSpec, hookimpl


@hookimpl
def rlcore_trainers() -> list[TrainerSpec]:
    return [
        TrainerSpec(
            name="dqn",
            target="rlcore_dqn.trainer:DQNTrainer",
            settings="rlcore_dqn.settings:DQNSettings",
            network="rlcore_torch:NetworkSettings",
            spaces={"discrete"},
            summary="deep Q-learning: off-policy, discrete actions, double Q targets",
        )
    ]
