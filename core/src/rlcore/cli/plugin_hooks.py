"""``rlcore plugins hooks``: the reference of the hooks, as the installed packages have it."""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Callable
from typing import Any

import click

from rlcore.cli.options import debug_option, selection_options
from rlcore.cli.terminal import echo
from rlcore.errors import PluginError, did_you_mean
from rlcore.hookspecs import HOOKS
from rlcore.plugins.call import load_plugins
from rlcore.plugins.contract import successor
from rlcore.plugins.select import selection_from


@click.command("hooks")
@click.argument("name", required=False)
@selection_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@debug_option
def hooks_command(name: str | None, dash_p: tuple[str, ...], no_plugins: bool, as_json: bool) -> None:
    """Show what each hook is for, when it is called and with which arguments; only NAME, if given.

    Hooks that plugins add are included. This imports the plugins.
    """
    plugins = load_plugins(selection_from(None, os.environ, dash_p, no_plugins))
    for warning in plugins.warnings:
        echo(f"warning: {warning}", err=True)
    found = plugins.specifications
    if name is not None and name not in found:
        raise PluginError(
            f"no hook {name!r}{f'; {answer}' if (answer := successor(name)) else did_you_mean(name, found)}"
        )
    core = {hook.name: hook for hook in HOOKS}
    hooks = [
        {
            "name": each,
            "kind": core[each].kind if each in core else "added",
            "of": module,
            "since": core[each].since if each in core else None,
            "deprecated": core[each].deprecated if each in core else None,
            "signature": _signature(function),
            "text": inspect.getdoc(function) or "",
        }
        for each, (module, function) in found.items()
        if name in (None, each)
    ]
    if as_json:
        click.echo(json.dumps({"hooks": hooks}, indent=4))
        return
    click.echo("\n\n".join(map(_shown, hooks)))


def _signature(function: Callable[..., Any]) -> str:
    signature = inspect.signature(function)  # its annotations are text, which str() would quote
    arguments = ", ".join(f"{each.name}: {each.annotation}" for each in signature.parameters.values())
    return f"{function.__name__}({arguments}) -> {signature.return_annotation}"


def _shown(hook: dict[str, Any]) -> str:
    about = f"{hook['kind']} hook of {hook['of']}" + (f", since {hook['since']}" if hook["since"] else "")
    lines = [hook["signature"], f"    {about}", ""]
    lines += [f"    Deprecated: {hook['deprecated']}.", ""] if hook["deprecated"] else []
    return "\n".join([*lines, *(f"    {line}".rstrip() for line in hook["text"].splitlines())])
