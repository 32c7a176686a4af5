"""Prints the log of rlcore and of plugins as lines on standard error."""

from __future__ import annotations

import logging
import sys
import traceback

from rlcore.cli.shown_paths import ShownPaths
from rlcore.cli.terminal import echo
from rlcore.plugins.context import PLUGIN_LOGGERS


class EchoHandler(logging.Handler):
    """Writes to the current ``sys.stderr``, which a progress bar may have replaced.

    The stream is passed to click, which would otherwise look for the binary stream and write past the bar.
    """

    def __init__(self) -> None:
        super().__init__()
        self._shown = ShownPaths()

    def emit(self, record: logging.LogRecord) -> None:
        kind = "" if record.levelno == logging.INFO else f"{record.levelname.lower()}: "
        if record.name.startswith(f"{PLUGIN_LOGGERS}."):
            kind += f"{record.name.removeprefix(f'{PLUGIN_LOGGERS}.')}: "
        echo(f"{kind}{self._shown(' '.join(record.getMessage().splitlines()))}", file=sys.stderr)
        if record.exc_info:
            echo("".join(traceback.format_exception(*record.exc_info)).removesuffix("\n"), file=sys.stderr)


def show_log(debug: bool = False, leads: bool = True) -> None:
    """Prints messages and warnings of rlcore from now on; with ``debug``, everything.

    A process that does not lead, because it is a rank above 0 of a run, prints errors alone.
    """
    logger = logging.getLogger("rlcore")
    for handler in [handler for handler in logger.handlers if isinstance(handler, EchoHandler)]:
        logger.removeHandler(handler)  # an earlier command of this process may have started in another directory
    logger.addHandler(EchoHandler())
    logger.propagate = False
    logger.setLevel(logging.DEBUG if debug else logging.INFO if leads else logging.ERROR)
