"""``rlcore``: finds the command, runs it, turns errors into one line and an exit code, and ends the process.

Commands are named by strings and imported when they are run, so that ``rlcore --help`` is fast. ``rlcore run`` and
``rlcore evaluate`` enter :func:`ends_within` around each ``close()``; :mod:`rlcore.run.components` sets the seconds.
:func:`end_in_order` gives threads and exit handlers that are left after the command ``EXIT_SECONDS``.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from io import TextIOWrapper
from types import TracebackType
from typing import Any, NoReturn

import click

from rlcore import __version__
from rlcore.cli.commands import LazyCommand, LazyGroup, before_double_dash
from rlcore.cli.terminal import ShownPaths, echo, give_up
from rlcore.errors import ConfigError, ExitCode, RlcoreError, one_line, traceback_hint

ENV_DEBUG = "RLCORE_DEBUG"

COMMANDS = {
    "run": LazyCommand("rlcore.cli.run:run_command", "Train agents as a configuration file describes."),
    "evaluate": LazyCommand("rlcore.cli.evaluate:evaluate_command", "Measure the agents of a run."),
    "export": LazyCommand("rlcore.cli.export:export_command", "Write the policies of a run for other programs."),
    "validate": LazyCommand("rlcore.cli.validate:validate_command", "Check a configuration file."),
    "status": LazyCommand("rlcore.cli.status:status_command", "Show how far a run is."),
    "plugins": LazyCommand("rlcore.cli.plugins:plugins_command", "List, inspect, check and create plugins."),
}


class ReaderGone(Exception):
    """The reader of standard output or standard error is gone: ``rlcore plugins list | head``."""


class Rlcore(LazyGroup):
    """The group of all commands. Click would end the process at a lost pipe; this group raises ReaderGone."""

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        with _lost_pipes():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        with _lost_pipes():
            return super().invoke(ctx)


@contextmanager
def _lost_pipes() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError as error:
        raise ReaderGone from error


@click.group(
    cls=Rlcore,
    lazy=COMMANDS,
    synonyms={"train": "run", "learn": "run", "fit": "run", "test": "evaluate", "enjoy": "evaluate"},
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Which plugin has which command: rlcore plugins list --provides",
)
@click.version_option(__version__, prog_name="rlcore")
@click.option("--debug", is_flag=True, expose_value=False, help=f"Show tracebacks ({ENV_DEBUG}=1 does the same).")
def rlcore() -> None:
    """Reinforcement learning where everything is a plugin."""


def main(argv: Sequence[str] | None = None, own_process: bool = False) -> int:
    """Runs one command and returns its exit code. Pass ``own_process`` if the process ends with the command."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    shown = ShownPaths()
    try:
        answer = rlcore.main(arguments, prog_name="rlcore", standalone_mode=False, obj=own_process)
        with _lost_pipes():
            print(end="", flush=True)
        return answer if isinstance(answer, int) else ExitCode.DONE
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return ExitCode.SIGINT
    except SystemExit as error:
        return _ended(error, arguments)
    except ReaderGone:
        give_up(sys.stdout)
        return ExitCode.INTERNAL
    except BaseException as error:  # GeneratorExit, for example
        return report(error, _debugging(arguments), shown)


def _ended(error: SystemExit, arguments: Sequence[str]) -> int:
    """The exit code after a ``sys.exit``. A command of a plugin may call it; in other code it is an error."""
    command = next((word for word in arguments if not word.startswith("-")), None)
    if command not in COMMANDS:
        if error.code is None or isinstance(error.code, int):
            return error.code or ExitCode.DONE
        click.echo(error.code, err=True)
        return ExitCode.INTERNAL

    if _debugging(arguments):
        echo(traceback_text(error).removesuffix("\n"), err=True)
    echo(f"error: unexpected {one_line(error)}; --debug shows where", err=True)
    return ExitCode.INTERNAL


def _debugging(arguments: Sequence[str]) -> bool:
    # Read from the arguments, because the error may precede click's context.
    return "--debug" in before_double_dash(arguments) or os.environ.get(ENV_DEBUG, "0") not in ("", "0")


def process() -> NoReturn:
    """The ``rlcore`` process: runs one command and exits with its code.

    After a run or an evaluation, threads that an environment or a plugin left running do not keep the process alive.
    """
    command = next((word for word in sys.argv[1:] if not word.startswith("-")), "")
    if isinstance(sys.stdout, TextIOWrapper):  # a path may have letters that the terminal has not
        sys.stdout.reconfigure(errors="backslashreplace")
    code = main(own_process=True)
    if command in ("run", "evaluate"):
        end_in_order(code)
    sys.exit(code)


