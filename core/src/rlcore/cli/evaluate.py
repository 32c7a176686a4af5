"""``rlcore evaluate``: measures the agents of a run."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rlcore.cli.ending import ends_within
from rlcore.cli.main import report
from rlcore.cli.options import (
    PluginFlags,
    UserPath,
    debug_option,
    json_option,
    plugin_options,
    policies_option,
    run_argument,
    set_option,
)
from rlcore.cli.run import limit_threads
from rlcore.cli.terminal import echo, show_log, warn
from rlcore.errors import ConfigError, ExitCode
from rlcore.settings.blocks import MAX_EPISODES

if TYPE_CHECKING:
    from rlcore.contracts.results import EvaluationResult


@click.command("evaluate")
@run_argument
@click.option(
    "--episodes", type=click.IntRange(1, MAX_EPISODES), default=20, show_default=True, help="Episodes to play."
)
@click.option("--seed", type=click.IntRange(min=0), help="Seed of the episodes; without it, the run's.")
@click.option("--stochastic", is_flag=True, help="Sample actions as training does, instead of the most likely ones.")
@policies_option("use")
@click.option(
    "--video",
    type=UserPath(),
    metavar="DIR",
    help="Film every episode, played one by one, into DIR, which must be empty or new.",
)
@click.option(
    "--record",
    type=UserPath(),
    help="Record the episodes of each behavior in DIR/BEHAVIOR.",
    metavar="DIR",
)
@click.option(
    "--max-episode-steps",
    type=click.IntRange(min=1),
    metavar="STEPS",
    help="Count an episode as truncated after so many steps; without it, evaluation.max_episode_steps of the run.",
)
@click.option("--record-format", metavar="NAME", help="The format of --record, if several are installed.")
@click.option(
    "--opponent",
    "opponents",
    multiple=True,
    metavar="NAME[=BLOCK]",
    help="Play against this opponent, such as random or 'old={type: run, path: results/old}', instead of those of "
    "evaluation.opponents.",
)
@click.option("--no-opponents", is_flag=True, help="Let the agents of RUN play all teams.")
@set_option
@json_option
@plugin_options
@debug_option
def evaluate_command(
    run: Path,
    episodes: int,
    seed: int | None,
    stochastic: bool,
    checkpoint: str,
    video: Path | None,
    record: Path | None,
    max_episode_steps: int | None,
    record_format: str | None,
    opponents: tuple[str, ...],
    no_opponents: bool,
    sets: tuple[str, ...],
    as_json: bool,
    chosen: PluginFlags,
) -> None:
    """Measure the agents of RUN (a run directory, or the id of a run in results/).

    The episodes are played in the environment of the configuration's evaluation block, if there is one.
    """
    if opponents and no_opponents:
        raise click.UsageError("--opponent adds an opponent and --no-opponents leaves all out; give only one of them")
    if video is not None and video.is_dir() and any(video.iterdir()):
        raise ConfigError(f"--video {video}: is not empty; name an empty or new directory for the films")
    limit_threads()  # before these imports, which load numpy
    from rlcore.config.load import load_document, located
    from rlcore.config.overrides import apply_overrides
    from rlcore.config.problems import ConfigErrors
    from rlcore.run.saved.data import find_run, read_saved_configuration
    from rlcore.run.saved.provenance import (
        raise_with_absent_plugins,
        refuse_code_of_others,
        refuse_names_of_others,
    )
    from rlcore.run.saved.saved_run import SavedRun
    from rlcore.storage.output import require_outside_runs

    for option, folder in (("--video", video), ("--record", record)):
        if folder is not None:
            require_outside_runs(folder, f"{option} {folder}")
    show_log()
    directory = find_run(run)
    document = apply_overrides(read_saved_configuration(directory), sets)
    if max_episode_steps is not None:
        document = apply_overrides(document, [f"evaluation.max_episode_steps={max_episode_steps}"])
    if opponents or no_opponents:
        document = apply_overrides(document, opponent_sets(opponents))
    evaluation = document.data.get("evaluation")
    if isinstance(evaluation, Mapping) and "interval" not in evaluation:  # of evaluations within a run
        document = apply_overrides(document, ["evaluation.interval=null"])
    if not chosen.allow_local:  # before its plugins are imported
        refuse_code_of_others(document, directory, local=False)
    plugins = chosen.load(document, lenient=True)
    try:
        config, document = load_document(document, plugins, measuring=True)
    except ConfigErrors as error:
        raise_with_absent_plugins(error, directory, plugins)
    if not chosen.allow_local:
        refuse_names_of_others(config, plugins, directory, document, environments=True)
    with located(document):
        saved = SavedRun.load(directory, config, plugins, checkpoint)

    def last_words(error: BaseException | None) -> int:
        if isinstance(error, Exception):
            return report(error, debug=False)
        return ExitCode.DONE if error is None else ExitCode.SIGINT

    saved.close_deadline = partial(ends_within, last_words)

    def show(result: EvaluationResult) -> None:
        warn(plugins.failures)
        if as_json:
            click.echo(json.dumps(result.to_json(), indent=4))
            return
        best = "best " if checkpoint == "best" else ""
        for line in result_lines(result, f"{best}checkpoint {saved.step}"):
            echo(line)
        if record is not None:
            echo(f"recordings of the episodes are in {record}")
        if video is not None:
            echo(f"films of the episodes are in {video}")

    with located(document):
        saved.evaluate(episodes, seed, not stochastic, video, record, record_format, before_close=show)


def opponent_sets(opponents: tuple[str, ...]) -> list[str]:
    """The changes with which ``evaluation.opponents`` has only ``opponents``, each NAME or NAME=BLOCK."""
    sets = ["evaluation.score_against=null", "evaluation.opponents={}"]
    for text in opponents:
        name, equals, block = text.partition("=")
        quote = "'" if '"' in name else '"'
        key = f"evaluation.opponents.{quote}{name.strip()}{quote}"
        sets.append(f"{key}={block if equals else '{}'}")
    return sets


def result_lines(result: EvaluationResult, checkpoint: str) -> Iterator[str]:
    """A line for each behavior and opponent; ``checkpoint`` names the checkpoint."""
    for name, behavior in result.behaviors.items():
        rewards = f"mean reward {behavior.mean_reward:.2f} +/- {behavior.std_reward:.2f}"
        if behavior.mean_group_reward is not None:
            rewards += f" and mean group reward {behavior.mean_group_reward:.2f}"
        episodes = f"{behavior.episodes} episodes of {behavior.mean_length:.1f} steps"
        yield f"{name}: {rewards} over {episodes} ({checkpoint})"
        if behavior.info:
            info = ", ".join(f"{key} {mean:.3f}" for key, mean in behavior.mean_info.items())
            yield f"{name}: means of what ended episodes report: {info}"
    for name, opponent in result.opponents.items():
        rewards = f"mean reward {opponent.mean_reward:.2f} +/- {opponent.std_reward:.2f}"
        shares = f"won {opponent.win_rate:.1%}, drawn {opponent.draw_rate:.1%}, lost {opponent.loss_rate:.1%}"
        yield f"against {name}: {rewards}, {shares} of {opponent.episodes} episodes"
