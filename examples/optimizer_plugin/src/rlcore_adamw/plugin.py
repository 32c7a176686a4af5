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
    target, settings = "rlcore_adamw.optimizer:adamw", "rlcore_adamw.plugin:AdamWSettings"
    summary = "Adam with decoupled weight decay (Loshchilov and Hutter 2019)"
    return [OptimizerSpec(name="adamw", target=target, settings=settings, summary=summary)]


@hookimpl
def rlcore_schedules() -> list[ScheduleSpec]:
    target, summary = "rlcore_adamw.schedule:warm_up_cosine", "up in the first twentieth of a run, then half a cosine"
    return [ScheduleSpec(name="warm-up-cosine", target=target, summary=summary)]
