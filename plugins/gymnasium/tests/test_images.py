"""Images among the arrays of Gymnasium spaces: how their axes are read, and what their bounds say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from rlcore import ObservationSpec, spec_mismatch
from rlcore.contracts.environment import BehaviorSpec
from rlcore_gymnasium.spaces import ObservationCodec


def observed(space: spaces.Space[Any], **said: Any) -> ObservationSpec:
    (spec,) = ObservationCodec.of(space, "Env-v0", {"observation": said} if said else None).specs
    return spec


def per_channel(*high: int) -> spaces.Box:
    bounds = np.broadcast_to(np.array(high, np.uint8), (8, 6, len(high)))
    return spaces.Box(np.zeros_like(bounds), bounds, dtype=np.uint8)


@pytest.mark.parametrize(
    ("space", "full_scale"),
    [
        (spaces.Box(0, 255, (8, 6, 3), np.uint8), [255, 255, 255]),
        (spaces.Box(0, 1, (8, 6, 3), np.uint8), [1, 1, 1]),
        (spaces.Box(0, 10, (4, 8, 6), np.uint8), [10, 10, 10, 10]),
        (per_channel(10, 5, 2), [10, 5, 2]),
        (per_channel(255, 0), [255, 1]),  # nothing to scale
        (spaces.Box(0, np.full((2, 8, 6), [[[3]], [[7]]], np.uint8), dtype=np.uint8), [3, 7]),
        (spaces.Box(0.0, 255.0, (8, 6, 1), np.float32), [1]),  # real numbers are used as they are
    ],
    ids=["picture", "planes", "channels first", "of each", "unused", "of each, first", "real"],
)
def test_bytes_are_scaled_by_the_bounds_of_their_space(space: spaces.Box, full_scale: list[int]) -> None:
    assert observed(space).full_scale.tolist() == full_scale


def test_bytes_whose_bounds_say_nothing_have_none() -> None:
    """Checks of values and checkpoints have nothing to do with them."""
    spec = observed(spaces.Box(0, 255, (8, 6, 3), np.uint8))
    assert spec.low is None and spec.high is None


def test_an_image_of_another_span_is_another_observation() -> None:
    """A policy that learned from one would see the other 255 times too dark."""
    planes, picture = (
        BehaviorSpec("Agent", (observed(spaces.Box(0, high, (8, 6, 3), np.uint8)),)) for high in (1, 255)
    )
    assert spec_mismatch(planes, planes) is None
    assert spec_mismatch(planes, picture) == "observation 'observation' has numbers up to 255 instead of 1"
