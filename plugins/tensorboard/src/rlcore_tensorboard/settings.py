"""The ``stats.tensorboard`` block. Imports neither TensorBoard nor numpy: it is read to check a configuration."""

from __future__ import annotations

import attrs

from rlcore.settings import setting


@attrs.frozen(kw_only=True)
class TensorBoardSettings:
    """TensorBoard event files."""

    histograms: bool = setting(True, "Write the distribution of returns too, as 'Environment/Cumulative Reward_hist'.")
