"""Makes the tensor environments that a configuration or a program names."""

from __future__ import annotations

from typing import cast

import attrs

from rlcore import Environment, EnvironmentSettings, RunContext, setting
from rlcore_torch.backend import chosen_device
from rlcore_torch.tensors.as_numpy import AsNumpy, UnsavedAsNumpy
from rlcore_torch.tensors.cartpole import TorchCartPole
from rlcore_torch.tensors.environment import TensorEnvironment
from rlcore_torch.tensors.rsl_rl import RslRlTensors

__all__ = ["CartPoleSettings", "adapt", "make_cart_pole"]


@attrs.frozen(kw_only=True)
class CartPoleSettings:
    """The options of ``torch-cartpole``."""

    max_steps: int = setting(500, "Steps after which an episode is truncated.", minimum=1)


def make_cart_pole(settings: EnvironmentSettings, run: RunContext) -> Environment:
    """Make the cart-poles of a run, on the device of ``torch_settings``."""
    name = run.behavior_names[0]
    device = chosen_device(run)
    cart_poles = TorchCartPole(run.num_envs, device, name, settings.options.max_steps)
    return cast(Environment, AsNumpy(cart_poles, "environment torch-cartpole"))


def adapt(made: object, settings: EnvironmentSettings, run: RunContext) -> Environment | None:
    """Return the environment of a run for a tensor environment that a program made; None for another object."""
    named = f"environment {type(made).__name__}"
    if isinstance(made, RslRlTensors):
        return cast(Environment, UnsavedAsNumpy(made, f"environment {type(made.env).__name__}"))
    if isinstance(made, TensorEnvironment):
        return cast(Environment, AsNumpy(made, named))
    return None
