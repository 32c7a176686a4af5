"""``rlcore plugins new``: a complete plugin package to start from."""

from __future__ import annotations

from pathlib import Path

import click

from rlcore.cli.options import debug_option
from rlcore.cli.shown_paths import UserPath
from rlcore.plugins.scaffold import KINDS, write_plugin


@click.command("new")
@click.argument("name")
@click.option("--kind", type=click.Choice(list(KINDS)), required=True, help="What the plugin provides.")
@click.option("--dir", "parent", type=UserPath(file_okay=False), default=Path(), help="Where to create it.")
@debug_option
def new_command(name: str, kind: str, parent: Path) -> None:
    """Write a new plugin package, rlcore-NAME, that works and is tested from the start."""
    directory = write_plugin(name, kind, parent)
    click.echo(
        f"wrote {directory}\n\n  cd {directory}\n  pip install -e '.[test]'\n  pytest\n  rlcore run example.yaml\n\n"
        f"The example needs {' and '.join(KINDS[kind].needs)}."
    )
