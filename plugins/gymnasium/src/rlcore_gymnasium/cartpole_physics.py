"""The numbers in CartPole's dynamics, for its single and its vectorized form.

Gymnasium computes two numbers from others once, in the constructor. When ``length`` or a mass changes later, they must
be computed again; otherwise the equations of motion mix the new pole with the old one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gymnasium.envs.classic_control.cartpole import CartPoleEnv, CartPoleVectorEnv

PARAMETERS = ("gravity", "masscart", "masspole", "length", "force_mag", "tau")
DERIVED = ("total_mass", "polemass_length")


def derived_names(env: Any) -> Sequence[str]:
    """Return the attributes that are computed from others and must not be set."""
    return DERIVED if type(env) in (CartPoleEnv, CartPoleVectorEnv) else ()


def derive(env: Any) -> None:
    """Compute the derived numbers again, from numbers or from arrays [N].

    Subclasses of CartPole have their own rules.
    """
    if derived_names(env):
        env.total_mass = env.masspole + env.masscart
        env.polemass_length = env.masspole * env.length
