"""``rlcore ratings``: who is how strong in a run with self-play."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import click

if TYPE_CHECKING:
    from rich.console import Console

    from rlcore import CheckpointData
    from rlcore_ghost.ratings.round_robin import RoundRobin
    from rlcore_ghost.ratings.standings import Standings
    from rlcore_ghost.selfplay.elo import EloTable
    from rlcore_ghost.selfplay.match_log import MatchLog


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
    from rlcore import echo, read_checkpoint, require_output
    from rlcore_ghost.ratings.standings import Standings

    if plot is not None:
        require_output(plot, force, f"--plot {plot}")

    saved = read_checkpoint(run, checkpoint)
    log, elo = _log_in(saved.trainers, f"{run}: checkpoint {saved.step}")
    played = None if play is None else _play(run, saved, log, play, seed, allow_local)
    _require_anchor(log, anchor)
    standings = Standings.of(log, elo, anchor)
    if plot is not None:
        from rlcore_ghost.ratings.plot import save_plot

        save_plot(standings, plot, f"{run.name}, step {saved.step}")
    if as_json:
        games = {} if played is None else {"round_robin": attrs.asdict(played)}
        click.echo(json.dumps({"run": str(run), "step": saved.step, **games, **standings.to_json()}, indent=4))
        return
    _print(standings, f"{run}: step {saved.step}", players)
    if played is not None:
        echo(f"played now: {played.games} games of {played.players} players, which are part of all numbers but Elo")
        if played.unrated:
            echo(f"games without a result, which are not rated: {played.unrated}, most likely cut off by a time limit")
    if plot is not None:
        echo(f"the picture is in {plot}")


def _play(
    run: Path, checkpoint: CheckpointData, log: MatchLog, games: int, seed: int | None, allow_local: bool
) -> RoundRobin:
    """Add the games of a round robin to ``log``."""
    from rlcore import SavedRun
    from rlcore_ghost.ratings.round_robin import add_round_robin

    saved = SavedRun.open(run, str(checkpoint.step), allow_local)
    return add_round_robin(saved, checkpoint.trainers, log, games, saved.context.seed if seed is None else seed)


def _log_in(trainers: Mapping[str, Mapping[str, Any]], where: str) -> tuple[MatchLog, EloTable]:
    """The match log and the live ratings in the states of a checkpoint."""
    from rlcore import RunStateError, saved_array, saved_count, saved_float, saved_mapping
    from rlcore_ghost.selfplay.elo import EloTable
    from rlcore_ghost.selfplay.match_log import STATE_ENTRY, MatchLog

    states = [trainers[name] for name in sorted(trainers) if STATE_ENTRY in trainers[name]]
    if not states:
        raise RunStateError(
            f"{where} has no match log: no behavior of the run has self_play; add it to a behavior to rate its policies"
        )
    try:
        saved = saved_mapping(states[0], STATE_ENTRY)
        matches = saved_mapping(saved, "log")
        ratings = saved_mapping(saved, "elo")
        sides = range(len(saved_array(ratings, "advantages", "float64", (None,))))
        log, elo = MatchLog(saved_count(matches, "teams")), EloTable(saved_float(ratings, "initial"), sides=sides)
        log.load_state_dict(matches)
        elo.load_state_dict(ratings)
    except (RunStateError, ValueError) as error:
        raise RunStateError(f"{where}: the match log cannot be used: {error}") from error
    return log, elo


def _require_anchor(log: MatchLog, anchor: str | None) -> None:
    from rlcore import ConfigError, did_you_mean

    names = log.matches().names
    if anchor is not None and anchor not in names:
        raise ConfigError(f"--anchor: the run has no player {anchor!r}{did_you_mean(anchor, names)}")


def _print(standings: Standings, title: str, at_most: int) -> None:
    from rich.table import Table

    from rlcore import cells, echo, plain_console

    alone = f", {standings.self_matches} of them against itself alone" if standings.self_matches else ""
    echo(f"{title}: {standings.matches} matches{alone}")
    if not standings.players:
        echo("no matches between different players yet, so there are no ratings")
        return
    console = plain_console()
    table = Table("player", *_right("Elo", "Bradley-Terry", "OpenSkill", "games", "won"))
    for each in standings.players[:at_most]:
        skill = f"{each.skill.mu:.1f} +/- {each.skill.sigma:.1f}"
        table.add_row(
            *cells(each.name, _points(each.elo), _points(each.bradley_terry), skill, each.games, f"{each.share:.1%}")
        )
    console.print(table)
    if len(standings.players) > at_most:
        echo(f"weaker players that are not shown: {len(standings.players) - at_most}; --players N shows more")
    echo(f"Bradley-Terry ratings: {standings.anchor} is fixed at {standings.initial:.0f}; - is not connected with it")
    if max(standings.advantages) >= 10:
        teams = ", ".join(f"{each:+.0f}" for each in standings.advantages)
        echo(f"advantage of each team with the same player, in Bradley-Terry points: {teams}")
    if any(each.name.endswith("+") for each in standings.players[:at_most]):
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
    from rich.table import Table

    from rlcore import cells

    pay_off = standings.pay_off
    size = len(pay_off.names)
    labels = cells(*(f"{name} ({number})" for number, name in enumerate(pay_off.names, 1)))
    results = [
        [f"{wins}/{draws}/{losses}" if wins + draws + losses else "-" for wins, draws, losses in zip(*row, strict=True)]
        for row in zip(pay_off.wins, pay_off.draws, pay_off.wins.T, strict=True)
    ]

    def width(first: int) -> int:
        columns = [labels[first:], *zip(*(row[first:] for row in results[first:]), strict=True)]
        return 1 + sum(max(map(len, column)) + 3 for column in columns)  # with a frame

    first = next((each for each in range(size - 1) if width(each) <= console.width), max(0, size - 2))
    newest = f"; the newest {size - first} of {size} players" if first else ""
    table = Table("", *_right(*(f"({number})" for number in range(first + 1, size + 1))), title_justify="left")
    table.title = f"wins/draws/losses of the row{newest}"
    for label, row in zip(labels[first:], results[first:], strict=True):
        table.add_row(label, *row[first:])
    console.print(table)


def _print_cycles(standings: Standings) -> None:
    from rlcore import echo

    pay_off = standings.pay_off
    for cycle in pay_off.cycles:
        first, second, third = cycle.players
        one, two, three = cycle.shares
        echo(f"cycle: {first} beats {second} ({one:.0%}), {second} {third} ({two:.0%}), {third} {first} ({three:.0%})")
    if pay_off.cycles:
        echo("in a cycle, ratings do not say who wins; look at the pay-off matrix")
    if pay_off.nash is None:
        echo("Nash averaging needs scipy: pip install 'rlcore-ghost[league]'")
        return
    mixture = {name: share for name, share in pay_off.nash.items() if share >= 0.005}
    if len(mixture) > 1:
        shares = ", ".join(f"{name} {share:.0%}" for name, share in mixture.items())
        echo(f"no player beats this mixture (Nash averaging): {shares}")


def _right(*names: str) -> list[Any]:
    from rich.table import Column

    return [Column(name, justify="right") for name in names]


def _points(rating: float | None) -> str:
    return "-" if rating is None else f"{rating:.0f}"
