"""Creates the environment of a run from ``environment: {type: unity, executable: ...}``."""

from __future__ import annotations

from math import inf
from pathlib import Path

from rlcore import RunContext, StashKey
from rlcore_unity.environment import UnityEnvironment
from rlcore_unity.executable import find_player
from rlcore_unity.hookspecs import SideChannelSpec
from rlcore_unity.player import Launch
from rlcore_unity.settings import EDITOR_PORT, UnitySettings
from rlcore_workers import remove_logs

MEGABYTE = 1 << 20
LARGEST_SEED = 2**31 - 1

TRAINED_IN: StashKey[UnityEnvironment] = StashKey()
"""The environment in which a run trains, if it is in the process of the run."""


def make_environment(settings: UnitySettings, run: RunContext) -> UnityEnvironment:
    """Start ``run.num_envs`` players, and return them as an environment.

    Raises :class:`~rlcore.ConfigError` for an executable or a port that cannot be used, and
    :class:`~rlcore.EnvironmentFailed` for a player that cannot be started.
    """
    side_channels = [
        run.plugins.create(run.plugins.record(SideChannelSpec, name), run=run) for name in settings.side_channels
    ]
    launch = _launch(settings, run)
    try:
        environment = UnityEnvironment(
            settings, launch, run.config.env_settings, run.num_envs, run.behavior_names, side_channels
        )
    except BaseException:
        if settings.log_folder is None:
            remove_logs(path for number in range(run.num_envs) for path in _written(launch.logs(number)))
        raise
    if run.purpose == "train":
        run.stash[TRAINED_IN] = environment
    return environment


def _launch(settings: UnitySettings, run: RunContext) -> Launch:
    first = run.first_env
    waits = run.config.env_settings.timeout_wait
    seed = run.seed if settings.seed is None else settings.seed
    folder = run.directory / "run_logs" if settings.log_folder is None else run.absolute(settings.log_folder)
    evaluates = "evaluation-" if run.purpose == "evaluate" else ""
    if settings.log_folder is None and not run.inference:
        run.own_files("run_logs/Player-*.log", "run_logs/evaluation-Player-*.log")

    def port(number: int) -> int:
        if settings.base_port is not None:
            return settings.base_port + first + number
        return EDITOR_PORT if settings.executable is None else 0

    command = None
    if settings.executable is not None:
        player = find_player(run.absolute(settings.executable))

        def command(number: int, port: int, log: Path) -> list[str]:
            hidden = settings.no_graphics or (settings.no_graphics_monitor and first + number > 0)
            graphics = ["-nographics", "-batchmode"] if hidden else []
            return [str(player), *graphics, "--mlagents-port", str(port), "-logFile", str(log), *settings.args]

    return Launch(
        command=command,
        folder=run.working_directory,
        logs=lambda number: folder / f"{evaluates}Player-{first + number}.log",
        address=settings.address,
        port=port,
        seed=lambda number: (seed + first + number) % LARGEST_SEED,
        announced_version=settings.announced_version,
        num_areas=settings.num_areas,
        largest=settings.max_message_mb * MEGABYTE,
        start_seconds=inf if waits == 0 else float(waits),
        step_seconds=inf if settings.timeout is None else settings.timeout,
        end_seconds=inf if waits == 0 else float(waits),
        stop_requested=lambda: run.stop_requested,
    )


def _written(log: Path) -> list[Path]:
    """What the player of a log has written: the log, and what came before it."""
    return list(log.parent.glob(f"{log.stem}[.-]*"))
