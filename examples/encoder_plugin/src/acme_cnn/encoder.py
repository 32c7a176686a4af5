"""The encoder: a torch module from [B, channels, height, width], between 0 and 1, to [B, features]."""

from __future__ import annotations

from torch import Tensor, nn

from acme_cnn.settings import PooledCNNSettings
from rlcore import ObservationSpec


class PooledCNN(nn.Module):
    def __init__(self, settings: PooledCNNSettings, observation: ObservationSpec, features: int) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        _, _, before = observation.shape  # height, width, channels
        for channels in settings.channels:
            convolution = nn.Conv2d(before, channels, 3, padding=1)
            pooling = nn.MaxPool2d(2, ceil_mode=True)
            layers += [convolution, nn.ReLU(), pooling]
            before = channels
        # The same number of features for images of any size.
        layers += [nn.AdaptiveAvgPool2d(settings.grid), nn.Flatten()]
        layers += [nn.LazyLinear(features), nn.ReLU()]
        self.layers = nn.Sequential(*layers)

    def forward(self, image: Tensor) -> Tensor:
        encoded: Tensor = self.layers(image)
        return encoded
