"""``environment_parameters.NAME.curriculum`` of type ``learning_progress``."""

from __future__ import annotations

import attrs

from rlcore.settings import SettingError, setting
from rlcore_curriculum.adaptive_settings import RangeSettings


@attrs.frozen(kw_only=True)
class LearningProgressSettings(RangeSettings):
    """Values of a parameter where the agent's measure changes."""

    type: str = setting("learning_progress", "Which curriculum.")
    bins: int = setting(10, "Regions of equal width that the limits are divided into.", minimum=2, maximum=100_000)
    window: int = setting(
        40,
        "Latest episodes of a region that are compared, the newer half with the older one.",
        minimum=4,
        maximum=1_000_000,
    )
    random_share: float = setting(
        0.2, "Share of episodes that are drawn from all regions alike.", exclusive_minimum=0.0, maximum=1.0
    )
    refresh: int = setting(20, "Episodes after which the regions' shares are computed anew.", minimum=1)

    def __attrs_post_init__(self) -> None:
        RangeSettings.__attrs_post_init__(self)
        values = self.limits[1] - self.limits[0] + 1
        if self.integer and self.bins > values:
            problem = f"must be at most {values:g}, the number of whole values, not {self.bins}"
            raise SettingError("bins", problem, others=("limits", "integer"))