def report(error: BaseException, debug: bool, shown: Callable[[str], str] = str) -> int:
    """Prints the line, with ``debug`` after the traceback, and returns the exit code.

    ``shown`` shortens the paths in the line. If standard error is lost, only the exit code reports the error.
    """
    try:
        if debug:
            echo(traceback_text(error).removesuffix("\n"), err=True)
        echo(f"error: {named(shown(_message(error)))}", err=True)
    except OSError:
        give_up(sys.stderr)
    if isinstance(error, OSError):  # a file that cannot be read or written: one that other code needs was named by it
        return ExitCode.RUN_STATE
    return error.exit_code if isinstance(error, RlcoreError) else ExitCode.INTERNAL


def named(text: str) -> str:
    """``text`` of an error with the rank that it is of, if there are several."""
    from rlcore.contracts.ranks import launched

    try:
        launch = launched()
    except ConfigError:  # which is the error: the variables of torchrun say nothing
        launch = None
    return text if launch is None or launch.size == 1 else f"rank {launch.rank}: {text}"


def _message(error: BaseException) -> str:
    text = " ".join(str(error).split())
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else f"output: {error.strerror}"
    if isinstance(error, RlcoreError | OSError):
        return f"{text}{traceback_hint(error)}"
    return f"unexpected {type(error).__name__}: {text}; --debug shows the traceback"


def traceback_text(error: BaseException) -> str:
    """The traceback as Python prints it, without the frames of click above the command."""
    import traceback

    frames = error.__traceback__
    while frames and frames.tb_next and _is_machinery(frames):
        frames = frames.tb_next
    return "".join(traceback.format_exception(type(error), error, frames))


def _is_machinery(frame: TracebackType) -> bool:
    module = str(frame.tb_frame.f_globals.get("__name__"))
    return module.split(".")[0] == "click" or module in ("rlcore.cli.main", "__main__")


EXIT_SECONDS = 3.0  # for threads and exit handlers after the command


@contextmanager
def ends_within(seconds: float, what: str, last_words: Callable[[BaseException | None], int]) -> Iterator[None]:
    """Ends the process if the block, which does ``what``, takes longer than ``seconds``.

    In that case ``last_words`` is called in another thread with the error that was being handled when the block began.
    It prints what the command would have printed, and returns the exit code.
    """
    error = sys.exception()
    over = threading.Event()
    claim = threading.Lock()

    def end() -> None:
        if not over.wait(min(seconds, threading.TIMEOUT_MAX)) and claim.acquire(blocking=False):
            _warn(f"{what} takes more than {seconds:g} s")
            end_process(last_words(error))

    thread = threading.Thread(target=end, name="deadline", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        if not claim.acquire(blocking=False):
            threading.Event().wait()  # the process is ending
        thread.join()


def end_soon(code: int) -> None:
    """Ends the process with ``code`` after ``EXIT_SECONDS``, unless it ends by itself before."""

    def end() -> None:
        time.sleep(EXIT_SECONDS)
        left = [each.name for each in threading.enumerate() if not each.daemon and each is not threading.main_thread()]
        what = f"thread {', '.join(map(repr, left))} is left over" if left else "an exit handler is not done"
        _warn(f"{what} {EXIT_SECONDS:g} s after the end")
        end_process(code)

    threading.Thread(target=end, name="deadline", daemon=True).start()


def end_in_order(code: int) -> NoReturn:
    """Ends the process with ``code`` when its threads and exit handlers are done, or at a deadline.

    The interpreter is not finalized: libraries with threads of their own sometimes abort the process then, which would
    change the exit code.
    """
    end_soon(code)
    for thread in threading.enumerate():
        if not thread.daemon and thread is not threading.current_thread():
            thread.join()
    atexit._run_exitfuncs()
    end_process(code)


def _warn(why: str) -> None:
    with suppress(OSError, ValueError):  # the process also ends if standard error is lost
        click.echo(f"warning: {why}; the process ends without it", file=sys.stderr)


def end_process(code: int) -> NoReturn:
    """Ends the process at once, after flushing its output."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):  # lost; None, where it was closed before the start
            stream.flush()
    os._exit(code)


if __name__ == "__main__":
    process()
