"""The hook and settings of rlcore-her. rlcore imports this module at every start, so it must not import torch."""

import attrs

from rlcore import hookimpl, setting
from rlcore_torch import ReplaySamplerSettings, ReplaySamplerSpec


@attrs.frozen(kw_only=True)
class HindsightSettings(ReplaySamplerSettings):
    """Settings of hindsight experience replay, for sparse rewards: 0 at the goal, -1 elsewhere."""

    relabeled: float = setting(0.8, "Share of transitions that get another goal.", minimum=0.0, maximum=1.0)
    horizon: int = setting(50, "Steps of an episode from which a goal may be taken.", minimum=1, maximum=10_000)
    tolerance: float = setting(0.05, "Largest distance at which a goal is reached.", minimum=0.0)


@hookimpl
def rlcore_replay_buffer_samplers() -> list[ReplaySamplerSpec]:
    target, settings = "rlcore_her.sampler:HindsightSampler", "rlcore_her.plugin:HindsightSettings"
    summary = "hindsight experience replay: goals that were reached later in the episode"
    return [ReplaySamplerSpec(name="her", target=target, settings=settings, summary=summary)]
