"""The record of a sampler. This module imports no numpy, because it is imported at every start of rlcore."""

from __future__ import annotations

from typing import ClassVar

import attrs

from rlcore import Record


@attrs.frozen(kw_only=True)
class SamplerSpec(Record):
    """A sampler for ``sampler_type``.

    ``settings`` names the attrs class of its ``sampler_parameters``. ``target(settings)``, called by
    keyword, returns a
    :class:`rlcore_curriculum.samplers.Sampler`, which converts uniform random numbers into values.
    """

    kind: ClassVar[str] = "sampler"
    key: ClassVar[str] = "sampler_type"
    protocol: ClassVar[str] = "rlcore_curriculum.samplers:Sampler"

    settings: str
