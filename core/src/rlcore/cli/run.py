"""``rlcore run``: trains agents as a configuration file describes."""

from __future__ import annotations

import gc
import os
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from time import sleep
from typing import TYPE_CHECKING, Any

import click

from rlcore.cli import commands
from rlcore.cli.commands import (
    PluginFlags,
    complete_records,
    complete_runs,
    listed_options,
    options_of_plugins,
    plugin_options,
    taken,
    with_rest,
)
from rlcore.cli.terminal import ShownPaths, UserPath, echo, lasting_console, show_log
from rlcore.errors import ConfigError, EnvironmentEnded, EnvironmentFailed, RlcoreError
from rlcore.files.paths import user_path
from rlcore.plugins.known import PACKAGES

if TYPE_CHECKING:
    from rlcore.config.document import Document
    from rlcore.contracts.ranks import Launch
    from rlcore.run.behaviors.behavior import BehaviorRun
    from rlcore.run.evaluation.evaluations import Scores
    from rlcore.run.run import Run


_ADDED = "rlcore.cli.run.options_of_plugins"
_WORDS = "rlcore.cli.run.words"


class RunCommand(click.Command):
    """Has the options of plugins, and says what to write instead of options of other programs."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta[_WORDS] = tuple(args)
        ctx.meta[_ADDED], plugins = options_of_plugins(args, self.params)
        if plugins is not None:
            args = with_rest(args, plugins)
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if plugins is None:
                raise
            from rlcore.config.choices import Hints
            from rlcore.plugins.installing import pip_install

            if package := PACKAGES.get(("option", error.option_name.removeprefix("--"))):
                where = f"an option of {package}; {pip_install(package)}, or turn it on if it is installed"
                raise ConfigError(f"{error.option_name}: {where}") from None
            said = Hints(plugins, {}).message((error.option_name,), "", True)
            if said:
                raise ConfigError(f"{error.option_name}: {said}") from None
            if error.possibilities:
                raise
            advice = "keys of CONFIG are set with --set, such as --set behaviors.NAME.time_horizon=128"
            message = f"No such option {error.option_name!r}; {advice}."
            raise click.NoSuchOption(error.option_name, message, error.possibilities, ctx) from None

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        own = super().get_params(ctx)
        return [*own[:-1], *ctx.meta.get(_ADDED, ()), *own[-1:]]  # the last one is --help

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_options(ctx, formatter)
        others = listed_options()
        if others and not ctx.meta.get(_ADDED):
            with formatter.section("Options of installed plugins"):
                formatter.write_dl(list(others.items()))


@click.command("run", cls=RunCommand, epilog="Installed plugins may add options: rlcore plugins list --provides")
@click.argument("config", required=False, type=UserPath())
@click.option("--env", metavar="ID", help="Environment to train in; without CONFIG, the run is named after it.")
@click.option("--trainer", metavar="NAME", shell_complete=complete_records, help="Trainer of every behavior.")
@click.option("--preset", metavar="NAME", shell_complete=complete_records, help="Values for keys that are not given.")
@click.option("--run-id", shell_complete=complete_runs, help="Name of the run; its directory is results/RUN_ID.")
@click.option("--results-dir", help="Directory of the run directories.")
@click.option("--resume", is_flag=True, help="Resume the run; without CONFIG, with the configuration in its directory.")
@click.option(
    "--checkpoint", metavar="STEP|best", help="Resume from this checkpoint; later ones move to RUN_ID.replaced."
)
@click.option("--force", is_flag=True, help="Replace an existing run of this name.")
@click.option("--inference", is_flag=True, help="Act with the saved policy, without learning, until interrupted.")
@click.option("--deterministic", is_flag=True, help="Take the mean or most likely action instead of sampling.")
@click.option("--initialize-from", metavar="ID", shell_complete=complete_runs, help="Start from another run's weights.")
@click.option("--max-steps", type=float, help="Agent steps to train, for every behavior, such as 1e6.")
@click.option("--seed", type=int, help="Seed of the run; -1 draws one.")
@click.option("--num-envs", type=int, help="Copies of the environment stepped together.")
@click.option("--device", help="Device of the trainers, such as cpu or cuda:0.")
@click.option("--set", "sets", multiple=True, metavar="A.B=VALUE", help="Set any key of the configuration.")
@click.option("--debug", is_flag=True, help="Log more, and show tracebacks.")
@plugin_options
def run_command(config: Path | None, sets: tuple[str, ...], chosen: PluginFlags, **flags: Any) -> int:
    """Train agents as CONFIG describes; or, without a file, in the environment ID of --env.

    Options change keys of CONFIG. Without CONFIG, --env begins with an empty one.
    Ctrl-C saves a checkpoint and ends the run; a second one ends it at once. If the output is lost (a closed terminal
    or pipe, a full disk), the run continues without it.
    """
    if flags["force"] and flags["resume"]:
        raise click.UsageError("--resume continues a run and --force replaces it; give only one of them")
    limit_threads()
    make = partial(make_run, config, sets, flags, chosen)
    meta = click.get_current_context().meta
    with lasting_console() as when_output_is_lost:
        if commands.OVER not in meta:
            return train(make, when_output_is_lost)
        taker, values = meta[commands.OVER]
        return int(taker.resolve()(options={"config": config, **flags, **values}, words=meta[_WORDS], make_run=make))


def train(make: Callable[[], Run], when_output_is_lost: list[Callable[[], None]]) -> int:
    """Trains the run that ``make`` makes until it ends. Returns the exit code."""
    from rlcore.cli.main import ends_within, report
    from rlcore.cli.progress import interrupts, is_silent, show_progress, show_start
    from rlcore.contracts.ranks import launched
    from rlcore.contracts.saved_values import hide_overflow_warnings

    hide_overflow_warnings()
    own_process = bool(click.get_current_context().obj)
    threshold = gc.get_threshold()
    if own_process:  # what a start imports and makes stays: looking for garbage in it takes a tenth of the time
        gc.set_threshold(1_000_000)
    launch = launched()
    leads = launch is None or launch.leads
    show_log(leads=leads)
    with first_rank_reports(launch, RlcoreError):
        run = make()
    if run.config.checkpoint_settings.inference:  # it has no other end
        when_output_is_lost.append(partial(run.request_stop, "the output is lost"))
    shown = ShownPaths()  # before the environment is created, which may change the working directory
    show_log(run.config.debug, leads)

    end_progress: Callable[[], None]

    def last_words(error: BaseException | None) -> int:
        end_progress()
        if isinstance(error, Exception):
            report_saved(run, shown)
            return report(error, run.config.debug, shown)
        return report_end(run, shown) if leads else exit_code(run)

    def deadline(what: str, seconds: float) -> AbstractContextManager[None]:
        return ends_within(seconds, f"closing {what}", last_words)

    run.close_deadline = deadline
    progress = show_progress(run) if leads else nullcontext(lambda: None)
    try:
        with interrupts(run, own_process), progress as end_progress:
            with first_rank_reports(launch, ConfigError):
                run.start()
            if own_process:
                gc.freeze()
                gc.set_threshold(*threshold)
            if not leads:
                run.train()
                return exit_code(run)
            if run.resumed_from is not None and not run.nothing_left:
                # To the stream of the progress bar: without `file`, click writes past it.
                echo(shown(f"resumed at step {run.steps} from checkpoint {run.resumed_from}"), file=sys.stdout)
            if not run.nothing_left and not is_silent(run):
                show_start(run, shown)
            run.train()
    except EnvironmentFailed as error:
        if isinstance(error, EnvironmentEnded) and run.outcome is None and run.stop is not None:
            echo(f"interrupted before the first step: {run.stop.reason}", err=True)
            return run.stop.exit_code
        report_saved(run, shown)
        raise
    return report_end(run, shown)


def make_run(config: Path | None, sets: tuple[str, ...], flags: dict[str, Any], chosen: PluginFlags) -> Run:
    """The run that the arguments describe, before it starts."""
    from rlcore.config.presets import id_as_name
    from rlcore.config.reading import document_from_mapping, read_document
    from rlcore.config.rewriting import apply_overrides
    from rlcore.run.run import Run
    from rlcore.run.saved.provenance import refuse_code_of_others, refuse_names_of_others, with_records_of_run

    options = taken(flags)
    saved = config is None and flags["env"] is None
    if saved:
        document = configuration_of_run(flags)
        flags["results_dir"] = flags["results_dir"] or "results"  # or a copied run would resume the original
    elif config is None:
        start = {"run_id": id_as_name(flags["env"])}
        document = document_from_mapping({"environment": {}, "default_settings": {}, "checkpoint_settings": start})
    else:
        document = read_document(config)
    document = apply_overrides(document, sets, typed_flags(flags, document.data), options)
    if saved and not chosen.allow_local:
        refuse_code_of_others(document, run_directory(flags), local=True)
    document = with_records_of_run(document)
    run = Run(document, chosen.load(document, allow_local=True))
    if saved and not chosen.allow_local:
        refuse_names_of_others(run.config, run.plugins, run_directory(flags), document)
    if config is not None:
        refuse_configuration_of_another(config, run)
    if run.offline and flags["num_envs"] is not None and not flags["inference"]:
        raise ConfigError(
            "--num-envs: this run learns from recorded data, so no environment is stepped; the copies of an evaluation "
            "are evaluation.environment.num_envs"
        )
    return run


def report_end(run: Run, shown: ShownPaths) -> int:
    """Prints how a run without an error ended. Returns the exit code."""
    for failure in run.failures:
        echo(shown(f"warning: {failure}"), err=True)
    echo(shown(closing_line(run)))
    return exit_code(run)


def report_saved(run: Run, shown: ShownPaths) -> None:
    """Prints what is saved of a run that an error ended between two steps, and how to resume it."""
    if run.outcome == "failed" and run.steps and run.saved_step == run.steps:
        report_end(run, shown)


def exit_code(run: Run) -> int:
    """The exit code of a run that ended without an error."""
    from rlcore.run.training import STOPPED

    return run.stop.exit_code if run.outcome in STOPPED and run.stop is not None else 0


# For the first rank of a machine to print its error before torchrun ends it because another rank has ended.
SECONDS_TO_REPORT = 10.0


@contextmanager
def first_rank_reports(launch: Launch | None, kind: type[RlcoreError]) -> Iterator[None]:
    """Leave an error of this kind in the block, which all ranks of a machine have, to the first of them."""
    try:
        yield
    except kind as error:
        if launch is not None and launch.local_rank:
            sleep(SECONDS_TO_REPORT)
            os._exit(error.exit_code)
        raise


FLAG_KEYS = {
    "env": ("environment", "id"),
    "preset": ("preset",),
    "run_id": ("checkpoint_settings", "run_id"),
    "results_dir": ("checkpoint_settings", "results_dir"),
    "resume": ("checkpoint_settings", "resume"),
    "checkpoint": ("checkpoint_settings", "checkpoint"),
    "force": ("checkpoint_settings", "force"),
    "inference": ("checkpoint_settings", "inference"),
    "initialize_from": ("checkpoint_settings", "initialize_from"),
    "seed": ("env_settings", "seed"),
    "device": ("torch_settings", "device"),
    "debug": ("debug",),
}


OF_BEHAVIORS = {
    "max_steps": ("max_steps",),
    "trainer": ("trainer_type",),
    "deterministic": ("network_settings", "deterministic"),
}


def typed_flags(flags: dict[str, Any], data: Mapping[str, Any]) -> dict[tuple[str, ...], Any]:
    """The configuration keys, and their values, of the flags that were given."""
    # Not `in (None, False)`: seed 0 equals False.
    given = {name: value for name, value in flags.items() if value is not None and value is not False}
    typed: dict[tuple[str, ...], Any] = {key: given[name] for name, key in FLAG_KEYS.items() if name in given}
    if "num_envs" in given:
        typed["env_settings" if data.get("environment") is None else "environment", "num_envs"] = given["num_envs"]
    behaviors = data.get("behaviors")
    names = behaviors if isinstance(behaviors, Mapping) else ()
    blocks: list[tuple[str, ...]] = [("behaviors", name) for name in names]
    if {"preset", "trainer"} & {*data, *given} or data.get("default_settings") is not None:
        blocks.append(("default_settings",))
    return typed | {(*at, *key): given[name] for name, key in OF_BEHAVIORS.items() if name in given for at in blocks}


def configuration_of_run(flags: dict[str, Any]) -> Document:
    """The configuration in the run's directory, to resume it without naming a file."""
    if not (flags["resume"] or flags["inference"]) or flags["run_id"] is None:
        raise click.UsageError("CONFIG is missing; give --env ID instead, or --run-id with --resume or --inference")
    if flags["preset"] is not None:
        raise click.UsageError("--preset has no effect: the configuration of a run has every key; leave it out")
    from rlcore.config.rules import name_problem
    from rlcore.run.saved.data import read_saved_configuration, require_run_directory

    if problem := name_problem("a run id", flags["run_id"]):
        raise ConfigError(f"--run-id: {problem}")
    directory = run_directory(flags)
    require_run_directory(directory)
    return read_saved_configuration(directory)


