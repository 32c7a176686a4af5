"""The statistics writer ``wandb``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlcore_trackers.hooks import make_writer
from rlcore_wandb.plugin import SPEC
from rlcore_wandb.settings import WandbSettings

if TYPE_CHECKING:
    from rlcore import RunContext
    from rlcore_trackers.writer import TrackerWriter


def create(settings: WandbSettings | None, run: RunContext) -> TrackerWriter:
    """Create the writer: the target of its record."""
    return make_writer(SPEC, settings or WandbSettings(), run)
