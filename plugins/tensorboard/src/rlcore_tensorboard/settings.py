"""The ``stats.tensorboard`` block.

This module imports neither TensorBoard nor numpy: checking a configuration imports it.
"""

from __future__ import annotations

import attrs

from rlcore import setting


@attrs.frozen(kw_only=True)
class TensorBoardSettings:
    """Settings of TensorBoard event files."""

    histograms: bool = setting(True, "Also write the distribution of returns, as 'Environment/Cumulative Reward_hist'.")