def refuse_configuration_of_another(config: Path, run: Run) -> None:
    """Raises ConfigError if CONFIG is in the directory of one run and would resume another run.

    That happens when a run's directory was copied or renamed.
    """
    from rlcore.storage.run_files import read_mark

    settings = run.config.checkpoint_settings
    home = config.absolute().parent
    if not (settings.resume or settings.inference) or read_mark(home) is None:
        return
    if not (run.directory.path.exists() and home.samefile(run.directory.path)):
        raise ConfigError(
            f"{config}: is in the directory of run {home.name!r} and names run {settings.run_id!r}; "
            f"say which with --run-id and --results-dir, or leave CONFIG out: --resume --run-id {home.name}"
        )


def run_directory(flags: dict[str, Any]) -> Path:
    """The directory of the run that ``--run-id`` names, for a command without CONFIG."""
    return user_path(flags["results_dir"] or "results") / str(flags["run_id"])


def limit_threads() -> None:
    """Limits numpy's linear algebra to one thread, which is faster for small networks.

    Its libraries read these variables when they are loaded, so call this before numpy is imported.
    """
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(variable, "1")


def closing_line(run: Run) -> str:
    """The last line, ``done: 9 steps; Pole mean reward 4.20 of the last 2 episodes; results/p``, and how to resume."""
    from rlcore.errors import dotted
    from rlcore.run.training import STOPPED

    if run.nothing_left and run.outcome == "done":
        if run.scores.stopped:
            assert run.config.evaluation is not None
            stop_at = stop_at_text(run.config.evaluation.stop_at)
            return (
                f"nothing left to learn: evaluation.stop_at {stop_at} is reached, by "
                f"{scored_text(run.scores)} at step {run.scores.step}; raise it with --set evaluation.stop_at=..., or "
                "remove it with --set evaluation.stop_at=null"
            )
        reached = ", ".join(dict.fromkeys(str(behavior.settings.max_steps) for behavior in run.behaviors.values()))
        keys = [dotted(("behaviors", name, "max_steps")) for name in run.behaviors]
        options = " ".join(f"--set {shlex.quote(f'{key}=...')}" for key in keys)
        return f"nothing left to learn: max_steps {reached} is reached; raise it with {options}"
    rewards = [reward_text(name, behavior) for name, behavior in run.behaviors.items()]
    if run.config.checkpoint_settings.inference and run.outcome == "interrupted":  # the normal end of inference
        acted = sum(behavior.inferred for behavior in run.behaviors.values())
        return f"stopped after {acted} steps; {', '.join(rewards)}; {run.directory.path}"
    scored = "".join(f"; {text}" for text in evaluation_texts(run))
    stop = run.stop if run.outcome in STOPPED else None
    reason = f" ({stop.reason})" if stop is not None and stop.reason and not stop.by_signal else ""
    wanted = stop is not None and not stop.by_signal and run.outcome == "interrupted"  # by a plugin, not by Ctrl-C
    ended = "stopped" if wanted else run.outcome
    line = f"{ended}{reason}: {run.steps} steps; {', '.join(rewards)}{scored}; {run.directory.path}"
    return line if run.outcome == "done" else f"{line}; resume with: {resuming(run)}"


