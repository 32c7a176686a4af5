"""Images among the arrays of Gymnasium spaces: which arrays are images, and what their axes are.

A Box says neither. Where its shape leaves a choice, ``environment.observations: {NAME: {channels: first}}`` makes it,
and the wrapper FrameStackObservation says that frames are the first axis.
"""

from __future__ import annotations

from typing import Literal

import attrs
import numpy as np
from gymnasium import spaces

Channels = Literal["first", "last"]
"""The axis of an array that has the channels of an image."""
Shape = tuple[int, ...]

COUNTS = (1, 3, 4)
"""Numbers of channels by which a last axis is known: gray, color, color with opacity or a stack of four frames."""
MOST_UNTOLD = 4
"""The most channels of a first axis that is known by its size alone, and of a last one of real numbers."""
SMALLEST = 20
"""Height and width from which arrays are taken for images that may as well be boards or tables of numbers."""


@attrs.frozen
class ImageLayout:
    """How an array of a space is an image [height, width, frames times channels].

    Attributes:
        shape: The shape of the image.
        axes: The axes of the array in the order of the image: height, width, then frames and channels if it has both.
        frames: Number of frames that are side by side along the last axis, oldest first.
    """

    shape: Shape
    axes: tuple[int, ...]
    frames: int = 1


def image_layout(space: spaces.Box, stack: int = 1, channels: Channels | None = None) -> ImageLayout | None:
    """Return how ``space`` is an image; None if it is not one.

    ``stack`` is the number of frames that FrameStackObservation stacks along the first axis; 1 without it. ``channels``
    is the axis of the channels of one frame, if a configuration says it; it makes an image of every array of two to
    four axes.
    """
    shape = space.shape
    if len(shape) == 4:
        frames, *frame_shape = shape
        frame = _frame(tuple(frame_shape), space, channels)
        if frame is None:
            return None
        if channels is None and not _is_large(frame.shape):
            return None
        rows, columns, depth = frame.shape
        height, width, channel = (axis + 1 for axis in frame.axes)
        # Frames come before channels, so that the channels of one frame stay side by side.
        return ImageLayout((rows, columns, frames * depth), (height, width, 0, channel), frames)
    # Three axes of a stack are gray frames: FrameStackObservation puts its axis first.
    stacked = len(shape) == 3 and 1 < stack == shape[0] and channels is None
    if stacked and (space.dtype == np.uint8 or _is_large(shape[1:])):
        return ImageLayout((*shape[1:], stack), (1, 2, 0), stack)
    return _frame(shape, space, channels)


def _frame(shape: Shape, space: spaces.Box, channels: Channels | None) -> ImageLayout | None:
    """Return how an array of two or three axes is one image."""
    pixels = space.dtype == np.uint8
    if len(shape) == 2:
        # Bytes that may have every value are a gray picture; a board of a few values stays a vector.
        every_byte = bool((space.low == 0).all() and (space.high == 255).all())
        gray = pixels and _is_large(shape) and every_byte
        return ImageLayout((*shape, 1), (0, 1)) if gray or channels else None
    if len(shape) != 3:
        return None
    first = ImageLayout((*shape[1:], shape[0]), (1, 2, 0))
    last = ImageLayout(shape, (0, 1, 2))
    if channels is not None:
        return first if channels == "first" else last
    # Gymnasium's own images have their channels last, so this axis decides first.
    if shape[2] in COUNTS:
        return last
    few = shape[0] <= MOST_UNTOLD
    if pixels:
        # Channels and frames are fewer than pixels of a side.
        return first if few or shape[0] < min(shape[1:]) else last
    if few and _is_large(shape[1:]):
        return first
    return last if shape[2] <= MOST_UNTOLD and _is_large(shape) else None


def _is_large(shape: Shape) -> bool:
    return min(shape[:2]) >= SMALLEST
