"""The record of a sampler. Imports no numpy: it is made whenever rlcore starts."""

from __future__ import annotations

from typing import ClassVar

import attrs

from rlcore.plugins import Record


@attrs.frozen(kw_only=True)
class SamplerSpec(Record):
    """A sampler that ``sampler_type`` may name.

    ``settings`` names the attrs class of its ``sampler_parameters``. ``target(settings)``, called by keyword, returns a
    :class:`rlcore_curriculum.samplers.Sampler`, which turns uniform random numbers into values.
    """

    kind: ClassVar[str] = "sampler"
    key: ClassVar[str] = "sampler_type"

    settings: str