def reward_text(name: str, behavior: BehaviorRun) -> str:
    """``CartPole mean reward 498.20 of the last 100 episodes``; says so before the first episode ended."""
    mean = behavior.mean_reward
    count = len(behavior.recent)
    if mean is None:
        return f"{name} no mean reward, because no episode has ended"
    if count == behavior.episodes.finished:
        return f"{name} mean reward {mean:.2f} of {'the only episode' if count == 1 else f'all {count} episodes'}"
    return f"{name} mean reward {mean:.2f} of the last {count} episode{'' if count == 1 else 's'}"


def evaluation_texts(run: Run) -> list[str]:
    """The scores of the run's evaluations, and whether one of them ended the run, as texts."""
    scores = run.scores
    settings = run.config.evaluation
    if scores.score is None or settings is None:
        return []
    texts = [f"evaluation {scores.score:.2f}, best {scores.best_score:.2f} at step {scores.best_step}"]
    if scores.stopped:
        texts.append(f"stopped at step {scores.step} because stop_at {stop_at_text(settings.stop_at)} was reached")
    return texts


def stop_at_text(stop_at: float | Mapping[str, float] | None) -> str:
    """``475``, or ``is_success 0.9`` for means of numbers that the environment reports."""
    if isinstance(stop_at, Mapping):
        return ", ".join(f"{name} {least:g}" for name, least in stop_at.items())
    return f"{stop_at:g}"


def scored_text(scores: Scores) -> str:
    """``a score of 480.00``, and the latest means of numbers that the environment reports."""
    info = "".join(f", {name} {mean:.2f}" for name, mean in scores.info.items())
    return f"a score of {scores.score:.2f}{info}"


def resuming(run: Run) -> str:
    """The command that resumes a run."""
    settings = run.config.checkpoint_settings
    words = ["rlcore", "run", "--resume", "--run-id", settings.run_id]
    if settings.results_dir != "results":
        words += ["--results-dir", settings.results_dir]
    return shlex.join(words)
