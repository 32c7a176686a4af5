"""The hook that rlcore-curriculum adds for plugins with samplers."""

# mypy: disable-error-code="empty-body"

from __future__ import annotations

from collections.abc import Iterable

from rlcore import registry_of
from rlcore_curriculum.records import SamplerSpec


@registry_of(SamplerSpec)
def rlcore_samplers() -> Iterable[SamplerSpec]:
    """Return the samplers of this plugin, for ``sampler_type``.

    Called once per process, when a configuration has a sampler. Must not import torch or numpy.
    """
