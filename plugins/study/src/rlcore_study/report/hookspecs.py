"""The hook that the plugin ``report`` adds for plugins with parts of the page."""

# mypy: disable-error-code="empty-body"

from __future__ import annotations

from collections.abc import Iterable

from rlcore import registry_of
from rlcore_study.parts import ReportPartSpec


@registry_of(ReportPartSpec)
def rlcore_report_parts() -> Iterable[ReportPartSpec]:
    """Return the parts that this plugin adds to the page of ``rlcore report``.

    Called once by ``rlcore report``. Mark an implementation with ``@hookimpl(optionalhook=True)``, so that the plugin
    works without it. Must not import torch or numpy.
    """
