"""``rlcore ratings``: who is how strong in a run with self-play."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import click
import numpy as np
from rich.console import Console
from rich.table import Column, Table

from rlcore import (
    CheckpointData,
    ConfigError,
    RunStateError,
    SavedRun,
    cells,
    did_you_mean,
    echo,
    pip_install,
    read_checkpoint,
    require_output,
    saved_array,
    saved_count,
    saved_float,
    saved_mapping,
)
from rlcore_ghost.ratings.plot import save_plot
from rlcore_ghost.ratings.round_robin import RoundRobin, add_round_robin
from rlcore_ghost.ratings.standings import Standings
from rlcore_ghost.selfplay.match_log import STATE_ENTRY, MatchLog


@click.command("ratings")
@click.argument("run", type=click.Path(path_type=Path))
@click.option(
    "--checkpoint",
    metavar="last|STEP",
    default="last",
    show_default=True,
    help="The checkpoint with the match log: the newest intact one, or that of a step.",
)
@click.option("--anchor", metavar="PLAYER", help="The player whose Bradley-Terry rating is fixed; the first snapshot.")
@click.option(
    "--play",
    type=click.IntRange(min=1),
    metavar="N",
    help="First play N games of each pair of snapshots; saves nothing.",
)
@click.option("--seed", type=click.IntRange(min=0), help="Seed of these games; by default, the run's.")
@click.option("--players", type=click.IntRange(min=1), default=30, show_default=True, help="Rows of the table.")
@click.option("--plot", type=click.Path(path_type=Path), metavar="FILE.png", help="Draw rating curve and pay-offs.")
@click.option("--force", is_flag=True, help="Replace the picture of --plot if it exists.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option(
    "--allow-local", is_flag=True, envvar="RLCORE_ALLOW_LOCAL", help="Import files that the run names; for --play."
)
@click.option("--debug", is_flag=True, expose_value=False, help="Show tracebacks.")
def ratings_command(
    run: Path,
    checkpoint: str,
    anchor: str | None,
    play: int | None,
    seed: int | None,
    players: int,
    plot: Path | None,
    force: bool,
    as_json: bool,
    allow_local: bool,
) -> None:
    """Show how strong the players of RUN are (a run directory, or the id of a run in results/).

    All numbers come from the match log in a checkpoint: live Elo, a Bradley-Terry fit of all matches, OpenSkill, the
    share of games won, who beats whom, and cycles. With --play, the snapshots in the checkpoint, the fixed opponents
    and the current policies first play each other in the run's environment.
    """
    if seed is not None and play is None:
        raise click.UsageError("--seed is of the games that --play plays; add --play N")
    if plot is not None:
        require_output(plot, force, f"--plot {plot}")

    saved = read_checkpoint(run, checkpoint)
    log, live, initial = _log_in(saved, f"{run}: checkpoint {saved.step}")
    played: RoundRobin | None = None
    if play is not None:
        opened = SavedRun.open(run, str(saved.step), allow_local)
        if seed is None:
            seed = opened.context.seed
        played = add_round_robin(opened, saved.trainers, log, play, seed)
    names = log.matches().names
    if anchor is not None and anchor not in names:
        raise ConfigError(f"--anchor: the run has no player {anchor!r}{did_you_mean(anchor, names)}")
    standings = Standings.of(log, live, anchor, initial)
    if plot is not None:
        save_plot(standings, plot, f"{run.name}, step {saved.step}")
    if as_json:
        report: dict[str, Any] = {"run": str(run), "step": saved.step}
        if played is not None:
            report["round_robin"] = attrs.asdict(played)
        report |= standings.to_json()
        click.echo(json.dumps(report, indent=4))
        return
    _print(standings, f"{run}: step {saved.step}", players)
    if played is not None:
        echo(f"played now: {played.games} games of {played.players} players, which are part of all numbers but Elo")
        if played.unrated:
            echo(f"games without a result, which are not rated: {played.unrated}, most likely cut off by a time limit")
    if plot is not None:
        echo(f"the picture is in {plot}")


def _log_in(checkpoint: CheckpointData, where: str) -> tuple[MatchLog, list[float], float]:
    """The match log, the live ratings and the initial one in a checkpoint."""
    state = None
    for name in sorted(checkpoint.trainers):
        trainer: Mapping[str, Any] = checkpoint.trainers[name]
        if state is None and STATE_ENTRY in trainer:
            state = trainer
    if state is None:
        raise RunStateError(
            f"{where} has no match log: no behavior of the run has self_play; add it to a behavior to rate its policies"
        )
    try:
        saved = saved_mapping(state, STATE_ENTRY)
        matches = saved_mapping(saved, "log")
        elo = saved_mapping(saved, "elo")
        log = MatchLog(saved_count(matches, "teams"))
        log.load_state_dict(matches)
        live = saved_array(elo, "ratings", np.float64, (None,)).tolist()
        return log, live, saved_float(elo, "initial")
    except (RunStateError, ValueError) as error:
        raise RunStateError(f"{where}: the match log cannot be used: {error}") from error


def _print(standings: Standings, title: str, at_most: int) -> None:
    alone = f", {standings.self_matches} of them against itself alone" if standings.self_matches else ""
    echo(f"{title}: {standings.matches} matches{alone}")
    if not standings.players:
        echo("no matches between different players yet, so there are no ratings")
        return
    console = Console(markup=False, emoji=False, highlight=False)  # names are shown as they are
    table = Table("player", *_right("Elo", "Bradley-Terry", "OpenSkill", "games", "won"))
    for player in standings.players[:at_most]:
        elo = "-" if player.elo is None else f"{player.elo:.0f}"
        fitted = "-" if player.bradley_terry is None else f"{player.bradley_terry:.0f}"
        skill = f"{player.skill.mu:.1f} +/- {player.skill.sigma:.1f}"
        row = cells(player.name, elo, fitted, skill, player.games, f"{player.share:.1%}")
        table.add_row(*row)
    console.print(table)
    if len(standings.players) > at_most:
        echo(f"weaker players that are not shown: {len(standings.players) - at_most}; --players N shows more")
    echo(f"Bradley-Terry ratings: {standings.anchor} is fixed at {standings.initial:.0f}; - is not connected with it")
    if max(standings.advantages) >= 10:
        teams = ", ".join(f"{advantage:+.0f}" for advantage in standings.advantages)
        echo(f"advantage of each team with the same player, in Bradley-Terry points: {teams}")
    echo("a name with + is the learner after that snapshot")
    _print_matrix(standings, console)
    _print_cycles(standings)
    if standings.not_zero_sum:
        echo(
            f"not zero-sum: the results of {standings.not_zero_sum} matches did not add up to zero; "
            "ratings use only who was better"
        )


def _print_matrix(standings: Standings, console: Console) -> None:
    """As many of the newest players as fit the terminal."""
    pay_off = standings.pay_off
    size = len(pay_off.names)
    numbered = [f"{name} ({number})" for number, name in enumerate(pay_off.names, 1)]
    labels = cells(*numbered)
    losses = pay_off.wins.T
    counts = np.stack([pay_off.wins, pay_off.draws, losses], axis=2)
    results = []
    widest = 0
    for of_player in counts.tolist():
        row = ["/".join(map(str, count)) if any(count) else "-" for count in of_player]
        widest = max(widest, *map(len, row))
        results.append(row)
    widest += 3  # with a frame
    label_width = max(map(len, labels))
    fitting = (console.width - label_width - 4) // widest
    first = max(0, size - max(2, fitting))
    newest = f"; the newest {size - first} of {size} players" if first else ""
    numbers = [f"({number})" for number in range(first + 1, size + 1)]
    table = Table("", *_right(*numbers), title_justify="left")
    table.title = f"wins/draws/losses of the row{newest}"
    for label, row in zip(labels[first:], results[first:], strict=True):
        table.add_row(label, *row[first:])
    console.print(table)


def _print_cycles(standings: Standings) -> None:
    pay_off = standings.pay_off
    for cycle in pay_off.cycles:
        first, second, third = cycle.players
        one, two, three = cycle.shares
        echo(f"cycle: {first} beats {second} ({one:.0%}), {second} {third} ({two:.0%}), {third} {first} ({three:.0%})")
    if pay_off.cycles:
        echo("in a cycle, ratings do not say who wins; look at the pay-off matrix")
    if pay_off.nash is None:
        echo(f"Nash averaging needs scipy: {pip_install('rlcore-ghost[league]')}")
        return
    mixture = {name: share for name, share in pay_off.nash.items() if share >= 0.005}
    if len(mixture) > 1:
        shares = ", ".join(f"{name} {share:.0%}" for name, share in mixture.items())
        echo(f"no player beats this mixture (Nash averaging): {shares}")


def _right(*names: str) -> list[Column]:
    return [Column(name, justify="right") for name in names]
