"""Image encoders by ML-Agents' names. Images arrive as [B, height, width, channels], uint8 (0 to 255) or float."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from rlcore.environment import ObservationSpec
from rlcore.errors import UnsupportedSpace

# The smallest height and width each encoder can take, as ML-Agents documents them.
MINIMUM_SIZE = {"simple": 20, "nature_cnn": 36, "resnet": 15, "match3": 5, "fully_connected": 1}


class ResidualBlock(nn.Module):
    """Two 3x3 convolutions around which the input is added (Espeholt et al. 2018, IMPALA, arXiv:1802.01561)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.ReLU(),
            nn.Conv2d(channels, channels, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(channels, channels, 3, padding=1),
        )

    def forward(self, x: Tensor) -> Tensor:
        return x + self.layers(x)  # type: ignore[no-any-return]


def convolutions(kind: str, channels: int) -> nn.Module:
    """The part of an encoder before its flat layer."""
    if kind == "simple":
        return nn.Sequential(
            nn.Conv2d(channels, 16, 8, 4), nn.LeakyReLU(), nn.Conv2d(16, 32, 4, 2), nn.LeakyReLU(), nn.Flatten()
        )
    if kind == "nature_cnn":  # Mnih et al. 2015, doi:10.1038/nature14236
        return nn.Sequential(
            nn.Conv2d(channels, 32, 8, 4), nn.LeakyReLU(), nn.Conv2d(32, 64, 4, 2), nn.LeakyReLU(),
            nn.Conv2d(64, 64, 3, 1), nn.LeakyReLU(), nn.Flatten(),
        )  # fmt: skip
    if kind == "match3":
        return nn.Sequential(
            nn.Conv2d(channels, 35, 3, 1), nn.LeakyReLU(), nn.Conv2d(35, 144, 3, 1), nn.LeakyReLU(), nn.Flatten()
        )
    if kind == "resnet":
        layers: list[nn.Module] = []
        for width in (16, 32, 32):
            layers += [nn.Conv2d(channels, width, 3, padding=1), nn.MaxPool2d(3, 2), ResidualBlock(width)]
            layers.append(ResidualBlock(width))
            channels = width
        return nn.Sequential(*layers, nn.ReLU(), nn.Flatten())
    return nn.Flatten()


class ImageEncoder(nn.Module):
    """One image observation to ``features`` values."""

    def __init__(self, kind: str, observation: ObservationSpec, features: int) -> None:
        super().__init__()
        height, width, channels = observation.shape
        self.scale = 1.0 / 255.0 if observation.dtype.kind == "u" else 1.0
        self.convolutions = convolutions(kind, channels)
        with torch.no_grad():
            flat = self.convolutions(torch.zeros(1, channels, height, width)).shape[1]
        self.dense = nn.Sequential(nn.Linear(flat, features), nn.LeakyReLU())

    def forward(self, image: Tensor) -> Tensor:
        x = image.permute(0, 3, 1, 2).to(torch.float32) * self.scale
        return self.dense(self.convolutions(x))  # type: ignore[no-any-return]


def image_encoder(kind: str, observation: ObservationSpec, features: int) -> ImageEncoder:
    """The encoder ``kind`` for one image; refuses images it is too large for."""
    smallest, pixels = MINIMUM_SIZE[kind], min(observation.shape[:2])
    if pixels < smallest:
        fit = [other for other, needed in MINIMUM_SIZE.items() if needed <= pixels]
        raise UnsupportedSpace(
            f"observation {observation.name!r} of shape {observation.shape}: encoder {kind!r} needs at least "
            f"{smallest}x{smallest} pixels; set network_settings.vis_encode_type to {' or '.join(fit)}"
        )
    return ImageEncoder(kind, observation, features)
