"""A click group that imports a command only when it is run."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import Any, NamedTuple

import click

from rlcore.errors import did_you_mean
from rlcore.plugins.known import package_of


class LazyCommand(NamedTuple):
    """The place of a command's code, and its line in ``--help``."""

    target: str  # "package.module:function"
    help: str


class LazyGroup(click.Group):
    """Import commands on first use.

    ``lazy`` maps names to commands. ``fallback`` names a function for all others: it takes a name and returns its
    command, or None, the names that it knows, and what to add to the message about a name that it does not know.
    ``synonyms`` maps names that other programs have for commands to ours.
    ``others`` names a function that returns the names and lines of other commands for ``--help``.
    ``within`` is the name of a group inside ``rlcore``: ``fallback`` and ``others`` know its commands with it in front.
    """

    def __init__(
        self,
        *args: Any,
        lazy: dict[str, LazyCommand] | None = None,
        fallback: str | None = None,
        synonyms: dict[str, str] | None = None,
        others: str | None = None,
        within: str = "",
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.synonyms = synonyms or {}
        self.lazy = lazy or {}
        self.fallback = fallback
        self.others = others
        self.front = f"{within} " if within else ""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in self.lazy:
            command: click.Command = _load(self.lazy[cmd_name].target)
            return command
        return None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name in self.lazy or ctx.resilient_parsing:
            return super().resolve_command(ctx, args)
        command, others, off = None, (), ""
        if self.fallback is not None and not name.startswith("-"):
            command, others, off = _load(self.fallback)(self.front + name)
        if command is not None:
            return name, command, args[1:]
        known = (*self.lazy, *self._of_this_group(others))
        package = package_of("command", self.front + name)
        if package:
            advice = f"pip install {package}, or turn the plugin on if it is installed"
            raise click.UsageError(f"no command {self.front + name!r}: it is a command of {package}; {advice}", ctx)
        hint = did_you_mean(self.synonyms.get(name, name), known)
        parts = [f"no command {self.front + name!r}", f"commands: {', '.join(known)}{hint}", off]
        raise click.UsageError("; ".join(filter(None, parts)), ctx)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.help) for name, command in self.lazy.items()])
        if self.others is None:
            return
        lines = dict(_load(self.others)())
        others = [name for name in self._of_this_group(lines) if name not in self.lazy]
        if others:
            with formatter.section("Commands of installed plugins"):
                formatter.write_dl([(name, lines[self.front + name]) for name in others])

    def _of_this_group(self, names: Iterable[str]) -> list[str]:
        """The commands of this group among ``names``, without the group in front."""
        found = (name.removeprefix(self.front) for name in names if name.startswith(self.front))
        return [name for name in found if " " not in name]


def _load(target: str) -> Any:
    module, _, name = target.partition(":")
    return getattr(import_module(module), name)
