"""``rlcore watch``: shows the agents of a run in a window of the environment."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import click

from rlcore import ConfigError, EnvironmentFailed, EnvironmentSpec, SavedRun, echo
from rlcore_gymnasium.plugin import HUMAN

if TYPE_CHECKING:
    from rlcore import EvaluationResult, RunConfig


@click.command("watch")
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--episodes", type=click.IntRange(min=1), default=5, show_default=True, help="Episodes to show.")
@click.option("--seed", type=click.IntRange(min=0), help="Seed of the episodes; without it, the run's.")
@click.option("--stochastic", is_flag=True, help="Sample actions as training does, instead of the most likely ones.")
@click.option("--checkpoint", metavar="best|last|STEP", default="last", show_default=True, help="Policies that act.")
@click.option("--allow-local", is_flag=True, envvar="RLCORE_ALLOW_LOCAL", help="Import files that the run names.")
@click.option("--debug", is_flag=True, expose_value=False, help="Show tracebacks.")
def watch_command(
    run: Path, episodes: int, seed: int | None, stochastic: bool, checkpoint: str, allow_local: bool
) -> None:
    """Show the agents of RUN (a run directory, the id of a run in results/, or zoo:NAME) in a window.

    The episodes are those that rlcore evaluate plays with the same seed, in one environment. Ctrl-C ends them. Without
    a display, rlcore evaluate --video films them.
    """
    saved = SavedRun.open(run, checkpoint, allow_local)
    spec = environment_of(saved)
    films = f"; rlcore evaluate {run} --video DIR films the episodes, which needs no window" if spec.video else ""
    if not spec.window:
        raise ConfigError(f"environments of type {spec.name!r} cannot be shown in a window{films}")
    if not has_display():
        raise EnvironmentFailed(f"there is no display to open a window on (DISPLAY is not set){films}")
    saved.config = in_a_window(saved.config, spec.window)

    def show(result: EvaluationResult) -> None:
        for name, behavior in result.behaviors.items():
            count = "episode" if behavior.episodes == 1 else "episodes"
            echo(f"{name}: mean reward {behavior.mean_reward:.2f} of {behavior.episodes} {count}")

    try:
        saved.evaluate(episodes, seed, not stochastic, before_close=show)
    except EnvironmentFailed as error:  # most often the window cannot be opened
        raise EnvironmentFailed(f"{error}{films}") from error


def has_display() -> bool:
    """Whether a window may be opened; systems other than Linux say so only when one is."""
    return not sys.platform.startswith("linux") or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def environment_of(saved: SavedRun) -> EnvironmentSpec:
    """The type of the environment that evaluations of a run play in. Raises ConfigError without one."""
    settings = saved.config.evaluation_environment
    if settings is None:
        raise ConfigError("the run has no environment, so there is nothing to show", key=("environment",))
    return saved.plugins.record(EnvironmentSpec, settings.type)


def in_a_window(config: RunConfig, key: str) -> RunConfig:
    """The configuration with one environment for evaluations, whose ``key`` opens a window."""
    settings = config.evaluation_environment
    assert settings is not None, "or it would have no key"
    settings = attrs.evolve(_with_value(settings, key.split("."), HUMAN), num_envs=1)
    if config.evaluation is not None:
        return attrs.evolve(config, evaluation=attrs.evolve(config.evaluation, environment=settings))
    return attrs.evolve(config, environment=settings)


def _with_value(block: Any, path: list[str], value: str) -> Any:
    """A settings object, or a mapping, with another value at ``path``."""
    name, *below = path
    if block is None or isinstance(block, Mapping):
        mapping = dict(block or {})
        mapping[name] = _with_value(mapping.get(name), below, value) if below else value
        return mapping
    return attrs.evolve(block, **{name: _with_value(getattr(block, name), below, value) if below else value})
