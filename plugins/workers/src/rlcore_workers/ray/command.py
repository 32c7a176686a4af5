"""``rlcore ray``: ranks and actors on Ray."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click

from rlcore import ConfigError, SettingError


def _resources(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, float]:
    resources = {}
    for text in values:
        name, _, number = text.partition("=")
        try:
            amount = float(number)
        except ValueError:
            amount = -1.0
        if not name or not 0 < amount < float("inf") or name in ("CPU", "GPU", "memory"):
            raise click.BadParameter(f"{text!r}: write NAME=AMOUNT, such as simulator=1; CPUs and GPUs have options")
        resources[name] = amount
    return resources


@click.group("ray")
def ray_command() -> None:
    """Start ranks or actors on Ray: on this machine, or on the hosts of a cluster."""


def placement(what: str) -> Callable[[Any], Any]:
    """The options of a command that starts several processes; ``what`` they are."""

    def decorated(command: Any) -> Any:
        for option in reversed(
            [
                click.option("--count", required=True, type=click.IntRange(1), help=f"Number of {what}s."),
                click.option(
                    "--address",
                    metavar="HOST:PORT|auto",
                    help="Cluster that this host belongs to. By default, Ray is started on this machine, reachable "
                    "from it alone, and ended with the command.",
                ),
                click.option(
                    "--cpus",
                    default=1.0,
                    show_default=True,
                    type=click.FloatRange(0),
                    help=f"Logical CPUs of each {what}.",
                    metavar="N",
                ),
                click.option("--gpus", default=0, type=click.IntRange(0), help=f"GPUs of each {what}.", metavar="N"),
                click.option(
                    "--resource",
                    "resources",
                    multiple=True,
                    metavar="NAME=AMOUNT",
                    callback=_resources,
                    help=f"Other resource of Ray that each {what} needs. May be repeated.",
                ),
            ]
        ):
            command = option(command)
        return command

    return decorated


@contextmanager
def connected(address: str | None, count: int, cpus: float, resources: dict[str, float]) -> Iterator[None]:
    """Connect to Ray, and name the options that are wrong."""
    from rlcore_workers.ray.session import connection
    from rlcore_workers.ray.settings import RaySettings

    try:
        connection.open(RaySettings(address=address, count=count, cpus=cpus, resources=resources))
    except SettingError as error:
        raise ConfigError(f"--{error.field}: {error.problem}") from error
    except ConfigError as error:
        raise ConfigError(f"--address: {error.message}") from error
    try:
        yield
    finally:
        connection.close()


def ended(code: int, address: str | None) -> int:
    """Return the exit code of a job, or end the process with it at once if the job was on a cluster."""
    from rlcore_workers.ray.ranks import end_process

    if address is not None and click.get_current_context().find_root().obj:
        # The process is of this command alone. Ray ends what is left of its job, and would wait for hosts that are
        # lost, and a minute for its head.
        end_process(code)
    return code


def reserved(cpus: float, gpus: int, resources: dict[str, float]) -> dict[str, float]:
    """Return what Ray reserves for each process, by Ray's names."""
    amounts = {"CPU": cpus, "GPU": gpus, **resources}
    return {name: amount for name, amount in amounts.items() if amount}


@ray_command.command("ranks", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@placement("rank")
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
    address: str | None,
    cpus: float,
    gpus: int,
    resources: dict[str, float],
    max_restarts: int,
    wait: float,
    arguments: tuple[str, ...],
) -> int:
    """Train in several processes that learn one policy, as torchrun does: rlcore run CONFIG in each rank.

    Rank 0 runs on this machine and writes the run directory. Ctrl-C saves a checkpoint and ends all ranks, as do
    SIGTERM, and SIGUSR1, SIGUSR2 and SIGXCPU, which batch systems send.
    """
    from rlcore_workers.ray.ranks import RankJob

    with connected(address, count, cpus, resources):
        job = RankJob(count, reserved(cpus, gpus, resources), wait, max_restarts)
        return ended(job.run(["run", *arguments]), address)


@ray_command.command("actors", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@placement("actor")
@click.option(
    "--max-restarts",
    default=10,
    show_default=True,
    type=click.IntRange(0),
    help="How often each actor is started again after it or its host was lost.",
)
@click.argument("arguments", nargs=-1, required=True, type=click.UNPROCESSED, metavar="HOST:PORT [OPTIONS OF ACTOR]...")
def actors_command(
    count: int,
    address: str | None,
    cpus: float,
    gpus: int,
    resources: dict[str, float],
    max_restarts: int,
    arguments: tuple[str, ...],
) -> int:
    """Play for the run at HOST:PORT on the hosts of a cluster: rlcore actor HOST:PORT in each place.

    Needs rlcore-actors on every host. The command ends with the run. Ctrl-C ends the actors, and the run continues.
    """
    from rlcore_workers.ray.playing import PlayingJob

    with connected(address, count, cpus, resources):
        return ended(PlayingJob(count, reserved(cpus, gpus, resources), max_restarts).run(arguments), address)
