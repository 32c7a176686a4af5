"""``rlcore ray``: ranks and sweeps on Ray."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])

LOCAL = "By default, Ray is started on this machine, reachable from it alone, and ended with the command."


def _resources(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, float]:
    found = {}
    for text in values:
        name, equals, amount = text.partition("=")
        try:
            found[name] = float(amount)
        except ValueError:
            found[name] = -1.0
        if not (name and equals and 0 < found[name] < float("inf")) or name in ("CPU", "GPU", "memory"):
            raise click.BadParameter(f"{text!r}: write NAME=AMOUNT, such as simulator=1; CPUs and GPUs have options")
    return found


def cluster_options(each: str) -> Callable[[Command], Command]:
    """Add the options about the cluster and about what Ray reserves for ``each``, such as ``rank``."""

    def add(command: Command) -> Command:
        for option in (
            click.option(
                "--resource",
                "resources",
                multiple=True,
                metavar="NAME=AMOUNT",
                callback=_resources,
                help=f"Other resource of Ray that each {each} needs. May be repeated.",
            ),
            click.option("--gpus", default=0.0, type=click.FloatRange(0), help=f"GPUs of each {each}.", metavar="N"),
            click.option(
                "--cpus",
                default=1.0,
                show_default=True,
                type=click.FloatRange(0),
                help=f"Logical CPUs of each {each}.",
                metavar="N",
            ),
            click.option("--address", metavar="HOST:PORT|auto", help=f"Cluster that this host belongs to. {LOCAL}"),
        ):
            command = option(command)
        return command

    return add


@click.group("ray")
def ray_command() -> None:
    """Start ranks and sweeps on Ray: on this machine, or on the hosts of a cluster."""


@ray_command.command("ranks", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option("--count", required=True, type=click.IntRange(1), help="Number of ranks.")
@cluster_options("rank")
@click.option(
    "--max-restarts",
    default=0,
    show_default=True,
    type=click.IntRange(0),
    help="How often all ranks start again, from the last checkpoint, after one has failed.",
)
@click.option(
    "--wait",
    default=60.0,
    show_default=True,
    type=click.FloatRange(0),
    metavar="SECONDS",
    help="How long to wait until the cluster has room for all ranks.",
)
@click.argument("arguments", nargs=-1, required=True, type=click.UNPROCESSED, metavar="CONFIG [OPTIONS OF RUN]...")
def ranks_command(
    count: int,
    cpus: float,
    gpus: float,
    resources: dict[str, float],
    address: str | None,
    max_restarts: int,
    wait: float,
    arguments: tuple[str, ...],
) -> int:
    """Train in several processes that learn one policy, as torchrun does: rlcore run CONFIG in each rank.

    Rank 0 runs on this machine and writes the run directory. Ctrl-C saves a checkpoint and ends all ranks.
    """
    if gpus != int(gpus):
        raise click.BadParameter("a rank has whole GPUs", param_hint="--gpus")
    from rlcore_ray.ranks import RankJob
    from rlcore_ray.remote import Reserved, connected

    reserved = Reserved(cpus, gpus, resources)
    with connected(address, count, reserved):
        return RankJob(count, reserved, wait, max_restarts).run(["run", *arguments])


@ray_command.command("sweep")
@click.argument("file", type=click.Path(path_type=Path))
@cluster_options("trial")
@click.option("--parallel", type=click.IntRange(1), metavar="N", help="Most trials at once; by default, all that fit.")
@click.option(
    "--max-restarts",
    default=3,
    show_default=True,
    type=click.IntRange(0),
    help="How often a trial is resumed after its process or its host was lost.",
)
@click.option("--list", "only_list", is_flag=True, help="Check all trials and print their commands; run nothing.")
def sweep_command(
    file: Path,
    cpus: float,
    gpus: float,
    resources: dict[str, float],
    address: str | None,
    parallel: int | None,
    max_restarts: int,
    only_list: bool,
) -> int:
    """Run the trials that FILE describes: one configuration with several values of some keys.

    Started again, the command continues: trials that are done are kept, others resume. Ctrl-C saves a checkpoint of
    every running trial.
    """
    from rlcore_ray.remote import Reserved
    from rlcore_ray.sweep import Sweep
    from rlcore_ray.sweep_file import read_sweep

    plan = read_sweep(file)
    if only_list:
        for trial in plan.trials:
            click.echo(trial.command(plan))
        return 0
    return Sweep(plan, Reserved(cpus, gpus, resources), address, parallel, max_restarts).run()
