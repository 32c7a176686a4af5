"""The parts of commands: groups that import lazily, options that several share, commands and options of plugins.

A command that only reads does not run code that a file names. ``status``, ``validate``, ``evaluate`` and ``export``
import a local file or module that only a configuration names only with ``--allow-local``; the user chose what ``-p`` or
``RLCORE_PLUGINS`` names. ``rlcore run CONFIG`` imports what CONFIG names, and resuming a run does so if this user wrote
its directory; see :mod:`rlcore.run.saved.provenance`.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import wraps
from importlib import import_module
from importlib.machinery import PathFinder
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import attrs
import click
from click.shell_completion import CompletionItem

from rlcore.cli.terminal import echo
from rlcore.errors import PluginError, did_you_mean
from rlcore.plugins.known import PACKAGES

if TYPE_CHECKING:
    from rlcore.config.document import Document
    from rlcore.plugins.call import Plugins
    from rlcore.records import RunOptionSpec


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
        if cmd_name not in self.lazy:
            return None
        module, _, name = self.lazy[cmd_name].target.partition(":")
        command: click.Command = getattr(import_module(module), name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        full = self.front + args[0]
        ours = name in self.lazy or name.startswith("-")
        command, others, off = (None, (), "") if ours else plugin_command(full)
        if command is not None:
            return name, command, args[1:]
        if name in self.lazy or ctx.resilient_parsing:  # of a shell that completes a line
            return super().resolve_command(ctx, args)
        package = PACKAGES.get(("command", full))
        if package:
            from rlcore.plugins.installing import pip_install

            advice = f"{pip_install(package)}, or turn the plugin on if it is installed"
            raise click.UsageError(f"no command {full!r}: it is a command of {package}; {advice}", ctx)
        known = (*self.lazy, *self._of_this_group(others))
        hint = did_you_mean(self.synonyms.get(name, name), known)
        parts = [f"no command {full!r}", f"commands: {', '.join(known)}{hint}", off]
        raise click.UsageError("; ".join(filter(None, parts)), ctx)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.help) for name, command in self.lazy.items()])
        lines = listed_commands()
        others = [name for name in self._of_this_group(lines) if name not in self.lazy]
        if others:
            with formatter.section("Commands of installed plugins"):
                formatter.write_dl([(name, lines[self.front + name]) for name in others])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        found = super().shell_complete(ctx, incomplete)
        lines = listed_commands()
        others = [name for name in self._of_this_group(lines) if name not in self.lazy and name.startswith(incomplete)]
        return [*found, *(CompletionItem(name, help=lines[self.front + name]) for name in others)]

    def _of_this_group(self, names: Iterable[str]) -> list[str]:
        """The commands of this group among ``names``, without the group in front."""
        found = (name.removeprefix(self.front) for name in names if name.startswith(self.front))
        return [name for name in found if " " not in name]


def complete_runs(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The ids of runs in ``results/`` that begin with ``incomplete``, for a shell; for a path, directories too."""
    ids = [each.parent.name for each in sorted(Path("results").glob("*/configuration.yaml"))]
    directories = [CompletionItem(incomplete, type="dir")] if isinstance(parameter, click.Argument) else []
    return [CompletionItem(name) for name in ids if name.startswith(incomplete)] + directories


