"""V-trace: value targets and advantages of transitions that an earlier policy chose (Espeholt et al. 2018).

Shapes: T rows, S slots.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["vtrace"]

Values = NDArray[np.float32]
Flags = NDArray[np.bool_]


def vtrace(
    reward: Values,  # [T, S]
    value: Values,  # [T, S] of the observation acted on
    next_value: Values,  # [T, S] the value of what follows
    carry: Flags,  # [T, S] False where the trajectory ends or is cut after this row
    ratio: Values,  # [T, S] probability of the action now, over that with which it was drawn
    gamma: float,
    lambd: float = 1.0,
    terminated: Flags | None = None,  # [T, S] where nothing follows; None: nowhere
    rho_bar: float = 1.0,
    c_bar: float = 1.0,
) -> tuple[Values, Values]:
    """Return the value targets v [T, S] and the advantages of the policy gradient [T, S], without their weight rho.

    v_t = V_t + delta_t + gamma c_t (v_{t+1} - V_{t+1}), delta_t = rho_t (r_t + gamma V_{t+1} - V_t),
    rho_t = min(rho_bar, ratio_t) and c_t = lambda min(c_bar, ratio_t) are remark 1 and 2 of section 4.1 of Espeholt et
    al. 2018 (arXiv:1802.01561), and equal to eq. 1 there. The advantage is r_t + gamma v_{t+1} - V_t (section 4.2); the
    loss has the ratio. After the last row of a trajectory, v_{t+1} is V_{t+1}.

    The recursion is written so that nothing but the reward and the discounted v_{t+1} is added where all weights are 1:
    with transitions of the current policy and ``lambd`` 1, the targets are n-step returns, bit for bit.

    ``next_value`` is ignored after a termination, the value of the final observation after a truncation, else the value
    of the next row. All are arrays [T, S] of float32. Raises ValueError if ``rho_bar`` is below ``c_bar``, for which
    V-trace is not defined.
    """
    if rho_bar < c_bar:
        raise ValueError(f"rho_bar {rho_bar:g} is below c_bar {c_bar:g}")
    discount = np.float32(gamma)
    bootstrap = next_value if terminated is None else np.where(terminated, np.float32(0.0), next_value)
    rho = np.minimum(ratio, np.float32(rho_bar))
    c = np.minimum(ratio, np.float32(c_bar)) * np.float32(lambd)
    target = np.empty_like(value)
    following = np.empty_like(value)  # v_{t+1}
    for t in range(len(value) - 1, -1, -1):
        following[t] = bootstrap[t]
        if t + 1 < len(value):
            following[t] = np.where(carry[t], target[t + 1], bootstrap[t])
        mixed = (rho[t] - c[t]) * bootstrap[t] + c[t] * following[t]
        target[t] = (np.float32(1.0) - rho[t]) * value[t] + (rho[t] * reward[t] + discount * mixed)
    advantage = reward + discount * following - value
    return target, advantage
