"""The encoder ``layer_norm_cnn``: convolutions with LayerNorm before each ReLU, which PQN learns stably with."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from rlcore import ObservationSpec

__all__ = ["LayerNormCNN", "layer_norm_cnn"]

# By the smallest height and width of an image: channels, kernel size and stride of each convolution.
BY_SIZE = (
    (36, ((32, 8, 4), (64, 4, 2), (64, 3, 1))),  # Mnih et al. 2015, doi:10.1038/nature14236
    (20, ((16, 8, 4), (32, 4, 2))),  # ML-Agents' simple
    (3, ((16, 3, 1),)),  # MinAtar (Young and Tian 2019, arXiv:1903.03176)
    (1, ()),
)


class LayerNormCNN(nn.Module):
    """Encode one image as ``features`` numbers. Each layer is normalized over all of its numbers, then a ReLU."""

    def __init__(self, observation: ObservationSpec, features: int) -> None:
        super().__init__()
        height, width, channels = observation.shape
        pixels = min(height, width)
        convolutions = next(layers for smallest, layers in BY_SIZE if pixels >= smallest)
        x = torch.zeros(1, channels, height, width)
        layers: list[nn.Module] = []
        for outputs, kernel, stride in convolutions:
            convolution = nn.Conv2d(x.shape[1], outputs, kernel, stride)
            with torch.no_grad():
                x = convolution(x)
            layers += [convolution, nn.LayerNorm(x.shape[1:]), nn.ReLU(inplace=True)]
        layers += [nn.Flatten(), nn.Linear(x.numel(), features), nn.LayerNorm(features), nn.ReLU(inplace=True)]
        self.layers = nn.Sequential(*layers)

    def forward(self, image: Tensor) -> Tensor:
        """Return the features [B, features] of ``image`` [B, channels, height, width]."""
        return self.layers(image)  # type: ignore[no-any-return]


def layer_norm_cnn(settings: None, observation: ObservationSpec, features: int) -> LayerNormCNN:
    """The encoder for one image of any size. It has no settings."""
    return LayerNormCNN(observation, features)
