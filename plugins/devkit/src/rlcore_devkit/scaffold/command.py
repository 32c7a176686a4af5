"""``rlcore plugins new``: a complete plugin package to start from."""

from __future__ import annotations

import json
from pathlib import Path

import click

from rlcore import debug_option, json_option
from rlcore_devkit.scaffold.about import DEFAULT_LICENSE, LICENSES, new_about
from rlcore_devkit.scaffold.kinds import KINDS
from rlcore_devkit.scaffold.names import new_package
from rlcore_devkit.scaffold.writing import listed, write_plugin

_WIDTH = max(map(len, KINDS))
_LINES = [f"  {name.ljust(_WIDTH)}  {kind.summary_line}" for name, kind in KINDS.items()]
# Without the backspace, click would fill the lines into a paragraph.
_KINDS = "\n".join(["\b", "Kinds:", *_LINES])


@click.command("new", epilog=_KINDS)
@click.argument("name", required=False)
@click.option(
    "--kind", "kinds", multiple=True, required=True, metavar="KIND", help="See the list below. May be repeated."
)
@click.option("--distribution", metavar="NAME", help="The name for pip; by default, rlcore-NAME.")
@click.option("--module", metavar="NAME", help="The Python package; by default, the distribution with underscores.")
@click.option(
    "--dir", "parent", type=click.Path(file_okay=False, path_type=Path), default=Path(), help="Where to create it."
)
@click.option("--license", default=DEFAULT_LICENSE, show_default=True, metavar="NAME", help=", ".join(LICENSES) + ".")
@click.option("--author", help="By default, user.name of git.")
@click.option("--email", help="By default, user.email of git.")
@click.option("--url", "urls", multiple=True, metavar="[LABEL=]ADDRESS", help="A page, its source if without a label.")
@click.option("--description", default="", help="One line: what it is, for indexes and in its files.")
@json_option
@debug_option
@click.pass_context
def new_command(
    context: click.Context,
    name: str | None,
    kinds: tuple[str, ...],
    distribution: str | None,
    module: str | None,
    parent: Path,
    license: str,
    author: str | None,
    email: str | None,
    urls: tuple[str, ...],
    description: str,
    as_json: bool,
) -> None:
    """Write a new plugin package, which works, is tested and can be published from the start.

    NAME is the name of the plugin, and of what it provides. Without NAME, it derives from the distribution: walker of
    rlcore-walker, acme-walker of acme-rl-walker.
    """
    root = context.find_root()
    commands: list[str] = []
    if isinstance(root.command, click.Group):
        commands = root.command.list_commands(root)
    package = new_package(name, kinds, distribution=distribution, module=module, commands=commands)
    about = new_about(parent, license=license, author=author, email=email, urls=urls, description=description)
    directory = write_plugin(package, parent, about)
    needs: dict[str, None] = {}
    for kind in package.kinds:
        needs |= dict.fromkeys(KINDS[kind].needs)
    if as_json:
        answer = {
            "directory": str(directory),
            "plugin": package.name,
            "module": package.module,
            "license": about.license,
            "examples": [str(package.example(kind)) for kind in package.kinds],
            "examples_need": list(needs),
        }
        click.echo(json.dumps(answer, indent=4))
        return
    click.echo(f"wrote {directory}: plugin {package.name}, module {package.module}, license {about.license}\n")
    click.echo(f"  cd {directory}\n  pip install -e '.[dev]'\n  pytest")
    for kind in package.kinds:
        click.echo(f"  rlcore run {package.example(kind)}")
    examples = "examples need" if package.several else "example needs"
    libraries = listed(list(needs))
    click.echo(f"\nThe {examples} {libraries}.")
