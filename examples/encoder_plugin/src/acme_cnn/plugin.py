"""The hook that announces the encoder. Imported whenever rlcore starts, so torch is imported with the target."""

from __future__ import annotations

from rlcore import hookimpl
from rlcore_torch import EncoderSpec


@hookimpl
def rlcore_encoders() -> list[EncoderSpec]:
    return [
        EncoderSpec(
            name="pooled_cnn",
            target="acme_cnn.encoder:PooledCNN",
            settings="acme_cnn.settings:PooledCNNSettings",
            kinds={"image"},
            summary="convolutions of 3x3, each followed by pooling, for images of any size",
        )
    ]
