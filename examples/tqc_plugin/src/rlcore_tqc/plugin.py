"""The hooks of rlcore-tqc. rlcore imports this module at every start, so it must not import torch."""

from __future__ import annotations

from rlcore import TrainerSpec, hookimpl


@hookimpl
def rlcore_trainers() -> list[TrainerSpec]:
    return [
        TrainerSpec(
            name="tqc",
            target="rlcore_tqc.trainer:TQCTrainer",
            settings="rlcore_tqc.settings:TQCSettings",
            network="rlcore_torch:NetworkSettings",
            spaces={"continuous"},
            critic=True,
            summary="truncated quantile critics: off-policy, maximum entropy, distributional critics",
        )
    ]
