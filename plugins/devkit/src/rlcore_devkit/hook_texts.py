"""``rlcore plugins hooks``: what each hook is for, when it is called and with which arguments."""

from __future__ import annotations

import inspect
import json
import textwrap
from collections.abc import Callable
from typing import Any

import attrs
import click

from rlcore import (
    HOOKS,
    PluginError,
    debug_option,
    did_you_mean,
    echo,
    json_option,
    load_plugins,
    selection_from,
    selection_options,
)


@click.command("hooks")
@click.argument("name", required=False)
@selection_options
@json_option
@debug_option
def hooks_command(name: str | None, dash_p: tuple[str, ...], no_plugins: bool, as_json: bool) -> None:
    """Show what each hook is for, when it is called and with which arguments; only NAME, if given.

    Hooks that plugins add are included. This imports the plugins.
    """
    plugins = load_plugins(selection_from(dash_p=dash_p, no_plugins=no_plugins))
    for warning in plugins.warnings:
        echo(f"warning: {warning}", err=True)
    specifications = plugins.specifications
    if name is not None:
        if name not in specifications:
            raise PluginError(f"no hook {name!r}{did_you_mean(name, specifications)}")
        specifications = {name: specifications[name]}
    core = {hook.name: attrs.asdict(hook) for hook in HOOKS}
    added = {"kind": "added", "since": None, "deprecated": None}
    hooks = [
        {
            "name": hook,
            **core.get(hook, added),
            "of": function.__module__,
            "signature": _signature(function),
            "text": inspect.getdoc(function) or "",
        }
        for hook, function in specifications.items()
    ]
    if as_json:
        click.echo(json.dumps({"hooks": hooks}, indent=4))
        return
    click.echo("\n\n".join(map(_hook_text, hooks)))


def _signature(function: Callable[..., Any]) -> str:
    signature = inspect.signature(function)  # its annotations are text, which str() would quote
    arguments = [f"{parameter.name}: {parameter.annotation}" for parameter in signature.parameters.values()]
    return f"{function.__name__}({', '.join(arguments)}) -> {signature.return_annotation}"


def _hook_text(hook: dict[str, Any]) -> str:
    about = f"{hook['kind']} hook of {hook['of']}"
    if hook["since"]:
        about += f", since {hook['since']}"
    paragraphs = [about, hook["text"]]
    if hook["deprecated"]:
        paragraphs.insert(1, f"Deprecated: {hook['deprecated']}.")
    text = textwrap.indent("\n\n".join(paragraphs), "    ")
    return f"{hook['signature']}\n{text}"
