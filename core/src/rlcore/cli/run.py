"""``rlcore run``: trains agents as a configuration file describes."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout
from functools import partial
from pathlib import Path
from time import sleep
from typing import TYPE_CHECKING, Any

import click

from rlcore.cli.ending import ends_within, interrupts
from rlcore.cli.main import report
from rlcore.cli.options import PluginFlags, UserPath, complete_records, complete_runs, plugin_options
from rlcore.cli.progress import exit_code, is_silent, report_end, report_saved, show_progress, show_start
from rlcore.cli.run_options import AUTO, RESUME_AUTO, TAKER, WORDS, OptionsCommand, make_run
from rlcore.cli.terminal import ShortPaths, echo, lasting_console, show_log
from rlcore.errors import ConfigError, EnvironmentEnded, EnvironmentFailed, RlcoreError, RunStateError

if TYPE_CHECKING:
    from rlcore.cli.events import Events
    from rlcore.contracts.ranks import Launch
    from rlcore.run.run import Run


@click.command("run", cls=OptionsCommand, epilog="Installed plugins may add options: rlcore plugins list --provides")
@click.argument("config", required=False, type=UserPath())
@click.option("--env", metavar="ID", help="Environment to train in; without CONFIG, the run is named after it.")
@click.option("--trainer", metavar="NAME", shell_complete=complete_records, help="Trainer of every behavior.")
@click.option("--preset", metavar="NAME", shell_complete=complete_records, help="Values for keys that are not given.")
@click.option("--run-id", shell_complete=complete_runs, help="Name of the run; its directory is results/RUN_ID.")
@click.option("--results-dir", help="Directory of the run directories.")
@click.option(
    "--resume",
    is_flag=True,
    help="Resume the run; without CONFIG, with the configuration in its directory. '--resume auto' starts a run that "
    "has not begun, and does nothing if it is finished.",
)
@click.option(RESUME_AUTO, is_flag=True, hidden=True)
@click.option("--wait-for-lock", type=float, metavar="SECONDS", help="Wait for another process of this run to end.")
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
@click.option("--set", "sets", multiple=True, metavar="A.B=VALUE", help="Set any key of the configuration.")
@click.option("--json", "as_json", is_flag=True, help="Print events as JSON lines; all else goes to standard error.")
@click.option("--debug", is_flag=True, help="Log more, and show tracebacks.")
@plugin_options
def run_command(config: Path | None, sets: tuple[str, ...], as_json: bool, chosen: PluginFlags, **flags: Any) -> int:
    """Train agents as CONFIG describes; or, without a file, in the environment ID of --env.

    Options change keys of CONFIG. Without CONFIG and --preset, --env begins with the file that an installed collection
    has for ID, such as zoo:ppo/CartPole-v1, or with an empty one.
    Ctrl-C saves a checkpoint and ends the run; a second one ends it at once. If the output is lost (a closed terminal
    or pipe, a full disk), the run continues without it.
    """
    if flags.pop("resume_auto"):
        flags["resume"] = AUTO
    if flags["force"] and flags["resume"]:
        raise click.UsageError("--resume continues a run and --force replaces it; give only one of them")
    limit_threads()
    make = partial(make_run, config, sets, flags, chosen)
    meta = click.get_current_context().meta
    if as_json:
        if TAKER in meta:
            raise click.UsageError(f"--json prints the events of one run; leave it out with {meta[TAKER][0].option}")
        return train_with_events(make, config)
    with lasting_console() as when_output_is_lost:
        if TAKER not in meta:
            return train(make, when_output_is_lost)
        taker, values = meta[TAKER]
        take_over = taker.resolve()
        options = {"config": config, **flags, **values}
        return int(take_over(options=options, words=meta[WORDS], make_run=make))


def train_with_events(make: Callable[[], Run], config: Path | None) -> int:
    """Trains as :func:`train` does. Standard output gets the events of the run, and standard error all other output."""
    from rlcore.cli.events import Events, output_for_events

    own_process = bool(click.get_current_context().obj)
    with output_for_events(own_process), lasting_console() as when_output_is_lost:
        events = Events(sys.stdout, str(config or ""))
        with redirect_stdout(sys.stderr):
            try:
                return train(make, when_output_is_lost, events)
            except Exception as error:
                events.failed(error)
                raise


def train(make: Callable[[], Run], when_output_is_lost: list[Callable[[], None]], events: Events | None = None) -> int:
    """Trains the run that ``make`` makes until it ends. Returns the exit code."""
    from rlcore.contracts.finite import hide_overflow_warnings
    from rlcore.contracts.ranks import launched

    hide_overflow_warnings()
    own_process = bool(click.get_current_context().obj)
    threshold = gc.get_threshold()
    if own_process:  # what a start imports and makes stays: looking for garbage in it takes a tenth of the time
        gc.set_threshold(1_000_000)
    launch = launched()
    leads = launch is None or launch.leads
    if events is not None:
        events.silent = not leads  # the ranks of a run share the stream
    show_log(leads=leads)
    with first_rank_reports(launch, RlcoreError):
        run = make()
    if run.config.checkpoint_settings.inference:  # it has no other end
        when_output_is_lost.append(partial(run.request_stop, "the output is lost"))
    shorten = ShortPaths()  # before the environment is created, which may change the working directory
    show_log(run.config.debug, leads)
    if events is not None:
        events.follow(run)

    end_progress: Callable[[], None]

    def last_words(error: BaseException | None) -> int:
        end_progress()
        if isinstance(error, Exception):
            report_saved(run, shorten)
            if events is not None:
                events.failed(error)
            return report(error, run.config.debug, shorten)
        return ended() if leads else exit_code(run)

    def ended() -> int:
        code = report_end(run, shorten)
        if events is not None:
            events.ended(run, code)
        return code

    run.close_deadline = partial(ends_within, last_words)
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
                echo(shorten(f"resumed at step {run.steps} from checkpoint {run.resumed_from}"), file=sys.stdout)
            if not run.nothing_left and not is_silent(run):
                show_start(run, shorten)
            if events is not None:
                events.started(run)
            run.train()
    except (EnvironmentFailed, RunStateError) as error:
        stop = run.stop
        if isinstance(error, EnvironmentEnded | RunStateError) and run.outcome is None and stop is not None:
            # Seen in a wait: of the environment for a player of Unity, for example, or for the lock of the run.
            echo(f"interrupted before the first step: {stop.reason}", err=True)
            if events is not None:
                events.ended(run, stop.exit_code)
            return stop.exit_code
        report_saved(run, shorten)
        raise
    return ended()


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


def limit_threads() -> None:
    """Limits numpy's linear algebra to one thread, which is faster for small networks.

    Its libraries read these variables when they are loaded, so call this before numpy is imported.
    """
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(variable, "1")
