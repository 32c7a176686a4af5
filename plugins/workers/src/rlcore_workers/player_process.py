"""The process of a player: a game or simulator that talks with the environment which started it.

It ends with the process of the environment, however that ends, with all that it started. What it writes goes to a file,
of which messages show the last lines. Its failures are counted by :class:`~rlcore_workers.supervisor.Restarts`.
"""

from __future__ import annotations

import os
import subprocess
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from rlcore import EnvironmentEnded, EnvironmentFailed
from rlcore_workers.ending_process import EndingProcess

KEPT_LINES = 20
KEPT_BYTES = 65_536  # at the end of a log that are looked at
LONGEST_LINE = 300  # characters of a line that are shown
PROXIES = ("http_proxy", "https_proxy", "all_proxy", "grpc_proxy")
END_SECONDS = 10.0  # that a killed process has to end
SHOWN_LINES = 3  # in the message of a player that failed


class PlayerLog(Exception):
    """The last lines of a player's log, as the cause of the error of a run; ``--debug`` shows it."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


class PlayerFailed(Exception):
    """A player that cannot be used any more. The text has the last lines of its log.

    Attributes:
        lines: The last lines of its log, or of what it wrote.
    """

    def __init__(self, problem: str, lines: Sequence[str] = ()) -> None:
        super().__init__(problem)
        self.lines = lines

    def __str__(self) -> str:
        return self.message("")

    def message(self, why: str) -> str:
        """Return the problem with what follows from it, ``why``, and the last lines of the log."""
        log = f"; its log ends with: {' | '.join(self.lines[-SHOWN_LINES:])}" if self.lines else ""
        return f"{self.args[0]}{why}{log}"

    def end(self, player: str, doing: str, log: Path, why: str = "") -> NoReturn:
        """Raise the EnvironmentFailed of a ``player`` that failed in ``doing``. Its cause has all the lines."""
        error = EnvironmentFailed(f"{player} failed in {doing}: {self.message(why)}")
        if not self.lines:
            raise error from self
        error.repeats_cause = True
        lines = "\n".join(self.lines)
        raise error from PlayerLog(f"The last lines of its log, {log}:\n{lines}")


class PlayerEnded(PlayerFailed):
    """A player that ended by itself and in order, such as one whose window was closed: it is not started again."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)

    def end(self, player: str, doing: str, log: Path, why: str = "") -> NoReturn:
        """Raise the EnvironmentEnded of a ``player``."""
        raise EnvironmentEnded(f"{player} {self.args[0]}{why}") from self


class PlayerProcess:
    """A player that runs, in a session of its own and without the proxies of this process.

    Attributes:
        output: What the process writes to its standard output and error.
        log: A log that the player writes itself; None: it writes none.
    """

    def __init__(
        self, command: Sequence[str | os.PathLike[str]], folder: Path, output: Path, log: Path | None = None
    ) -> None:
        """Start ``command`` in ``folder``; ``output`` is replaced, and ``log`` deleted. Raises OSError."""
        self.output = output
        self.log = log
        output.parent.mkdir(parents=True, exist_ok=True)
        if log is not None:
            log.unlink(missing_ok=True)
        environment = {name: value for name, value in os.environ.items() if name.lower() not in PROXIES}
        environment["no_proxy"] = "*"
        with open(output, "wb") as file:
            self._process = EndingProcess(
                command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT
            )

    @property
    def ended(self) -> str | None:
        """How the process ended: ``ended with exit code 1`` or ``was killed by SIGSEGV``; None while it runs."""
        return self._process.ended

    @property
    def ended_in_order(self) -> bool:
        """Whether the process ended with the exit code 0."""
        return self._process.poll() == 0

    def wait(self, seconds: float) -> bool:
        """Wait up to ``seconds`` for the end of the process; return whether it has ended."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
        return self.ended is not None

    def kill(self) -> None:
        """Kill the process, and all that it started."""
        self._process.kill()
        self.wait(END_SECONDS)

    def last_lines(self) -> list[str]:
        """Return the last lines of the output and of the log, without control characters."""
        lines = _last_lines(self.output)
        if self.log is not None:
            lines += _last_lines(self.log)
        return lines[-KEPT_LINES:]


def remove_logs(logs: Iterable[Path]) -> None:
    """Remove the logs of players that did not start, and their folder if nothing else is in it.

    The directory of a run that did not start is then bare, so that the run can be started again under its name.
    """
    for path in logs:
        path.unlink(missing_ok=True)
        with suppress(OSError):  # there are other files
            path.parent.rmdir()


def _last_lines(path: Path) -> list[str]:
    lines: deque[str] = deque(maxlen=KEPT_LINES)
    with suppress(OSError), open(path, "rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - KEPT_BYTES))
        for line in file.read().decode("utf-8", "replace").splitlines():
            # Control characters in a message could change what the terminal shows.
            text = "".join(letter for letter in line if letter.isprintable() or letter == "\t").rstrip()
            if text:
                lines.append(text[:LONGEST_LINE])
    return list(lines)
