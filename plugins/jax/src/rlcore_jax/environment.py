"""A simulator as the environment of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlcore import refuse_unknown_parameters
from rlcore_jax.program import Program
from rlcore_jax.tensors import JaxTensors
from rlcore_torch import AsNumpy

if TYPE_CHECKING:
    from rlcore import RunContext
    from rlcore_jax.simulator import Simulator


def environment_of(
    simulator: Simulator, run: RunContext, max_episode_steps: int | None, reset_rows: int | None
) -> AsNumpy:
    """Return ``run.num_envs`` environments of ``simulator``, with the limits of :class:`~rlcore_jax.program.Program`.

    Raises :class:`~rlcore.ConfigError` for an environment parameter: simulators have none.
    """
    refuse_unknown_parameters(run.config.environment_parameters, (), simulator.name)
    (behavior,) = run.behavior_names  # the record says that there must be one
    program = Program(simulator, run.num_envs, max_episode_steps, reset_rows)
    return AsNumpy(JaxTensors(program, behavior), simulator.name)
