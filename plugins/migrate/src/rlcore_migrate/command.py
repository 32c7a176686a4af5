"""``rlcore convert``: configurations of other programs as configurations of rlcore."""

from __future__ import annotations

import json
from pathlib import Path

import click

from rlcore import debug_option, json_option

FORMATS = {
    "zoo": "a hyperparameter file of RL Zoo, such as ppo.yml",
    "mlagents": "a trainer file of ML-Agents up to 1.3, such as trainer_config.yaml",
}
_output = click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="Write this file instead of standard output."
)
_force = click.option("--force", is_flag=True, help="Replace the output file.")


class Formats(click.Group):
    """The formats that can be converted. Messages name all of them."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        from rlcore import did_you_mean

        name = args[0]
        if name in self.commands or ctx.resilient_parsing:
            return super().resolve_command(ctx, args)
        formats = ", ".join(f"{each} ({text})" for each, text in FORMATS.items())
        raise click.UsageError(f"{name!r} is not a format; formats: {formats}{did_you_mean(name, FORMATS)}", ctx)


@click.group("convert", cls=Formats, invoke_without_command=True)
@click.pass_context
def convert_command(ctx: click.Context) -> None:
    """Write a configuration of rlcore from a file of another program."""
    if ctx.invoked_subcommand is None:
        raise click.UsageError("name a format and a file: rlcore convert zoo ppo.yml --env CartPole-v1", ctx)


@convert_command.command("zoo")
@click.argument("file", type=click.Path(path_type=Path), metavar="FILE")
@click.option("--env", "env_id", metavar="ID", help="The environment, as Gymnasium names it.")
@click.option("--algo", metavar="NAME", help="ppo, sac, td3, ddpg, dqn or qrdqn; by default the name of FILE says it.")
@click.option(
    "--without",
    multiple=True,
    metavar="KEY",
    help="Leave a key out that cannot be converted, such as callback. May be repeated.",
)
@_output
@_force
@json_option
@debug_option
def zoo_command(
    file: Path,
    env_id: str | None,
    algo: str | None,
    without: tuple[str, ...],
    output: Path | None,
    force: bool,
    as_json: bool,
) -> None:
    """Write the configuration that trains as an entry of FILE, a hyperparameter file of RL Zoo, says.

    Every key of the entry is converted, or refused with the reason. Comments in the result name the key that each value
    comes from, and what rlcore does otherwise. The environment must be installed: the actions' bounds count.
    """
    from rlcore import read_document
    from rlcore_migrate.zoo.convert import convert_file
    from rlcore_migrate.zoo.entry import entries_of

    if env_id is None:
        raise click.UsageError(f"add --env ID; {file} {entries_of(read_document(file).data)}")
    _require(output, force)
    converted = convert_file(file, env_id, algo, without)
    count = len(converted.differences)
    named = f"; it names {count} difference{'s' * (count > 1)} from Stable-Baselines3" if count else ""
    summary = f"{converted.algorithm} for {converted.behavior}{named}"
    _write(converted.text, output, summary, list(converted.differences), as_json)


@convert_command.command("mlagents")
@click.argument("file", type=click.Path(path_type=Path), metavar="FILE")
@click.option(
    "--behavior", "behaviors", multiple=True, metavar="NAME", help="Convert this section alone. May be repeated."
)
@click.option(
    "--curriculum",
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="The file of --curriculum of mlagents-learn, or the directory of such files.",
)
@click.option(
    "--sampler", type=click.Path(path_type=Path), metavar="PATH", help="The file of --sampler of mlagents-learn."
)
@_output
@_force
@json_option
@debug_option
def mlagents_command(
    file: Path,
    behaviors: tuple[str, ...],
    curriculum: Path | None,
    sampler: Path | None,
    output: Path | None,
    force: bool,
    as_json: bool,
) -> None:
    """Write the configuration that trains as FILE, a trainer file of ML-Agents up to 1.3, says.

    FILE has a section for each behavior, over a section default. Lessons and samplers become environment_parameters.
    The comment at the top of the result names each key that is not converted, and why.
    """
    from rlcore_migrate.mlagents import convert_files

    _require(output, force)
    converted = convert_files(file, behaviors, curriculum, sampler)
    named = f"; not converted: {', '.join(converted.left_out)}" if converted.left_out else ""
    summary = f"{', '.join(converted.behaviors) or 'default_settings'}{named}"
    _write(converted.text, output, summary, [f"{key}: {reason}" for key, reason in converted.left_out.items()], as_json)


def _require(output: Path | None, force: bool) -> None:
    """Refuse an output file that exists before anything is converted."""
    from rlcore import require_output

    if output is not None:
        require_output(output, force, f"-o {output}")


def _write(text: str, output: Path | None, summary: str, differences: list[str], as_json: bool) -> None:
    """Write the file and say so, or print it."""
    from rlcore import echo, write_atomically

    if as_json:
        if output is not None:
            write_atomically(output, text.encode("utf-8"))
        answer = {"output": None if output is None else str(output), "text": text, "differences": differences}
        click.echo(json.dumps(answer, indent=4))
        return
    if output is None:
        echo(text.removesuffix("\n"))
        return
    write_atomically(output, text.encode("utf-8"))
    echo(f"wrote {output}: {summary}")