def complete_records(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """The names of records of the kind that an option is called after, such as ``--preset``, for a shell."""
    from rlcore.plugins.call import inspect_plugins
    from rlcore.plugins.select import selection_from

    plugins, _ = inspect_plugins(selection=selection_from(None, os.environ, (), False))
    records = plugins.records(str(parameter.name))
    return [record.name for record in records if record.name.startswith(incomplete)]


_MODULE = re.compile(r"^\s*[\w-]+\s*=\s*([\w.]+)", re.MULTILINE)


def listed_commands() -> dict[str, str]:
    """The names and summaries of the commands of installed plugins, as far as they are written out in their modules.

    ``rlcore --help`` imports no plugin, and its reading of all metadata would take longer than the rest of it: this
    reads the entry points of the group ``rlcore`` and the text of the modules that they name.
    """
    return _written("CommandSpec")


def listed_options() -> dict[str, str]:
    """The names, with dashes, and summaries of options of installed plugins, read as :func:`listed_commands` does."""
    return {f"--{name}": summary for name, summary in _written("RunOptionSpec").items()}


def _written(record: str) -> dict[str, str]:
    """The names and summaries of records of a class, as far as they are written out in modules of plugins."""
    found: dict[str, str] = {}
    for module in _modules():
        first, *rest = module.split(".")
        spec = PathFinder.find_spec(first)
        if spec is None or spec.origin is None:
            continue  # as rlcore plugins list says
        path = Path(spec.origin).parent.joinpath(*rest).with_suffix(".py") if rest else Path(spec.origin)
        with suppress(OSError, ValueError):
            for block in path.read_text(encoding="utf-8").split(f"{record}(")[1:]:
                name = re.search(r"""\bname=["']([\w -]+)["']""", block)
                summary = re.search(r"""\bsummary=(?:"([^"]*)"|'([^']*)')""", block)
                if name is not None:
                    found.setdefault(name[1], (summary[1] or summary[2]) if summary is not None else "")
    return dict(sorted(found.items()))


def _modules() -> Iterator[str]:
    """The modules that entry points of the group name."""
    for folder in dict.fromkeys(sys.path):
        for file in sorted(Path(folder).glob("*-info/entry_points.txt")):
            with suppress(OSError, ValueError):
                group = file.read_text(encoding="utf-8").partition("[rlcore]\n")[2]
                yield from _MODULE.findall(group.partition("\n[")[0])


def plugin_command(name: str) -> tuple[click.Command | None, tuple[str, ...], str]:
    """The command called NAME, GROUP NAME or DIST/NAME of an installed plugin, or None, and the names of all of them.

    The last element says which plugins are off, and may have the command; it is empty if none is.
    """
    from rlcore.plugins.call import inspect_plugins
    from rlcore.plugins.registry import plugins_off
    from rlcore.plugins.select import ENV_PLUGINS, selection_from
    from rlcore.records import CommandSpec

    # Whatever is wrong with other plugins: a command such as "plugins doctor" says how to fix it.
    plugins, _ = inspect_plugins(selection=selection_from(None, os.environ, (), False))
    for warning in plugins.warnings:
        echo(f"warning: {warning}", err=True)
    records = plugins.records("command")
    names = tuple(dict.fromkeys(record.name for record in records))
    if name not in {*names, *(record.reference for record in records)}:
        return None, names, plugins.needed(name, "command") or plugins_off(plugins.found, f"{ENV_PLUGINS}=")
    record = plugins.record(CommandSpec, name)
    command = record.resolve()
    if not isinstance(command, click.Command):
        raise PluginError(f"command {name!r}: {record.target} is a {type(command).__name__}, not a click command")
    return command, names, ""


Command = TypeVar("Command", bound=Callable[..., Any])


@attrs.frozen
class PluginFlags:
    """The options of the command line that select plugins.

    Attributes:
        dash_p: The values of ``-p``.
        no_plugins: Whether ``--no-plugins`` was given.
        strict: Whether ``--strict-plugins`` was given.
        allow_local: Whether ``--allow-local`` was given; see :mod:`rlcore.cli.commands`.
    """

    dash_p: tuple[str, ...]
    no_plugins: bool
    strict: bool
    allow_local: bool

    def load(
        self, document: Document, *, allow_local: bool = False, tolerate_errors: bool = False, lenient: bool = False
    ) -> Plugins:
        """Loads the plugins of a command and prints their warnings, such as one for each plugin that was left out.

        Local files and modules that only the document names are left out, with a warning, unless ``allow_local`` or the
        flag allows them. ``lenient``: plugins that only the document asks for may be missing or broken.
        """
        from rlcore.config.load import left_out, load_plugins_for

        allowed = allow_local or self.allow_local
        plugins = load_plugins_for(
            document,
            dash_p=self.dash_p,
            no_plugins=self.no_plugins,
            strict=self.strict,
            tolerate_errors=tolerate_errors,
            allow_local=allowed,
            lenient=lenient,
        )
        for warning in (*(() if allowed else left_out(document, plugins)), *plugins.warnings):
            echo(f"warning: {warning}", err=True)
        return plugins


def plugin_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds ``-p``, ``--no-plugins``, ``--strict-plugins`` and ``--allow-local``, which are passed as ``chosen``."""

    @wraps(command)
    def called(
        *, dash_p: tuple[str, ...], no_plugins: bool, strict_plugins: bool, allow_local: bool, **arguments: Any
    ) -> Any:
        return command(chosen=PluginFlags(dash_p, no_plugins, strict_plugins, allow_local), **arguments)

    local = click.option(
        "--allow-local",
        is_flag=True,
        envvar="RLCORE_ALLOW_LOCAL",
        help="Import the files and modules that the configuration names (RLCORE_ALLOW_LOCAL=1 does the same).",
    )
    strict = click.option("--strict-plugins", is_flag=True, help="Stop the command at any failure of a plugin.")
    return selection_options(strict(local(called)))


def selection_options(command: Command) -> Command:
    """Adds only ``-p`` and ``--no-plugins``."""
    none = click.option("--no-plugins", is_flag=True, help="Load rlcore's own plugins and those named by -p.")
    some = click.option(
        "-p",
        "dash_p",
        multiple=True,
        metavar="NAME",
        help="Load a plugin: NAME, DIST/NAME or module:acme.hooks; no:NAME leaves one out. May be repeated.",
    )
    return some(none(command))


def debug_option(command: Command) -> Command:
    """Adds ``--debug``, which :func:`rlcore.cli.main.main` reads from the arguments."""
    return click.option("--debug", is_flag=True, expose_value=False, help="Show tracebacks.")(command)


OVER = "rlcore.cli.commands.over"  # in a context's meta: the option that hands the command over, and the values
_PREFIX = "of_plugin_"  # of the names under which click passes their values


def before_double_dash(args: Sequence[str]) -> Sequence[str]:
    """The words of a command line that may be options."""
    return args[: args.index("--")] if "--" in args else args


def options_of_plugins(
    args: Sequence[str], own: Iterable[click.Parameter]
) -> tuple[list[click.Option], Plugins | None]:
    """The options that plugins add, and the plugins, if ``args`` have an option that is not in ``own``.

    Help alone loads no plugin, so that it is fast. The plugins are those that environment variables and ``-p`` choose:
    the configuration is read later. Raises PluginError for an option that rlcore or another plugin has.
    """
    words = [word.partition("=")[0] for word in before_double_dash(args)]
    known = {word for parameter in own for word in (*parameter.opts, *parameter.secondary_opts)} | {"--help"}
    if not any(word.startswith("--") and word not in known for word in words):
        return [], None
    from rlcore.plugins.call import load_plugins
    from rlcore.plugins.select import selection_from
    from rlcore.records import RunOptionSpec

    plugins = load_plugins(selection_from(None, os.environ, _dash_p(args), "--no-plugins" in words))
    found: dict[str, RunOptionSpec] = {}
    for record in plugins.records("option"):
        assert isinstance(record, RunOptionSpec)
        if record.option in known:
            raise PluginError(f"{record.described}: {record.option} is an option of rlcore itself")
        if record.option in found:
            other = found[record.option].described
            raise PluginError(f"{record.described} clashes with {other}; turn one off with -p no:DIST/PLUGIN")
        found[record.option] = record
    return [_option(record) for record in found.values()], plugins


def _option(record: RunOptionSpec) -> click.Option:
    """An option whose value is the override that it stands for: ``("--acme-team", "acme.team=vision")``.

    An option with a target has no value: it is noted in ``ctx.meta[OVER]``, with all given options of that target.
    """

    def override(ctx: click.Context, parameter: click.Parameter, value: Any) -> tuple[str, str] | None:
        if value is None or value is False:
            return None
        if not record.target:
            return record.option, f"{record.sets}={'true' if record.flag else value}"
        taker, values = ctx.meta.setdefault(OVER, (record, {}))
        if taker.target != record.target:
            raise click.UsageError(f"{taker.option} and {record.option} exclude each other; give only one of them", ctx)
        values[record.name] = value
        return None

    kind: dict[str, Any] = {"is_flag": True} if record.flag else {"metavar": "VALUE..." if record.rest else "VALUE"}
    name = f"{_PREFIX}{record.name.replace('-', '_')}"
    text = record.summary + (record.sets and f" Sets {record.sets}.")
    return click.Option([record.option, name], help=text, callback=override, **kind)


def with_rest(args: Sequence[str], plugins: Plugins) -> list[str]:
    """The words of a command line in which an option that takes the rest of it has one value, a list of YAML.

    One word with a space, or in brackets, is such a value already, and further options may follow it.
    """
    words = list(args)
    for record in plugins.records("option"):
        if getattr(record, "rest", False) and (option := f"--{record.name}") in words:
            at = words.index(option) + 1
            if words[at:] and not (" " in words[at] or words[at].startswith("[")):
                words[at:] = [json.dumps(words[at:])]
    return words


def taken(flags: dict[str, Any]) -> Mapping[str, str]:
    """Remove the values of plugins' options from ``flags``; return what each sets, ``a.b=VALUE``, by option."""
    values = [flags.pop(name) for name in [name for name in flags if name.startswith(_PREFIX)]]
    return dict(value for value in values if value is not None)


def _dash_p(args: Sequence[str]) -> list[str]:
    """The plugins that ``-p`` names in a command line that is not parsed yet."""
    words = list(before_double_dash(args))
    following = [after for word, after in pairwise(words) if word == "-p"]
    return following + [word[2:] for word in words if word.startswith("-p") and word != "-p"]
