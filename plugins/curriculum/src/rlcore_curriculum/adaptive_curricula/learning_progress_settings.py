"""``environment_parameters.NAME.curriculum`` of type ``learning_progress``."""

from __future__ import annotations

import attrs

from rlcore import SettingError, setting
from rlcore_curriculum.adaptive_curricula.adaptive_settings import RangeSettings


@attrs.frozen(kw_only=True)
class LearningProgressSettings(RangeSettings):
    """Prefers values of a parameter at which the agent's measure changes."""

    type: str = setting("learning_progress", "The kind of curriculum.", foreign=True)
    bins: int = setting(10, "Number of regions of equal width within the limits.", minimum=2, maximum=100_000)
    window: int = setting(
        40,
        "Number of latest episodes of a region; their newer half is compared with the older half.",
        minimum=4,
        maximum=1_000_000,
    )
    random_share: float = setting(
        0.2, "Share of episodes that use all regions equally.", exclusive_minimum=0.0, maximum=1.0
    )
    refresh: int = setting(20, "Episodes between two computations of the regions' shares.", minimum=1)

    def __attrs_post_init__(self) -> None:
        RangeSettings.__attrs_post_init__(self)
        values = self.limits[1] - self.limits[0] + 1
        if self.integer and self.bins > values:
            problem = f"must be at most {values:g}, the number of whole values, not {self.bins}"
            raise SettingError("bins", problem, others=("limits", "integer"))
