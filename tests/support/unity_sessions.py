"""Scripted sessions with the test player: what both ML-Agents' own Python package and rlcore-unity play.

This module needs numpy and PyYAML only: ``unity_oracle.py`` imports it in the Python of ML-Agents. A session is a
reset, then ``exchanges`` decisions with the actions of :func:`actions_of`, with a reset instead of each decision in
``resets``. The actions depend on nothing but what an agent sees, so that both sides choose alike without knowing of one
another.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray

Array = NDArray[Any]


@dataclass(frozen=True)
class Session:
    """One session.

    Attributes:
        name: What it shows.
        crowd: Options of ``unity_crowds.Crowd``, or the ``scene`` and its ``behaviors``.
        package: As which package the player speaks.
        announced: The version of ML-Agents' Python package that the player is told.
        oracle: The version of ML-Agents' Python package to compare with: 0.28.0 reads images with channels last, as
            packages before 3.0 send them, and 1.1.0 those with channels first.
        exchanges: How many decisions are made.
        resets: Decisions instead of which Python resets the player.
        parameters: By decision before which they are sent, the environment parameters; a reset is decision 0.
        engine: Settings of the engine: width, height, quality level, time scale, target and capture frame rate.
        seed: What the player is told.
        num_areas: What the player is told.
    """

    name: str
    crowd: Mapping[str, Any]
    package: str = "4.0.0"
    announced: str = "1.1.0"
    oracle: str = "1.1.0"
    exchanges: int = 60
    resets: Sequence[int] = ()
    parameters: Mapping[int, Mapping[str, float]] = field(default_factory=dict)
    engine: Sequence[float] = (84, 84, 5, 20.0, -1, 60)
    seed: int = 7
    num_areas: int = 1

    @property
    def world(self) -> str:
        return f"scene:{self.crowd['scene']}" if "scene" in self.crowd else f"crowd:{json.dumps(self.crowd)}"

    @property
    def agents(self) -> int | None:
        """How many agents of each behavior there are; None where they are counted."""
        return None if "scene" in self.crowd else self.crowd.get("agents", 4) * self.num_areas


def _sessions() -> dict[str, Session]:
    text = Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8")
    written = yaml.safe_load(text)
    found = {name: fields for name, fields in written["sessions"].items() if not name.startswith(".")}
    for scene, behaviors in written["scenes"].items():
        crowd = {"scene": scene, "behaviors": dict.fromkeys(behaviors)}
        found[f"scene {scene}"] = {"crowd": crowd, "resets": [40]}
    return {name: Session(name, **fields) for name, fields in found.items()}


SESSIONS = _sessions()


def canonical(seen: Sequence[Array], channels_last: bool) -> bytes:
    """The bytes of all that an agent sees: images as whole numbers with their channels first, the rest as float32."""
    parts = []
    for array in seen:
        if array.ndim == 3:
            pixels = np.rint(np.moveaxis(array, -1, 0) * 255 if channels_last else array * 255)
            parts.append(pixels.astype(np.uint8).tobytes())
        else:
            parts.append(np.ascontiguousarray(array, np.float32).tobytes())
    return b"".join(parts)


def actions_of(
    seen: Sequence[bytes], continuous: int, branches: Sequence[int], allowed: Array | None
) -> tuple[Array, Array]:
    """The actions of agents by what they see: [agents, continuous] float32, and [agents, branches] int32.

    ``allowed`` [agents, sum of branches] has the options that they may choose; nothing allows all.
    """
    reals = np.zeros((len(seen), continuous), np.float32)
    options = np.zeros((len(seen), len(branches)), np.int32)
    for row, content in enumerate(seen):
        generator = np.random.RandomState(zlib.crc32(content))
        reals[row] = generator.uniform(-1, 1, continuous)
        start = 0
        for branch, count in enumerate(branches):
            free = range(count) if allowed is None else np.flatnonzero(allowed[row, start : start + count])
            options[row, branch] = free[generator.randint(len(free))]
            start += count
    return reals, options
