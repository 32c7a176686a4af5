"""``rlcore``: finds the command, runs it, and turns errors into one line and an exit code.

Commands are named by strings and imported when they are run, so that ``rlcore --help`` is fast.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import TextIOWrapper
from typing import Any, NoReturn

import click

from rlcore import __version__
from rlcore.cli.lazy import LazyCommand, LazyGroup
from rlcore.cli.shown_paths import ShownPaths
from rlcore.cli.terminal import echo
from rlcore.errors import EXIT_DONE, EXIT_INTERNAL, EXIT_SIGINT, one_line

ENV_DEBUG = "RLCORE_DEBUG"

COMMANDS = {
    "run": LazyCommand("rlcore.cli.run:run_command", "Train agents as a configuration file describes."),
    "evaluate": LazyCommand("rlcore.cli.evaluate:evaluate_command", "Measure the agents of a run."),
    "export": LazyCommand("rlcore.cli.export:export_command", "Write the policies of a run for other programs."),
    "validate": LazyCommand("rlcore.cli.validate:validate_command", "Check a configuration file, or print its schema."),
    "status": LazyCommand("rlcore.cli.status:status_command", "Show how far a run is."),
    "checkpoints": LazyCommand(
        "rlcore.cli.checkpoints:checkpoints_command", "List, verify and prune the checkpoints of a run."
    ),
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
    fallback="rlcore.cli.extra:plugin_command",
    synonyms={"train": "run", "learn": "run", "fit": "run", "test": "evaluate", "enjoy": "evaluate"},
    others="rlcore.cli.extra:listed_commands",
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
        return answer if isinstance(answer, int) else EXIT_DONE
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return EXIT_SIGINT
    except SystemExit as error:
        return _ended(error, arguments)
    except ReaderGone:
        from rlcore.cli.console import give_up

        give_up(sys.stdout)
        return EXIT_INTERNAL
    except BaseException as error:  # GeneratorExit, for example
        from rlcore.cli.report import report

        return report(error, _debugging(arguments), shown)


def _ended(error: SystemExit, arguments: Sequence[str]) -> int:
    """The exit code after a ``sys.exit``. A command of a plugin may call it; in other code it is an error."""
    command = next((word for word in arguments if not word.startswith("-")), None)
    if command not in COMMANDS:
        if error.code is None or isinstance(error.code, int):
            return error.code or EXIT_DONE
        click.echo(error.code, err=True)
        return EXIT_INTERNAL
    from rlcore.cli.report import traceback_text

    if _debugging(arguments):
        echo(traceback_text(error).removesuffix("\n"), err=True)
    echo(f"error: unexpected {one_line(error)}; --debug shows where", err=True)
    return EXIT_INTERNAL


def _debugging(arguments: Sequence[str]) -> bool:
    # Read from the arguments, because the error may precede click's context.
    before_double_dash = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return "--debug" in before_double_dash or os.environ.get(ENV_DEBUG, "0") not in ("", "0")


def process() -> NoReturn:
    """The ``rlcore`` process: runs one command and exits with its code.

    After a run or an evaluation, threads that an environment or a plugin left running do not keep the process alive.
    """
    command = next((word for word in sys.argv[1:] if not word.startswith("-")), "")
    if isinstance(sys.stdout, TextIOWrapper):  # a path may have letters that the terminal has not
        sys.stdout.reconfigure(errors="backslashreplace")
    code = main(own_process=True)
    if command in ("run", "evaluate"):
        from rlcore.cli.ending import end_in_order

        end_in_order(code)
    sys.exit(code)


if __name__ == "__main__":
    process()
