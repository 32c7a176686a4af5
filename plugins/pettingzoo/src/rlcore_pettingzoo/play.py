"""``rlcore play``: a person plays a turn-based game against the policies of a run."""

from __future__ import annotations

from pathlib import Path

import click

from rlcore_pettingzoo.table import Table


@click.command("play")
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--seat", metavar="AGENT", help="The agent you play, by name or number; by default, the first.")
@click.option("--checkpoint", metavar="best|last|STEP", default="last", show_default=True, help="Policies that play.")
@click.option("--deterministic", is_flag=True, help="Let the policies take the most likely action instead of sampling.")
@click.option("--games", type=click.IntRange(min=1), default=1, show_default=True, help="Games to play.")
@click.option("--seed", type=click.IntRange(min=0), help="Seed of the games; without it, other games every time.")
@click.option("--allow-local", is_flag=True, envvar="RLCORE_ALLOW_LOCAL", help="Import files that the run names.")
@click.option("--debug", is_flag=True, expose_value=False, help="Show tracebacks.")
def play_command(
    run: Path,
    seat: str | None,
    checkpoint: str,
    deterministic: bool,
    games: int,
    seed: int | None,
    allow_local: bool,
) -> None:
    """Play a game against the agents of RUN (a run directory, or the id of a run in results/).

    The game is that of the run's environment block, which is of type pettingzoo and is played in turns. Type the number
    of an action, or q to leave.
    """
    table = Table(run, seat, checkpoint, deterministic, seed, allow_local)
    try:
        _play(table, games)
    finally:
        table.environment.close()


def _play(table: Table, games: int) -> None:
    click.echo(f"{table.title}; you are {table.you}")
    for _ in range(games):
        while not table.over:
            for line in table.news():
                click.echo(line)
            if not table.your_turn:
                table.step()
                continue
            click.echo(table.view())
            action = _asked(table)
            if action is None:
                click.echo("You left the game.")
                return
            table.step(action)
        for line in (*table.news(), *table.result()):
            click.echo(line)
        table.begin()


def _asked(table: Table) -> int | None:
    """Return the action that the person chose, or None to leave."""
    options = table.options()
    while True:
        click.echo(f"Your actions: {', '.join(options.values())}")
        try:
            answer = str(click.prompt("Your move", prompt_suffix="> ", default="", show_default=False)).strip()
        except click.Abort:
            click.echo()
            return None
        if answer.lower() in ("q", "quit"):
            return None
        if answer.isdecimal() and int(answer) in options:
            return int(answer)
        named = []
        for action, text in options.items():
            names = text.split(" = ")[1:]
            if answer and answer in names:
                named.append(action)
        if len(named) == 1:
            return named[0]
        click.echo(f"{answer or 'Nothing'} is not one of your actions; type a number, or q to leave.")
