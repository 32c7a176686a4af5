"""TQC's ``hyperparameters``. Defaults are those of the paper (Kuznetsov et al. 2020, arXiv:2005.04269)."""

from __future__ import annotations

import attrs

from rlcore import SettingError, setting
from rlcore_torch import OffPolicySettings


@attrs.frozen(kw_only=True)
class TQCSettings(OffPolicySettings):
    """Hyperparameters of TQC."""

    tau: float = setting(
        0.005, "Share of the critics that enters the target critics in a gradient step.", exclusive_minimum=0.0
    )
    num_critics: int = setting(5, "Critics, N in the paper.", minimum=1)
    num_quantiles: int = setting(25, "Quantiles of each critic, M in the paper.", minimum=1)
    dropped_quantiles: int = setting(2, "Largest quantiles that targets leave out, for each critic.", minimum=0)
    target_entropy: float = setting(-1.0, "Target entropy, in nats for each part of an action.")

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        if self.dropped_quantiles >= self.num_quantiles:
            problem = f"must be below num_quantiles ({self.num_quantiles}), not {self.dropped_quantiles}"
            raise SettingError("dropped_quantiles", problem, others=("num_quantiles",))
