"""Options and arguments that several commands share.

A command that only reads does not run code that a file names. ``status``, ``validate``, ``evaluate`` and ``export``
import a local file or module that only a configuration names only with ``--allow-local``; the user chose what ``-p`` or
``RLCORE_PLUGINS`` names. ``rlcore run CONFIG`` imports what CONFIG names, and resuming a run does so if this user wrote
its directory; see :mod:`rlcore.run.saved.provenance`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import attrs
import click
from click.shell_completion import CompletionItem

from rlcore.cli.terminal import warn
from rlcore.files.paths import user_path

if TYPE_CHECKING:
    from rlcore.config.document import Document
    from rlcore.plugins.call import Plugins

Command = TypeVar("Command", bound=Callable[..., Any])


def words_before_dashes(args: Sequence[str]) -> Sequence[str]:
    """The words of a command line that may be options: those before ``--``."""
    if "--" not in args:
        return args
    return args[: args.index("--")]


class UserPath(click.Path):
    """A path whose ``~`` is expanded if the shell did not do it, as in ``--record=~/films``."""

    def __init__(self, **options: Any) -> None:
        super().__init__(path_type=Path, **options)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return super().convert(user_path(value), param, ctx)


# ---------------------------------------------------------------- what a shell completes


def complete_runs(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The ids of runs in ``results/`` that begin with ``incomplete``, for a shell; for a path, directories too."""
    items = []
    for file in sorted(Path("results").glob("*/configuration.yaml")):
        run_id = file.parent.name
        if run_id.startswith(incomplete):
            items.append(CompletionItem(run_id))
    if isinstance(parameter, click.Argument):
        items.append(CompletionItem(incomplete, type="dir"))
    return items


def complete_records(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """The names of records of the kind that an option is called after, such as ``--preset``, for a shell."""
    from rlcore.plugins.call import Plugins
    from rlcore.plugins.select import selection_from

    plugins, _ = Plugins.inspect(selection=selection_from())
    records = plugins.records(str(parameter.name))
    return [record.name for record in records if record.name.startswith(incomplete)]


# ---------------------------------------------------------------- options


debug_option = click.option("--debug", is_flag=True, expose_value=False, help="Show tracebacks.")
"""Decorator: add ``--debug`` to a command; the command itself does not get it."""
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
"""Decorator: add ``--json`` to a command, which gets it as ``as_json``."""
set_option = click.option(
    "--set", "sets", multiple=True, metavar="A.B=VALUE", help="Set any key of the run's configuration."
)
run_argument = click.argument("run", type=UserPath(), shell_complete=complete_runs)


def policies_option(verb: str) -> Callable[[Command], Command]:
    """Adds ``--checkpoint`` of a command that does ``verb`` to policies."""
    return click.option(
        "--checkpoint",
        metavar="best|last|STEP",
        default="last",
        show_default=True,
        help=f"Policies to {verb}: of the best evaluation, of the last checkpoint, or of the checkpoint of a step.",
    )


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


def plugin_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds ``-p``, ``--no-plugins``, ``--strict-plugins`` and ``--allow-local``, which are passed as ``chosen``."""

    @wraps(command)
    def called(
        *, dash_p: tuple[str, ...], no_plugins: bool, strict_plugins: bool, allow_local: bool, **arguments: Any
    ) -> Any:
        flags = PluginFlags(dash_p, no_plugins, strict_plugins, allow_local)
        return command(chosen=flags, **arguments)

    local = click.option(
        "--allow-local",
        is_flag=True,
        envvar="RLCORE_ALLOW_LOCAL",
        help="Import the files and modules that the configuration names (RLCORE_ALLOW_LOCAL=1 does the same).",
    )
    strict = click.option("--strict-plugins", is_flag=True, help="Stop the command at any failure of a plugin.")
    return selection_options(strict(local(called)))


@attrs.frozen
class PluginFlags:
    """The options of the command line that select plugins.

    Attributes:
        dash_p: The values of ``-p``.
        no_plugins: Whether ``--no-plugins`` was given.
        strict: Whether ``--strict-plugins`` was given.
        allow_local: Whether ``--allow-local`` was given.
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
        from rlcore.config.plugins_block import left_out, load_plugins_for

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
        if not allowed:
            warn(left_out(document, plugins))
        warn(plugins.warnings)
        return plugins
