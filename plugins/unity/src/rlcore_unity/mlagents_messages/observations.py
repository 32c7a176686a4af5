"""Observations in ML-Agents' messages: what an agent sees, and the array of one step.

Observations of three dimensions are images. Channels are last in rlcore, as in ML-Agents up to release 20; later
releases put them first, and then say so in ``dimension_properties``.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from rlcore_unity.mlagents_messages.messages import EQUIVARIANT, NONE, VARIABLE, ObservationType

OBSERVATION = "observation"  # the name of an only one
MAX_SIZE = 100_000_000  # numbers of one observation: a frame of 4,096 by 4,096 pixels has 50 million
IMAGE_RANK = 3
MAX_NAME = 200  # characters: messages show names
_PNG = b"\x89PNG\r\n\x1a\n"
_MODES = ("L", "RGB", "RGBA")


class DamagedObservation(ValueError):
    """An observation that does not fit its description; the message says how."""


@dataclass(frozen=True)
class Sensor:
    """One observation of each step.

    Attributes:
        place: Its place among the observations of a step.
        stored: The shape in messages.
        channels_first: Whether that shape is (channels, height, width).
        name: The name of the sensor, or ``observation``; different from those of the other sensors.
        shape: The shape of its array; that of an image is (height, width, channels).
        kind: What its numbers are: those of ``entities`` are rows, of which any number is there.
        goal: Whether it is the agent's goal.
        size: How many numbers its array has.
    """

    place: int
    stored: tuple[int, ...]
    channels_first: bool
    name: str
    shape: tuple[int, ...]
    kind: Literal["vector", "image", "entities"]
    goal: bool

    @cached_property
    def size(self) -> int:
        return prod(self.shape)

    def array(self, observation: Any) -> NDArray[np.float32]:
        """The values of one step, of :attr:`shape`, images in [0, 1]. Raises DamagedObservation."""
        if tuple(observation.shape) != self.stored:
            raise DamagedObservation(f"has shape {list(observation.shape)} instead of {list(self.stored)}")
        if observation.compression_type:
            return self._decoded(observation)
        values = np.array(observation.float_data.data, np.float32)
        if values.size != self.size:
            raise DamagedObservation(f"has {values.size} numbers where its shape {list(self.stored)} needs others")
        values = values.reshape(self.stored)
        if self.channels_first:
            values = np.moveaxis(values, 0, -1)
        return values

    def _decoded(self, observation: Any) -> NDArray[np.float32]:
        if observation.compression_type != 1 or self.kind != "image":
            raise DamagedObservation(f"is compressed in an unknown way ({observation.compression_type})")
        height, width, channels = self.shape
        planes = [_pixels(png, height, width) for png in _split(observation.compressed_data)]
        mapping = list(observation.compressed_channel_mapping)
        if mapping:
            return _mapped(np.concatenate(planes, axis=2), mapping, channels)
        # Without a mapping, as ML-Agents reads them: a gray image is the mean of three equal channels of its PNG file.
        if channels == 1:
            gray: NDArray[np.float32] = planes[0].mean(axis=2, keepdims=True)
            return gray
        stacked = np.concatenate(planes, axis=2)
        if stacked.shape[2] < channels:
            raise DamagedObservation(f"has {stacked.shape[2]} channels in its images instead of {channels}")
        return stacked[:, :, :channels]


def sensors_of(observations: Sequence[Any]) -> tuple[Sensor, ...]:
    """Return a sensor for each observation of a step that has values. Raises DamagedObservation.

    A single observation has the name that a single observation has everywhere in rlcore; several have the names of
    Unity's sensors, or numbers if these are missing or not different.
    """
    kept = [place for place, observation in enumerate(observations) if 0 not in observation.shape]
    names = [observations[place].name for place in kept]
    if len(kept) == 1:
        names = [OBSERVATION]
    elif not all(map(_is_name, names)) or len(set(names)) < len(names):
        names = [f"{OBSERVATION}_{number}" for number in range(len(kept))]
    sensors = [_sensor(place, name, observations[place]) for place, name in zip(kept, names, strict=True)]
    return tuple(sensors)


def _is_name(text: str) -> bool:
    return text.isprintable() and 0 < len(text) <= MAX_NAME


def _sensor(place: int, name: str, observation: Any) -> Sensor:
    stored = tuple(observation.shape)
    if any(length < 1 for length in stored) or prod(stored) > MAX_SIZE:
        raise DamagedObservation(f"has the shape {list(stored)}")
    properties = list(observation.dimension_properties)
    kind: Literal["vector", "image", "entities"] = "vector"
    if len(stored) == IMAGE_RANK:
        kind = "image"
    elif len(stored) == 2 and properties == [VARIABLE, NONE]:  # of Unity's BufferSensor
        kind = "entities"
    # Unity marks the axes along which a convolution moves; the axis that it does not mark has the channels.
    first = kind == "image" and properties == [NONE, EQUIVARIANT, EQUIVARIANT]
    shape = (*stored[1:], stored[0]) if first else stored
    goal = observation.observation_type == ObservationType.GOAL_SIGNAL and kind != "entities"
    return Sensor(place, stored, first, name, shape, kind, goal)


def _split(data: bytes) -> Iterator[bytes]:
    """The PNG files of which ``data`` consists: Unity has three channels in each."""
    before, *files = data.split(_PNG)
    if before or not files:
        raise DamagedObservation("is not a PNG image")
    return (_PNG + file for file in files)


def _pixels(png: bytes, height: int, width: int) -> NDArray[np.float32]:
    """The image in [0, 1], [height, width, channels]. Its size is compared before it is decompressed."""
    try:
        with Image.open(io.BytesIO(png), formats=["PNG"]) as image:
            if image.size != (width, height):
                size = f"{image.height} by {image.width}"
                raise DamagedObservation(f"has an image of {size} pixels instead of {height} by {width}")
            readable = image if image.mode in _MODES else image.convert("RGB")
            pixels = np.asarray(readable, np.float32) / np.float32(255)
    except (OSError, SyntaxError, Image.DecompressionBombError) as error:  # what Pillow raises for damaged images
        raise DamagedObservation(f"is a PNG image that cannot be read ({error})") from error
    return pixels[:, :, None] if pixels.ndim == 2 else pixels


def _mapped(stacked: NDArray[np.float32], mapping: Sequence[int], channels: int) -> NDArray[np.float32]:
    """Each channel is the mean of the stored ones that ``mapping`` gives it; -1 marks one that is padding."""
    if len(mapping) != stacked.shape[2] or set(mapping) - {-1} != set(range(channels)):
        raise DamagedObservation(f"maps {len(mapping)} channels of {stacked.shape[2]} to {channels}")
    targets = np.array(mapping)
    means = [stacked[:, :, targets == channel].mean(axis=2) for channel in range(channels)]
    return np.stack(means, axis=2)
