"""The sizes of images that encoders take, and the encoder that fits a size; without torch, for messages of a start."""

from __future__ import annotations

MINIMUM_SIZE = {"simple": 20, "nature_cnn": 36, "resnet": 15, "match3": 5, "fully_connected": 1, "impala": 8}
"""The smallest height and width each encoder can take, as ML-Agents documents them; of impala, those that three
halvings make one pixel of."""

BY_SIZE = ("simple", "fully_connected")
"""What ``auto`` chooses from: the first one that an image is large enough for. ``simple`` is ML-Agents' default.

``match3`` would read images from 5 x 5 pixels on with convolutions, but a gradient step takes 30 times as long at 7 x 7
pixels, and 250 times at 19 x 19. In MiniGrid it learned no faster by the step."""


def encoder_by_size(shape: tuple[int, ...]) -> str:
    """Return the name of the encoder that ``auto`` is for an image of this shape [height, width, channels]."""
    pixels = min(shape[:2])
    return next(kind for kind in BY_SIZE if MINIMUM_SIZE[kind] <= pixels)
