"""Images among the arrays of Gymnasium spaces: how their axes are read, and what their bounds say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from gym_play import Scripted, register
from gymnasium.spaces import Box, Discrete, Space

from rlcore import BehaviorSpec, ConfigError, Environment, ObservationSpec, SettingError, spec_mismatch
from rlcore_gymnasium.spaces import ObservationCodec, ObservationSettings


def observed(space: Space[Any], stack: int = 1, **said: Any) -> ObservationSpec:
    settings = {"observation": ObservationSettings(**said)} if said else None
    (spec,) = ObservationCodec.of(space, "Env-v0", settings, stack=stack).specs
    return spec


def per_channel(*high: int) -> Box:
    bounds = np.broadcast_to(np.array(high, np.uint8), (8, 6, len(high)))
    return Box(np.zeros_like(bounds), bounds, dtype=np.uint8)


@pytest.mark.parametrize(
    ("space", "full_scale"),
    [
        (Box(0, 255, (8, 6, 3), np.uint8), [255, 255, 255]),
        (Box(0, 1, (8, 6, 3), np.uint8), [1, 1, 1]),
        (Box(0, 10, (4, 8, 6), np.uint8), [10, 10, 10, 10]),
        (per_channel(10, 5, 2), [10, 5, 2]),
        (per_channel(255, 0), [255, 1]),  # nothing to scale
        (Box(0, np.full((2, 8, 6), [[[3]], [[7]]], np.uint8), dtype=np.uint8), [3, 7]),
        (Box(0.0, 255.0, (8, 6, 1)), [1]),  # real numbers are used as they are
    ],
    ids=["picture", "planes", "channels first", "of each", "unused", "of each, first", "real"],
)
def test_bytes_are_scaled_by_the_bounds_of_their_space(space: Box, full_scale: list[int]) -> None:
    assert observed(space).full_scale.tolist() == full_scale


def test_bytes_whose_bounds_say_nothing_have_none() -> None:
    """Checks of values and checkpoints have nothing to do with them."""
    spec = observed(Box(0, 255, (8, 6, 3), np.uint8))
    assert spec.low is None and spec.high is None


def test_an_image_of_another_span_is_another_observation() -> None:
    """A policy that learned from one would see the other 255 times too dark."""
    planes, picture = (BehaviorSpec("Agent", (observed(Box(0, high, (8, 6, 3), np.uint8)),)) for high in (1, 255))
    assert spec_mismatch(planes, planes) is None
    assert spec_mismatch(planes, picture) == "observation 'observation' has numbers up to 255 instead of 1"


# The shape and type of a space, how many frames FrameStackObservation stacks, and the shape of the image; None for a
# vector. Letters are the axes of the space in their order.
AXES = {
    "color": ((36, 40, 3), "u", 1, (36, 40, 3), "hwc"),
    "two frames": ((2, 36, 40), "u", 1, (36, 40, 2), "chw"),
    "many frames": ((20, 36, 40), "u", 1, (36, 40, 20), "chw"),
    "many channels": ((36, 40, 20), "u", 1, (36, 40, 20), "hwc"),
    "color frames": ((5, 36, 40, 3), "u", 1, (36, 40, 15), "fhwc"),
    "color frames, channels first": ((5, 3, 36, 40), "u", 1, (36, 40, 15), "fchw"),
    "gray frames with an axis": ((4, 36, 40, 1), "u", 4, (36, 40, 4), "fhwc"),
    "gray": ((36, 40), "u", 1, (36, 40, 1), "hw"),
    "a small board": ((9, 9), "u", 1, None, ""),
    "real color": ((36, 40, 3), "f", 1, (36, 40, 3), "hwc"),
    "real color, channels first": ((3, 36, 40), "f", 1, (36, 40, 3), "chw"),
    "real gray frames": ((4, 84, 84), "f", 1, (84, 84, 4), "chw"),
    "two real gray frames, last": ((84, 84, 2), "f", 1, (84, 84, 2), "hwc"),
    "a small volume": ((4, 8, 6), "f", 1, None, ""),
    "real numbers of something": ((20, 36, 40), "f", 1, None, ""),
    "many real frames that are stacked": ((20, 36, 40), "f", 20, (36, 40, 20), "chw"),
    "real color frames": ((5, 36, 40, 3), "f", 1, (36, 40, 15), "fhwc"),
    "a matrix": ((36, 40), "f", 1, None, ""),
}


def box(shape: tuple[int, ...], kind: str) -> Box:
    return Box(0, 255, shape, np.uint8) if kind == "u" else Box(0.0, 1.0, shape, np.float32)


@pytest.mark.parametrize("name", AXES)
def test_images_are_known_by_their_shapes_and_turned(name: str) -> None:
    shape, kind, stack, image, axes = AXES[name]
    space = box(shape, kind)
    space.seed(0)
    codec = ObservationCodec.of(space, "Env-v0", stack=stack)
    (spec,) = codec.specs
    if image is None:
        assert (spec.kind, spec.shape) == ("vector", shape)
        return
    assert (spec.kind, spec.shape, spec.dtype) == ("image", image, space.dtype)
    values = np.stack([space.sample() for _ in range(3)])
    # An independent way from the space to the image, one letter for each axis.
    turned = np.einsum(f"n{axes}->nhw{'f' if 'f' in axes else ''}{'c' if 'c' in axes else ''}", values)
    expected = turned.reshape(3, *image)
    np.testing.assert_array_equal(codec.stack(values)["observation"], expected)
    np.testing.assert_array_equal(codec.convert(values)["observation"], expected)
    np.testing.assert_array_equal(codec.parts[0].values(expected), values)


@pytest.mark.parametrize(
    ("shape", "channels", "image"),
    [
        ((9, 8, 4), "first", (8, 4, 9)),
        ((4, 9, 8), "last", (4, 9, 8)),
        ((9, 8), "last", (9, 8, 1)),
        ((7, 9, 8, 6), "first", (8, 6, 63)),
        ((7, 9, 8, 6), "last", (9, 8, 42)),
    ],
)
def test_a_configuration_says_where_channels_are(shape: Any, channels: str, image: tuple[int, ...]) -> None:
    spec = observed(Box(-1.0, 1.0, shape, np.float32), channels=channels)
    assert (spec.kind, spec.shape) == ("image", image)


def test_channels_are_those_of_an_image() -> None:
    with pytest.raises(ConfigError, match="only an image has channels"):
        observed(Discrete(3), channels="last")
    with pytest.raises(SettingError, match="makes an image, and the other key does not"):
        ObservationSettings(channels="last", flatten=True)


def test_rows_of_bytes_are_entities_if_the_configuration_says_so() -> None:
    spec = observed(Box(0, 255, (36, 40), np.uint8), entities=True)
    assert (spec.kind, spec.shape) == ("entities", (36, 40))


class Screen(Scripted):
    def __init__(self, shape: tuple[int, ...]) -> None:
        self.observation_space = Box(0, 255, tuple(shape), np.uint8)

    def observe(self) -> Any:
        return self.np_random.integers(0, 256, self.observation_space.shape, np.uint8)


@pytest.mark.parametrize("count", [2, 8, 40])
@pytest.mark.parametrize("last", [(), (1,), (3,)], ids=["gray", "gray with an axis", "color"])
def test_stacked_frames_stand_side_by_side(make: Callable[..., Environment], last: Any, count: int) -> None:
    """Forty frames of 24 x 20 pixels: more than a side has."""
    stacked = {"name": "FrameStackObservation", "stack_size": count}
    environment = make(register("rlcore-tests/Screen-v0", Screen), 1, wrappers=[stacked], shape=(24, 20, *last))
    (spec,) = environment.behaviors["Agent"].observations
    assert (spec.kind, spec.shape) == ("image", (24, 20, count * (last or (1,))[0]))
    assert spec.frames == count
