"""Groups of commands that are imported when they are run, and commands of plugins."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click
from click.shell_completion import CompletionItem

from rlcore.cli.terminal import warn
from rlcore.errors import PluginError, did_you_mean
from rlcore.plugins.known import PACKAGES
from rlcore.plugins.sources import module_text

if TYPE_CHECKING:
    from rlcore.plugins.call import Plugins


class LazyCommand(NamedTuple):
    """The place of a command's code, and its line in ``--help``."""

    target: str  # "package.module:function"
    help: str


class LazyGroup(click.Group):
    """Import commands on first use.

    ``lazy`` maps names to commands; all others are those of plugins. ``synonyms`` maps names that other programs have
    for commands to ours. ``within`` is the name of a group inside ``rlcore``, which commands of plugins have in front.
    """

    def __init__(
        self,
        *args: Any,
        lazy: Mapping[str, LazyCommand],
        synonyms: Mapping[str, str] | None = None,
        within: str = "",
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.lazy = lazy
        self.synonyms = synonyms or {}
        self.front = f"{within} " if within else ""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        lazy = self.lazy.get(cmd_name)
        if lazy is None:
            return None
        module, _, name = lazy.target.partition(":")
        command: click.Command = getattr(import_module(module), name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name in self.lazy:  # no plugin can take a command of rlcore, and none is loaded for it
            return super().resolve_command(ctx, args)
        plugins = _installed_plugins()
        command = plugin_command(plugins, self.front + name)
        if command is not None:
            return name, command, args[1:]
        if ctx.resilient_parsing:  # of a shell that completes a line
            return super().resolve_command(ctx, args)
        raise click.UsageError(self._unknown(name, plugins), ctx)

    def _unknown(self, name: str, plugins: Plugins) -> str:
        from rlcore.plugins.installing import pip_install
        from rlcore.plugins.registry import plugins_off
        from rlcore.plugins.select import ENV_PLUGINS

        full = self.front + name
        package = PACKAGES.get(("command", full))
        if package:
            advice = f"{pip_install(package)}, or turn the plugin on if it is installed"
            return f"no command {full!r}: it is a command of {package}; {advice}"
        names = [record.name for record in plugins.records("command")]
        known = list(dict.fromkeys((*self.lazy, *self._of_this_group(names))))
        hint = did_you_mean(self.synonyms.get(name, name), known)
        message = f"no command {full!r}; commands: {', '.join(known)}{hint}"
        off = plugins.needed(full, "command")
        if not off:
            off = plugins_off(plugins.found, f"{ENV_PLUGINS}=")
        return f"{message}; {off}" if off else message

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            rows = [(name, command.help) for name, command in self.lazy.items()]
            formatter.write_dl(rows)
        of_plugins = self._listed()
        if of_plugins:
            with formatter.section("Commands of installed plugins"):
                formatter.write_dl(list(of_plugins.items()))

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        items = super().shell_complete(ctx, incomplete)
        for name, summary in self._listed().items():
            if name.startswith(incomplete):
                items.append(CompletionItem(name, help=summary))
        return items

    def _listed(self) -> dict[str, str]:
        """The names in this group and the summaries of commands of installed plugins."""
        summaries = listed_commands()
        names = [name for name in self._of_this_group(summaries) if name not in self.lazy]
        return {name: summaries[self.front + name] for name in names}

    def _of_this_group(self, names: Iterable[str]) -> list[str]:
        """The commands of this group among ``names``, without the group in front."""
        commands = []
        for name in names:
            command = name.removeprefix(self.front)
            if name.startswith(self.front) and " " not in command:
                commands.append(command)
        return commands


def _installed_plugins() -> Plugins:
    """All plugins, whatever is wrong with some: a command such as "plugins doctor" says how to fix it."""
    from rlcore.plugins.call import Plugins
    from rlcore.plugins.select import selection_from

    plugins, _ = Plugins.inspect(selection=selection_from())
    warn(plugins.warnings)
    return plugins


def plugin_command(plugins: Plugins, name: str) -> click.Command | None:
    """The command called NAME, GROUP NAME or DIST/NAME of a plugin; None if no plugin has it."""
    from rlcore.records import CommandSpec

    names: set[str] = set()
    for record in plugins.records("command"):
        names |= {record.name, record.reference}
    if name not in names:
        return None
    spec = plugins.record(CommandSpec, name)
    command = spec.resolve()
    if not isinstance(command, click.Command):
        raise PluginError(f"command {name!r}: {spec.target} is a {type(command).__name__}, not a click command")
    return command


# ---------------------------------------------------------------- what installed plugins have, without importing them


_MODULE = re.compile(r"^\s*[\w-]+\s*=\s*([\w.]+)", re.MULTILINE)
_NAME = re.compile(r"""\bname=["']([\w -]+)["']""")
_SUMMARY = re.compile(r"""\bsummary=(?:"([^"]*)"|'([^']*)')""")


def listed_commands() -> dict[str, str]:
    """The names and summaries of the commands of installed plugins, as far as they are written out in their modules.

    ``rlcore --help`` imports no plugin, and its reading of all metadata would take longer than the rest of it: this
    reads the entry points of the group ``rlcore`` and the text of the modules that they name.
    """
    return _written("CommandSpec")


def listed_options() -> dict[str, str]:
    """The names, with dashes, and summaries of options of installed plugins, read as :func:`listed_commands` does."""
    summaries = _written("RunOptionSpec")
    return {f"--{name}": summary for name, summary in summaries.items()}


def _written(record: str) -> dict[str, str]:
    """The names and summaries of records of a class."""
    summaries: dict[str, str] = {}
    for module in _modules():
        _, *calls = module_text(module).split(f"{record}(")
        for call in calls:
            name = _NAME.search(call)
            if name is None:
                continue
            summary = _SUMMARY.search(call)
            text = ""
            if summary is not None:
                text = summary[1] or summary[2]  # in double quotes, or in single ones
            summaries.setdefault(name[1], text)
    return dict(sorted(summaries.items()))


def _modules() -> Iterator[str]:
    """The modules that entry points of the group name."""
    for folder in dict.fromkeys(sys.path):
        for file in sorted(Path(folder).glob("*-info/entry_points.txt")):
            with suppress(OSError, ValueError):
                group = file.read_text(encoding="utf-8").partition("[rlcore]\n")[2]
                yield from _MODULE.findall(group.partition("\n[")[0])
