"""A statistics writer while a run goes on: after its first failure the run goes on without it."""

from __future__ import annotations

import logging
from collections.abc import Mapping

import attrs

from rlcore.plugins.failures import failure
from rlcore.stats import StatSummary, StatsWriter

log = logging.getLogger(__name__)


@attrs.define(eq=False)
class OpenWriter:
    """``described`` names the writer with its plugin, distribution and version."""

    writer: StatsWriter
    described: str
    missed: int = 0  # summaries since it failed, the one it failed with included

    def write(self, behavior: str, step: int, stats: Mapping[str, StatSummary], strict: bool) -> None:
        """Hands over one summary; a writer that has failed before is passed over.

        A failure is a warning. It is a PluginError where ``strict``, or where the writer wants the process to end.
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
            log.warning("%s; the run goes on without it", failed)
            log.debug("the traceback of it:", exc_info=failed)

    def close(self) -> None:
        """Closes the writer, and says how much it has missed."""
        if self.missed:
            log.warning("%s missed %d %s", self.described, self.missed, "summary" if self.missed == 1 else "summaries")
        self.writer.close()
