"""Environments of rlcore-jax without a run; JAX is imported when one is made."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import SimpleNamespace
from typing import Any

from rlcore import Environment, EnvironmentSettings
from rlcore_torch import AsNumpy

PGX = "games", "PgxSettings"  # modules of rlcore_jax, and their settings
PLAYGROUND = "playground", "PlaygroundSettings"


def make(
    source: tuple[str, str],
    name: str | None,
    copies: int = 2,
    parameters: Mapping[str, Any] | None = None,
    /,
    **options: Any,
) -> Environment:
    """Create the environment of a run with one behavior: ``make(PGX, "connect_four", 2, max_episode_steps=9)``."""
    module, settings = source
    chosen = getattr(import_module("rlcore_jax.settings"), settings)(**options)
    config = SimpleNamespace(environment_parameters=dict(parameters or {}))
    run = SimpleNamespace(behavior_names=("Agent",), num_envs=copies, config=config)
    make_environment = import_module(f"rlcore_jax.{module}").make_environment
    environment: Environment = make_environment(EnvironmentSettings(id=name, options=chosen), run)
    return environment


def playing(simulator: Any, *program: Any) -> Any:
    """Return the environments of a compiled program, or of a simulator that :class:`Program` gets with the rest."""
    from rlcore_jax.program import Program
    from rlcore_jax.tensors import JaxTensors

    compiled = simulator if isinstance(simulator, Program) else Program(simulator, *program)
    return AsNumpy(JaxTensors(compiled, "Agent"))
