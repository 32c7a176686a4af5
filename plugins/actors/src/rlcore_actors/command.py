"""``rlcore actor``: an actor on another host."""

from __future__ import annotations

from pathlib import Path

import click


@click.command("actor")
@click.argument("address", metavar="HOST:PORT")
@click.option(
    "--token-file",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="File with the token of the run: actors.token in its directory, or that of workers.token_file.",
)
@click.option(
    "--wait",
    default=60.0,
    show_default=True,
    type=click.FloatRange(0),
    metavar="SECONDS",
    help="How long to wait for the run, or for a place in it.",
)
def actor_command(address: str, token_file: Path, wait: float) -> int:
    """Play on this host for the run at HOST:PORT, until the run ends.

    The run needs environment.workers {executor: actors, listen: HOST:PORT} with more places than it fills itself. Its
    configuration decides what this host imports and runs: play only for runs that you trust.
    """
    from rlcore_actors.messages import read_token
    from rlcore_actors.program import ActorProgram

    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        raise click.BadParameter(f"{address!r}: write HOST:PORT, such as 10.0.0.4:5600", param_hint="HOST:PORT")
    ActorProgram((host.strip("[]"), int(port)), read_token(token_file), wait=wait).run()
    return 0
