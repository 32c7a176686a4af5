"""The block ``replay_sampler`` of hindsight experience replay."""

from __future__ import annotations

import attrs

from rlcore import SettingError, setting
from rlcore_torch import ReplaySamplerSettings

__all__ = ["HindsightSettings"]


@attrs.frozen(kw_only=True)
class HindsightSettings(ReplaySamplerSettings):
    """Hindsight experience replay (Andrychowicz et al. 2017, arXiv:1707.01495)."""

    strategy: str = setting(
        "future",
        "Which goal of its episode a transition gets: one that was reached with it or later (future), the last one "
        "(final), or any (episode).",
        choices=("future", "final", "episode"),
    )
    relabeled: float = setting(
        0.8,
        "Share of a minibatch that gets such a goal. k of them for each transition with its own goal are a share of "
        "k / (k + 1); the paper has k = 4.",
        minimum=0.0,
        maximum=1.0,
    )
    tolerance: float | None = setting(
        None,
        "Distance within which a goal counts as reached: the reward is then 0, and -1 elsewhere. Without it, the "
        "environment's own compute_reward and compute_terminated give the rewards and ends of other goals.",
        minimum=0.0,
    )
    ends_at_goal: bool = setting(False, "Whether an episode ends at its goal; only with tolerance.")

    def __attrs_post_init__(self) -> None:
        if self.ends_at_goal and self.tolerance is None:
            problem = "needs tolerance; the environment's compute_terminated says it otherwise"
            raise SettingError("ends_at_goal", problem, others=("tolerance",))
