"""Every command of rlcore and of its plugins that prints an answer can print it as JSON."""

from __future__ import annotations

from collections.abc import Iterator

import click

from rlcore import load_plugins
from rlcore.cli.main import rlcore

# Commands without --json, and why.
EXCEPTIONS = {
    "actor": "plays for a run on another host, and prints its log",
    "play": "a person plays",
    "ray actors": "starts rlcore actor elsewhere, and prints what these print",
    "ray ranks": "starts rlcore run, whose words may have --json",
    "schema": "prints JSON only",
    "torchrun": "starts rlcore run, whose words may have --json",
    "watch": "opens a window",
}


def leaves(name: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    if not isinstance(command, click.Group):
        yield name, command
        return
    context = click.Context(command)
    for inner in command.list_commands(context):
        found = command.get_command(context, inner)
        assert found is not None
        yield from leaves(f"{name} {inner}".strip(), found)


def every_command() -> dict[str, click.Command]:
    found = dict(leaves("", rlcore))
    for record in load_plugins().records("command"):
        if record.plugin is not None and record.plugin.distribution.startswith("rlcore-"):
            found |= dict(leaves(record.name, record.resolve()))
    return found


def test_every_command_that_prints_has_json() -> None:
    commands = every_command()
    assert {"run", "validate", "plugins list"} <= commands.keys()
    without = set()
    for name, command in commands.items():
        flags = [each for each in command.params if isinstance(each, click.Option) and "--json" in each.opts]
        if not flags:
            without.add(name)
        assert all(flag.is_flag for flag in flags), name
    assert without == EXCEPTIONS.keys() & commands.keys()
