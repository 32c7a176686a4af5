"""The hooks of rlcore-her. Imported whenever rlcore starts, so torch is imported with the target, not here."""

from __future__ import annotations

from rlcore import hookimpl
from rlcore_torch import ReplaySamplerSpec


@hookimpl
def rlcore_replay_buffer_samplers() -> list[ReplaySamplerSpec]:
    return [
        ReplaySamplerSpec(
            name="her",
            target="rlcore_her.sampler:HindsightSampler",
            settings="rlcore_her.settings:HindsightSettings",
            summary="hindsight experience replay: goals that an episode has reached take the place of its own",
        )
    ]
