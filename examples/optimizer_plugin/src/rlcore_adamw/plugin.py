"""The hooks and settings of rlcore-adamw. rlcore imports this module at every start, so it must not import torch."""

import attrs

from rlcore import hookimpl, setting
from rlcore_torch import OptimizerSettings, OptimizerSpec, ScheduleSpec


@attrs.frozen(kw_only=True)
class AdamWSettings(OptimizerSettings):
    """Settings of AdamW: ``optimizer: {type: adamw, weight_decay: 0.01}``."""

    weight_decay: float = setting(0.01, "Share of a weight, times learning_rate, lost in a step.", minimum=0.0)
    epsilon: float = setting(1e-5, "Number added to the denominator.", exclusive_minimum=0.0)


@hookimpl
def rlcore_optimizers() -> list[OptimizerSpec]:
    return [
        OptimizerSpec(
            name="adamw",
            target="rlcore_adamw.optimizer:adamw",
            settings="rlcore_adamw.plugin:AdamWSettings",
            summary="Adam with decoupled weight decay (Loshchilov and Hutter 2019)",
        )
    ]


@hookimpl
def rlcore_schedules() -> list[ScheduleSpec]:
    return [
        ScheduleSpec(
            name="warm-up-cosine",
            target="rlcore_adamw.schedule:warm_up_cosine",
            summary="up in the first twentieth of a run, then half a cosine",
        )
    ]
