"""Printing text from files safely, without escape sequences and markup, for commands of rlcore and of plugins.

Names and messages come from configurations, run directories and packages of others. A terminal executes escape
sequences in them (which can set its title, its lines and its clipboard), and rich reads ``[red]`` as a color.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, TextIO

import click

from rlcore.builtin.terminal_text import fitted, printable

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["cells", "echo", "plain_console"]


def echo(text: object = "", *, err: bool = False, file: TextIO | None = None) -> None:
    """Prints a line that may contain text from files; use it instead of :func:`click.echo`.

    On a terminal, a long line is broken at words.
    """
    stream = file or (sys.stderr if err else sys.stdout)
    click.echo(fitted(printable(str(text)), stream), err=err, file=file)


def plain_console() -> Console:
    """A rich console that does not interpret markup, emoji or numbers; pass it printable text."""
    from rich.console import Console

    class Plain(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError  # rich would end the process

    return Plain(file=sys.stdout, markup=False, emoji=False, highlight=False)


def cells(*values: Any) -> tuple[str, ...]:
    """The cells of a row of a table, as printable text on one line."""
    return tuple(" ".join(printable(str(value)).split("\n")) for value in values)
