"""``rlcore``: finds the command, runs it, and turns an error into one line and an exit code.

Commands are named by strings and imported when they are run, so that ``rlcore --help`` is fast.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from io import TextIOWrapper
from types import TracebackType
from typing import Any, NoReturn

import click

from rlcore import __version__
from rlcore.cli.commands import LazyCommand, LazyGroup
from rlcore.cli.ending import end_in_order
from rlcore.cli.error_records import exit_code_of
from rlcore.cli.options import words_before_dashes
from rlcore.cli.terminal import ShortPaths, echo, give_up
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
    synonyms={"train": "run", "learn": "run", "fit": "run", "test": "evaluate", "enjoy": "watch"},
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
    shorten = ShortPaths()
    try:
        answer = rlcore.main(arguments, prog_name="rlcore", standalone_mode=False, obj=own_process)
        # A lost reader is noticed here: Python would report it while it exits, with exit code 120.
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
        return report(error, _debugging(arguments), shorten)


def _ended(error: SystemExit, arguments: Sequence[str]) -> int:
    """The exit code after a ``sys.exit``. A command of a plugin may call it; in other code it is an error."""
    if _command(arguments) not in COMMANDS:
        if error.code is None or isinstance(error.code, int):
            return error.code or ExitCode.DONE
        click.echo(error.code, err=True)
        return ExitCode.INTERNAL

    if _debugging(arguments):
        echo(traceback_text(error), err=True)
    echo(f"error: unexpected {one_line(error)}; --debug shows where", err=True)
    return ExitCode.INTERNAL


def _command(arguments: Sequence[str]) -> str:
    """The first word that is not an option."""
    for word in arguments:
        if not word.startswith("-"):
            return word
    return ""


def _debugging(arguments: Sequence[str]) -> bool:
    # Read from the arguments, because the error may precede click's context.
    if "--debug" in words_before_dashes(arguments):
        return True
    return os.environ.get(ENV_DEBUG, "0") not in ("", "0")


def process() -> NoReturn:
    """The ``rlcore`` process: runs one command and exits with its code.

    After a run or an evaluation, threads that an environment or a plugin left running do not keep the process alive.
    """
    if isinstance(sys.stdout, TextIOWrapper):  # a path may have letters that the terminal has not
        sys.stdout.reconfigure(errors="backslashreplace")
    code = main(own_process=True)
    if _command(sys.argv[1:]) in ("run", "evaluate"):
        end_in_order(code)
    sys.exit(code)


def report(error: BaseException, debug: bool, shorten: Callable[[str], str] = str) -> int:
    """Prints the line, with ``debug`` after the traceback, and returns the exit code.

    ``shorten`` shortens the paths in the line. If standard error is lost, only the exit code reports the error.
    """
    try:
        if debug:
            echo(traceback_text(error), err=True)
        echo(f"error: {named(shorten(_message(error)))}", err=True)
    except OSError:
        give_up(sys.stderr)
    return exit_code_of(error)


def named(text: str) -> str:
    """``text`` of an error with the rank that it is of, if there are several."""
    from rlcore.contracts.ranks import launched

    try:
        launch = launched()
    except ConfigError:  # which is the error: the variables of torchrun say nothing
        return text
    if launch is None or launch.size == 1:
        return text
    return f"rank {launch.rank}: {text}"


def _message(error: BaseException) -> str:
    text = " ".join(str(error).split())
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename or 'output'}: {error.strerror}"
    if isinstance(error, RlcoreError | OSError):
        return f"{text}{traceback_hint(error)}"
    return f"unexpected {type(error).__name__}: {text}; --debug shows the traceback"


def traceback_text(error: BaseException) -> str:
    """The traceback as Python prints it, without the frames of click above the command."""
    import traceback

    frames = error.__traceback__
    while frames and frames.tb_next and _is_machinery(frames):
        frames = frames.tb_next
    return "".join(traceback.format_exception(type(error), error, frames)).removesuffix("\n")


def _is_machinery(frame: TracebackType) -> bool:
    module = str(frame.tb_frame.f_globals.get("__name__"))
    return module.split(".")[0] == "click" or module in ("rlcore.cli.main", "__main__")


if __name__ == "__main__":
    process()
