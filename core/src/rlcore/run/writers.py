"""A statistics writer that fails: the run continues without it, or ends where plugins are strict."""

from __future__ import annotations

import logging
from collections.abc import Mapping

import attrs

from rlcore.contracts.stats import StatSummary, StatsWriter
from rlcore.plugins.failures import failure

log = logging.getLogger(__name__)


@attrs.define(eq=False)
class OpenWriter:
    """``described`` names the writer with its plugin, distribution and version."""

    writer: StatsWriter
    described: str
    missed: int = 0  # summaries since it failed, including the first

    def write(self, behavior: str, step: int, stats: Mapping[str, StatSummary], strict: bool) -> None:
        """Write one summary, unless the writer has failed before.

        A failure is a warning. It is a PluginError if ``strict`` (``--strict-plugins``), or if the writer raised
        SystemExit; the caller keeps the error until a checkpoint is saved.
        """
        if self.missed:
            self.missed += 1
            return
        try:
            self.writer.write(behavior, step, stats)
        except (Exception, SystemExit) as error:
            failed = failure(self.described, f"at step {step}", error)
            if strict or isinstance(error, SystemExit):
                raise failed from error
            self.missed = 1
            log.warning("%s; the run continues without it", failed)
            log.debug("the traceback of it:", exc_info=failed)

    def close(self) -> None:
        """Close the writer, and report how many summaries it missed."""
        if self.missed:
            log.warning("%s missed %d %s", self.described, self.missed, "summary" if self.missed == 1 else "summaries")
        self.writer.close()
