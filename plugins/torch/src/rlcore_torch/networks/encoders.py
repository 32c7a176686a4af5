"""Encoders of observations: ML-Agents' encoders of images by their names, and those that plugins register.

An encoder is a module from [B, channels, height, width] or [B, size] in float32 to features [B, any number], as
:class:`rlcore_torch.EncoderSpec` describes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from rlcore import ObservationSpec, PluginError, UnsupportedSpace, blamed
from rlcore_torch.networks.image_sizes import MINIMUM_SIZE, encoder_by_size
from rlcore_torch.networks.settings import ImpalaSettings, NetworkSettings

# Channels, kernel size and stride of each convolution, as in ML-Agents.
CONVOLUTIONS = {
    "simple": [(16, 8, 4), (32, 4, 2)],
    "nature_cnn": [(32, 8, 4), (64, 4, 2), (64, 3, 1)],  # Mnih et al. 2015, doi:10.1038/nature14236
    "match3": [(35, 3, 1), (144, 3, 1)],
}
RESNET = (16, 32, 32)  # channels of each stage of ML-Agents' resnet


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
        """Return ``x`` [B, channels, height, width] plus what both convolutions make of it."""
        return x + self.layers(x)  # type: ignore[no-any-return]


def leaky() -> nn.Module:
    """A leaky ReLU that writes into its input, which no convolution or linear layer before it needs again."""
    return nn.LeakyReLU(inplace=True)


def convolutions(kind: str, channels: int) -> nn.Module:
    """The part of an encoder before its flat layer."""
    if kind == "fully_connected":
        return nn.Flatten()
    layers: list[nn.Module] = []
    if kind == "resnet":
        for width in RESNET:
            layers.append(nn.Conv2d(channels, width, 3, padding=1))
            layers.append(nn.MaxPool2d(3, 2))
            layers += [ResidualBlock(width), ResidualBlock(width)]
            channels = width
        layers.append(nn.ReLU())
    else:
        for width, kernel, stride in CONVOLUTIONS[kind]:
            layers += [nn.Conv2d(channels, width, kernel, stride), leaky()]
            channels = width
    return nn.Sequential(*layers, nn.Flatten())


class ImageEncoder(nn.Module):
    """Encode one image observation as ``features`` numbers: the ``vis_encode_type`` called ``kind``, of ML-Agents."""

    def __init__(self, kind: str, observation: ObservationSpec, features: int) -> None:
        super().__init__()
        height, width, channels = observation.shape
        self.convolutions = convolutions(kind, channels)
        zeros = torch.zeros(1, channels, height, width)
        with torch.no_grad():
            _, flat = self.convolutions(zeros).shape
        self.dense = nn.Sequential(nn.Linear(flat, features), leaky())

    def forward(self, image: Tensor) -> Tensor:
        """Return the features [B, features] of ``image`` [B, channels, height, width]."""
        return self.dense(self.convolutions(image))  # type: ignore[no-any-return]


class ImpalaEncoder(nn.Module):
    """The deep network of IMPALA (Espeholt et al. 2018, arXiv:1802.01561, figure 3): three stages, then a flat layer.

    Attributes:
        convolutions: The stages: each a convolution, a pooling that halves the image, and two residual blocks.
        dense: The layer after them.
    """

    def __init__(self, settings: ImpalaSettings, observation: ObservationSpec) -> None:
        super().__init__()
        height, width, channels = observation.shape
        layers: list[nn.Module] = []
        for of_stage in settings.channels:
            layers.append(nn.Conv2d(channels, of_stage, 3, padding=1))
            layers.append(nn.MaxPool2d(3, 2, padding=1))
            layers += [ResidualBlock(of_stage), ResidualBlock(of_stage)]
            channels = of_stage
            # Padded, so that pooling rounds a half up: an image of one pixel keeps it.
            height = (height + 1) // 2
            width = (width + 1) // 2
        self.convolutions = nn.Sequential(*layers, nn.Flatten(), nn.ReLU())
        flat = nn.Linear(channels * height * width, settings.features)
        self.dense = nn.Sequential(flat, nn.ReLU())

    def forward(self, image: Tensor) -> Tensor:
        """Return the features [B, features] of ``image`` [B, channels, height, width]."""
        return self.dense(self.convolutions(image))  # type: ignore[no-any-return]


def impala(settings: ImpalaSettings | None, observation: ObservationSpec, features: int) -> ImpalaEncoder:
    """The encoder ``impala`` for one image. Its own settings, not ``features``, have its number of features."""
    require_size("impala", observation)
    return ImpalaEncoder(settings or ImpalaSettings(), observation)


def require_size(kind: str, observation: ObservationSpec) -> None:
    """Raise UnsupportedSpace for an image that is too small for the encoder ``kind``; the message names others."""
    smallest = MINIMUM_SIZE[kind]
    pixels = min(observation.shape[:2])
    if pixels < smallest:
        fit = [other for other, needed in MINIMUM_SIZE.items() if needed <= pixels]
        flat = f"environment.observations: {{{observation.name}: {{flatten: true}}}}"
        raise UnsupportedSpace(
            f"observation {observation.name!r} of shape {observation.shape}: encoder {kind!r} needs at least "
            f"{smallest}x{smallest} pixels; set network_settings.vis_encode_type to {' or '.join(fit)}, or make a "
            f"vector of it (environments of Gymnasium: {flat})"
        )


def image_encoder(kind: str, settings: None, observation: ObservationSpec, features: int) -> ImageEncoder:
    """The encoder ``kind`` for one image; refuses images it is too large for. It has no settings."""
    require_size(kind, observation)
    return ImageEncoder(kind, observation, features)


def auto(settings: None, observation: ObservationSpec, features: int) -> ImageEncoder:
    """The encoder for one image of any size. Only the size decides, so a resumed or exported run has the same one."""
    kind = encoder_by_size(observation.shape)
    return ImageEncoder(kind, observation, features)


simple = partial(image_encoder, "simple")  # the targets of rlcore's own records
nature_cnn = partial(image_encoder, "nature_cnn")
resnet = partial(image_encoder, "resnet")
match3 = partial(image_encoder, "match3")
fully_connected = partial(image_encoder, "fully_connected")
BUILT_IN: dict[str, Callable[..., nn.Module]] = {
    "auto": auto,
    "simple": simple,
    "nature_cnn": nature_cnn,
    "resnet": resnet,
    "match3": match3,
    "fully_connected": fully_connected,
    "impala": impala,
}


def image_scale(observation: ObservationSpec) -> float | Tensor:
    """The factor on the values of an image: 1 / ``full_scale``, such as 1/255 for bytes.

    A number if all channels have the same factor, else a tensor [channels].
    """
    full_scale = observation.full_scale  # [channels]
    first = full_scale[0]
    if (full_scale == first).all():
        return 1.0 / float(first)
    return torch.from_numpy(1.0 / full_scale)


def make_encoder(settings: NetworkSettings, observation: ObservationSpec) -> tuple[nn.Module, int]:
    """The encoder that ``settings`` names for ``observation``, and the number of its features.

    Raises PluginError, which names the record and its plugin, if the encoder is not as :class:`EncoderSpec` describes;
    ConfigError if ``settings`` names an encoder that was not found when the configuration was loaded.
    """
    if observation.kind == "image":
        make, described = settings.target("vis_encode_type", BUILT_IN)
        encoder_settings = settings.vis_encode_settings
    else:
        make, described = settings.target("vector_encode_type", {})
        encoder_settings = settings.vector_encode_settings
    with blamed(described, f"for observation {observation.name!r} of shape {observation.shape}"):
        encoder = make(settings=encoder_settings, observation=observation, features=settings.hidden_units)
        if not isinstance(encoder, nn.Module):
            raise PluginError(f"{described}: returned a {type(encoder).__name__}, not a torch.nn.Module")
        output = _output(encoder, observation)
    form = type(output).__name__
    if isinstance(output, Tensor):
        if output.ndim == 2 and len(output) == _ROWS and output.is_floating_point():
            return encoder, output.shape[1]
        form = f"{output.dtype} {list(output.shape)}"
    raise PluginError(
        f"{described}: made {form} of {_ROWS} rows of observation {observation.name!r}, not numbers [{_ROWS}, features]"
    )


_ROWS = 2  # of the batch that an encoder is tried with


@torch.no_grad()
def _output(encoder: nn.Module, observation: ObservationSpec) -> Any:
    """What the encoder makes of zeros, without a trace in running statistics."""
    zeros = torch.zeros(_ROWS, observation.size)
    if observation.kind == "image":
        height, width, channels = observation.shape
        zeros = zeros.view(_ROWS, channels, height, width)
    encoder.eval()
    output = encoder(zeros)
    encoder.train()
    return output
