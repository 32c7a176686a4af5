"""The settings class of the encoder, whose fields are the keys of ``network_settings.vis_encode_settings``."""

from __future__ import annotations

import attrs

from rlcore import setting


@attrs.frozen(kw_only=True)
class PooledCNNSettings:
    """Settings of the encoder ``pooled_cnn``."""

    channels: tuple[int, ...] = setting((16, 32), "Channels of each convolution.", minimum=1)
    grid: int = setting(4, "Rows and columns of the features that are left.", minimum=1)
