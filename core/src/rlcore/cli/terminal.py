"""What commands print: text that nothing in a file can steer, without escape sequences and markup.

Names and messages come from configurations, run directories and packages of others. A terminal obeys escape sequences
in them (it can be retitled, its lines rewritten, its clipboard set), and rich takes ``[red]`` for a colour.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, TextIO

import click

from rlcore.builtin.terminal_text import printable

if TYPE_CHECKING:
    from rich.console import Console


def echo(text: object = "", *, err: bool = False, file: TextIO | None = None) -> None:
    """Prints a line that may hold what stands in files; use it in place of :func:`click.echo`."""
    click.echo(printable(str(text)), err=err, file=file)


def plain_console() -> Console:
    """A console of rich that takes no text for markup, emoji or something to colour; give it printable text."""
    from rich.console import Console

    return Console(file=sys.stdout, markup=False, emoji=False, highlight=False)


def cells(*values: Any) -> tuple[str, ...]:
    """The cells of a row of a table, as printable text on one line."""
    return tuple(" ".join(printable(str(value)).split("\n")) for value in values)
