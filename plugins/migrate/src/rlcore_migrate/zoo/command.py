"""``rlcore convert``: configurations of other programs as configurations of rlcore."""

from __future__ import annotations

from pathlib import Path

import click

FORMATS = {"zoo": "a hyperparameter file of RL Zoo, such as ppo.yml"}


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
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write this file instead of standard output.")
@click.option("--force", is_flag=True, help="Replace the output file.")
@click.option("--debug", is_flag=True, expose_value=False, help="Show tracebacks.")
def zoo_command(
    file: Path, env_id: str | None, algo: str | None, without: tuple[str, ...], output: Path | None, force: bool
) -> None:
    """Write the configuration that trains as an entry of FILE, a hyperparameter file of RL Zoo, says.

    Every key of the entry is converted, or refused with the reason. Comments in the result name the key that each value
    comes from, and what rlcore does otherwise. The environment must be installed: the actions' bounds count.
    """
    from rlcore import echo, read_document, require_output, write_atomically
    from rlcore_migrate.zoo.convert import convert_file
    from rlcore_migrate.zoo.entry import entries_of

    if env_id is None:
        raise click.UsageError(f"add --env ID; {file} {entries_of(read_document(file).data)}")
    if output is not None:
        require_output(output, force, f"-o {output}")
    converted = convert_file(file, env_id, algo, without)
    if output is None:
        echo(converted.text.removesuffix("\n"))
        return
    write_atomically(output, converted.text.encode("utf-8"))
    count = len(converted.differences)
    named = f"; it names {count} difference{'s' * (count > 1)} from Stable-Baselines3" if count else ""
    echo(f"wrote {output}: {converted.algorithm} for {converted.behavior}{named}")
