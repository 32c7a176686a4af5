"""The methods of a class that a call runs, for tests of what an acceleration must name."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from rlcore_torch.acceleration.registry import every_method


def methods_that_run(of: type, module: str, call: Callable[[], Any]) -> set[str]:
    """The names of the methods of class ``of``, defined in ``module``, that ``call`` runs."""
    codes = {getattr(method, "__code__", None): method for method in every_method(of) if method.__module__ == module}
    found = set()

    def profile(frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and frame.f_code in codes:
            found.add(codes[frame.f_code].__name__)

    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(None)
    return found
