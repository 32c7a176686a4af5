"""``rlcore``: finds the command, runs it, and turns errors into one line and an exit code.

Commands are named by string and imported when they are run, so that ``rlcore --help`` costs little more than click.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from types import TracebackType

import click

from rlcore import __version__
from rlcore.cli.lazy import LazyCommand, LazyGroup
from rlcore.cli.terminal import echo
from rlcore.errors import EXIT_DONE, EXIT_INTERNAL, EXIT_SIGINT, RlcoreError, traceback_hint

ENV_DEBUG = "RLCORE_DEBUG"

COMMANDS = {
    "run": LazyCommand("rlcore.cli.run:run_command", "Train agents as a configuration file says."),
    "evaluate": LazyCommand("rlcore.cli.evaluate:evaluate_command", "Measure the agents of a run."),
    "validate": LazyCommand("rlcore.cli.validate:validate_command", "Check a configuration file, or print its schema."),
    "status": LazyCommand("rlcore.cli.status:status_command", "Show how far a run is."),
    "plugins": LazyCommand("rlcore.cli.plugins:plugins_command", "List, inspect, check and create plugins."),
}


@click.group(
    cls=LazyGroup,
    lazy=COMMANDS,
    fallback="rlcore.cli.extra:plugin_command",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Installed plugins may add commands: rlcore plugins list --provides",
)
@click.version_option(__version__, prog_name="rlcore")
@click.option("--debug", is_flag=True, expose_value=False, help=f"Show tracebacks ({ENV_DEBUG}=1 does the same).")
def rlcore() -> None:
    """Reinforcement learning where everything is a plugin."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        answer = rlcore.main(arguments, prog_name="rlcore", standalone_mode=False)
        return answer if isinstance(answer, int) else EXIT_DONE
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return EXIT_SIGINT
    except BrokenPipeError:
        # Whoever reads our output has gone (`rlcore plugins list | head`): nothing more can be said to them.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_INTERNAL
    except Exception as error:
        if _debugging(arguments):
            echo(_traceback(error).removesuffix("\n"), err=True)
        echo(f"error: {_message(error)}", err=True)
        return error.exit_code if isinstance(error, RlcoreError) else EXIT_INTERNAL


def _message(error: Exception) -> str:
    text = " ".join(str(error).split())
    if isinstance(error, RlcoreError | OSError):
        return f"{text}{traceback_hint(error)}"
    return f"unexpected {type(error).__name__}: {text}; --debug shows the traceback"


def _traceback(error: Exception) -> str:
    """The traceback as Python prints it, from where the command begins: how click got there helps nobody."""
    import traceback

    frames = error.__traceback__
    while frames and frames.tb_next and _is_machinery(frames):
        frames = frames.tb_next
    return "".join(traceback.format_exception(type(error), error, frames))


def _is_machinery(frame: TracebackType) -> bool:
    module = str(frame.tb_frame.f_globals.get("__name__"))
    return module.split(".")[0] == "click" or module == __name__


def _debugging(arguments: Sequence[str]) -> bool:
    # Asked of the arguments rather than of a context: the error may have come before there was one.
    before_double_dash = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return "--debug" in before_double_dash or os.environ.get(ENV_DEBUG, "0") not in ("", "0")


if __name__ == "__main__":
    sys.exit(main())
