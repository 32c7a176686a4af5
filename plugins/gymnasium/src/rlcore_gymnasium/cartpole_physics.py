"""What CartPole's dynamics are made of, in its single and its vectorised form.

Upstream computes two numbers from others once, in the constructor. Whoever sets ``length`` or a mass later has to do it
again, or the equations of motion mix the new pole with the old one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gymnasium.envs.classic_control.cartpole import CartPoleEnv, CartPoleVectorEnv

PARAMETERS = ("gravity", "masscart", "masspole", "length", "force_mag", "tau")
DERIVED = ("total_mass", "polemass_length")


def derived_names(env: Any) -> Sequence[str]:
    """Attributes that follow from others, and are not for anybody to set."""
    return DERIVED if type(env) in (CartPoleEnv, CartPoleVectorEnv) else ()


def derive(env: Any) -> None:
    """Computes them again, from numbers or from arrays [N] of them. A class derived from CartPole has its own rules."""
    if derived_names(env):
        env.total_mass = env.masspole + env.masscart
        env.polemass_length = env.masspole * env.length
