"""Options that plugins add to ``rlcore run``, found only if the command line has an option that is not core's own."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import click

from rlcore.errors import PluginError
from rlcore.plugins.call import load_plugins
from rlcore.plugins.select import selection_from
from rlcore.records import RunOptionSpec

_PREFIX = "of_plugin_"  # of the names under which click passes their values


def before_double_dash(args: Sequence[str]) -> Sequence[str]:
    """The words of a command line that may be options."""
    return args[: args.index("--")] if "--" in args else args


def options_of_plugins(args: Sequence[str], own: Iterable[click.Parameter]) -> list[click.Option]:
    """The options that plugins add, if ``args`` have an option that is not in ``own``.

    Help alone loads no plugin, so that it is fast. The plugins are those that environment variables and ``-p`` choose:
    the configuration is read later. Raises PluginError for an option that rlcore or another plugin has.
    """
    words = [word.partition("=")[0] for word in before_double_dash(args)]
    known = {word for parameter in own for word in (*parameter.opts, *parameter.secondary_opts)} | {"--help"}
    if not any(word.startswith("--") and word not in known for word in words):
        return []
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
    return [_option(record) for record in found.values()]


def _option(record: RunOptionSpec) -> click.Option:
    name = f"{_PREFIX}{record.name.replace('-', '_')}"
    about = f"{record.summary} Sets {record.sets}."
    callback = _Given(record)
    if record.flag:
        return click.Option([record.option, name], is_flag=True, help=about, callback=callback)
    return click.Option([record.option, name], metavar="VALUE", help=about, callback=callback)


class _Given:
    """Turns the value of an option into the override that it stands for: ``("acme.team", "vision")``."""

    def __init__(self, record: RunOptionSpec) -> None:
        self._record = record

    def __call__(self, ctx: click.Context, parameter: click.Parameter, value: Any) -> tuple[str, str] | None:
        if value is None or value is False:
            return None
        return self._record.option, f"{self._record.sets}={'true' if self._record.flag else value}"


def taken(flags: dict[str, Any]) -> Mapping[str, str]:
    """Remove the values of plugins' options from ``flags``; return what each sets, ``a.b=VALUE``, by option."""
    values = [flags.pop(name) for name in [name for name in flags if name.startswith(_PREFIX)]]
    return dict(value for value in values if value is not None)


def _dash_p(args: Sequence[str]) -> list[str]:
    """The plugins that ``-p`` names in a command line that is not parsed yet."""
    words = list(before_double_dash(args))
    following = [after for word, after in pairwise(words) if word == "-p"]
    return following + [word[2:] for word in words if word.startswith("-p") and word != "-p"]
