"""``rlcore skills``: lists, shows and installs the skills for coding agents."""

from __future__ import annotations

import json
from pathlib import Path

import click

from rlcore import debug_option, json_option

FOLDER = Path(".claude/skills")


@click.group("skills")
def skills_command() -> None:
    """List, show and install the skills for coding agents."""


@skills_command.command("list")
@json_option
@debug_option
def list_command(as_json: bool) -> None:
    """List the skills, each with its description."""
    from rlcore import echo_columns
    from rlcore_skills.skills import skills

    found = skills().values()
    if as_json:
        rows = [{"name": skill.name, "description": skill.description} for skill in found]
        click.echo(json.dumps({"skills": rows}, indent=4))
        return
    echo_columns([(skill.name, skill.description) for skill in found])


@skills_command.command("show")
@click.argument("name")
@json_option
@debug_option
def show_command(name: str, as_json: bool) -> None:
    """Print the skill NAME."""
    from rlcore import echo
    from rlcore_skills.skills import named

    (skill,) = named([name])
    if as_json:
        answer = {"name": skill.name, "description": skill.description, "text": skill.text}
        click.echo(json.dumps(answer, indent=4))
        return
    echo(skill.text.removesuffix("\n"))


@skills_command.command("install")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False),
    default=FOLDER,
    show_default=True,
    help="Where the coding agent looks for skills.",
)
@click.option("--force", is_flag=True, help="Replace files that were changed after they were installed.")
@json_option
@debug_option
def install_command(names: tuple[str, ...], folder: Path, force: bool, as_json: bool) -> None:
    """Write the skills NAME, by default all, to a folder of this project.

    Files that are unchanged since an earlier installation are replaced by those of this version.
    """
    from rlcore import echo
    from rlcore_skills.skills import install, named

    states = install(named(names), folder, force)
    if as_json:
        rows = [{"file": str(path), "state": state} for path, state in states.items()]
        click.echo(json.dumps({"files": rows}, indent=4))
        return
    for path, state in states.items():
        echo(f"{state}: {path}")
