"""A schedule with a warm-up."""

from math import cos, pi

WARM_UP = 0.05  # share of the run


def warm_up_cosine(progress: float) -> float:
    """From the final value straight to the initial one, and back along half a cosine."""
    if progress < WARM_UP:
        return 1.0 - progress / WARM_UP
    angle = pi * (progress - WARM_UP) / (1.0 - WARM_UP)
    return 0.5 * (1.0 - cos(angle))  # the share of the way from the initial value to the final one
