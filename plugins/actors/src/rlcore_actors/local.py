"""The actors that a run starts on its own machine."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import threading
from collections import deque
from contextlib import suppress

from rlcore import python_command
from rlcore_workers import EndingProcess

__all__ = ["LocalActor"]

KEPT_LINES = 50  # of the output of an actor, for errors
LONGEST_LINE = 65536  # bytes


class LocalActor:
    """A process that plays in one place of a run. It ends with the run, however that ends.

    Raises OSError if it cannot be started.
    """

    def __init__(self, place: int, address: tuple[str, int], token: str) -> None:
        """``address`` is where this machine reaches the run."""
        self._place = place
        self._lines: deque[str] = deque(maxlen=KEPT_LINES)
        self._process = EndingProcess(
            python_command("-m", "rlcore_actors.program"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        given = {
            "host": address[0],
            "port": address[1],
            "token": token,
            "place": place,
            "level": logging.getLogger("rlcore").getEffectiveLevel(),
        }
        assert self._process.stdin is not None
        with suppress(BrokenPipeError), self._process.stdin as end:  # not in the arguments, which other users see
            end.write(json.dumps(given).encode() + b"\n")
        self._thread = threading.Thread(target=self._read, name=f"output of actor {place}", daemon=True)
        self._thread.start()

    def _read(self) -> None:
        """Pass the output of the process on, and keep its last lines."""
        assert self._process.stdout is not None
        with self._process.stdout as output, suppress(OSError, ValueError):
            for line in iter(lambda: output.readline(LONGEST_LINE), b""):
                text = line.decode(errors="replace").rstrip("\n")
                self._lines.append(text)
                with suppress(Exception):
                    print(f"actor {self._place}: {text}", file=sys.stderr)

    @property
    def ended(self) -> str | None:
        """How the process ended: ``ended with exit code 1`` or ``was killed by SIGKILL``; None while it runs."""
        return self._process.ended

    def wait(self, seconds: float) -> bool:
        """Wait for the end; return whether the process has ended."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(max(0.0, seconds))
        return self.ended is not None

    def kill(self) -> None:
        """Kill the process, and all that it started."""
        self._process.kill()
        self._process.wait()
        self._thread.join(1.0)

    @property
    def tail(self) -> str:
        """The last lines that the process wrote."""
        return "\n".join(self._lines)
