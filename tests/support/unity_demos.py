"""Demonstration files of ML-Agents byte by byte, from protobuf's wire format and Unity's numbers of fields.

Nothing of rlcore is used here: what rlcore reads is compared with what was written here.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

VARINT = 0
BYTES = 2
FLOAT = 5
BRAIN_START = 33


def varint(number: int) -> bytes:
    number &= (1 << 64) - 1  # a negative number has ten bytes
    parts = []
    while True:
        number, low = number >> 7, number & 0x7F
        parts.append(low | (0x80 if number else 0))
        if not number:
            return bytes(parts)


def field(number: int, value: Any) -> bytes:
    """One field: a whole number or bool, a float, or bytes."""
    if isinstance(value, float):
        return varint(number << 3 | FLOAT) + struct.pack("<f", value)
    if isinstance(value, int):
        return varint(number << 3 | VARINT) + varint(int(value))
    return varint(number << 3 | BYTES) + varint(len(value)) + value


def floats(number: int, values: Sequence[float]) -> bytes:
    return field(number, struct.pack(f"<{len(values)}f", *values)) if len(values) else b""


def whole(number: int, values: Sequence[int]) -> bytes:
    return field(number, b"".join(map(varint, values))) if len(values) else b""


def delimited(message: bytes) -> bytes:
    return varint(len(message)) + message


def metadata(steps: int, version: int = 1, name: str = "Expert", episodes: int = 1) -> bytes:
    return field(1, version) + field(2, name.encode()) + field(3, steps) + field(4, episodes) + field(5, 0.5)


def brain(continuous: int = 0, branches: Sequence[int] = (), name: str = "Agent?team=0") -> bytes:
    actions = field(1, continuous) + field(2, len(branches)) + whole(3, branches)
    return field(7, name.encode()) + field(9, actions)


def old_brain(sizes: Sequence[int], continuous: bool, name: str = "Agent") -> bytes:
    """How ML-Agents described actions before it had both kinds at once."""
    return whole(3, sizes) + field(6, int(continuous)) + field(7, name.encode())


def vector(values: Sequence[float], name: str = "", shape: Sequence[int] | None = None) -> bytes:
    shown = field(8, name.encode()) if name else b""
    return whole(1, [len(values)] if shape is None else shape) + field(4, floats(1, values)) + shown


def picture(data: bytes, shape: Sequence[int], mapping: Sequence[int] = (), properties: Sequence[int] = ()) -> bytes:
    """An observation of PNG files."""
    return whole(1, shape) + field(2, 1) + field(3, data) + whole(5, mapping) + whole(6, properties)


def step(
    *observations: bytes,
    reward: float = 0.0,
    done: bool = False,
    max_step: bool = False,
    agent: int = 0,
    mask: Sequence[bool] = (),
    continuous: Sequence[float] = (),
    discrete: Sequence[int] = (),
    old_actions: Sequence[float] = (),
) -> bytes:
    info = field(7, reward) + field(8, done) + field(9, max_step) + field(10, agent) + whole(11, [*map(int, mask)])
    info += b"".join(field(13, each) for each in observations) + field(14, 3) + field(15, 99.0)  # a group's reward
    action = floats(1, old_actions) + floats(6, continuous) + whole(7, discrete)
    return field(1, info) + field(2, action)


def file_of(brain_: bytes, steps: Sequence[bytes], meta: bytes | None = None, tail: bool = True) -> bytes:
    """A whole file as Unity leaves it: with a copy of the metadata at the end."""
    meta = metadata(len(steps)) if meta is None else meta
    head = delimited(meta).ljust(BRAIN_START, b"\0")
    return head + delimited(brain_) + b"".join(map(delimited, steps)) + (meta if tail else b"")


def write(path: Path, *parts: Any, **how: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(file_of(*parts, **how))
    return path


def walked(lengths: Sequence[int], options: int = 5, agent: int | None = None) -> list[bytes]:
    """Steps as Unity records them since 2020: each with the action that led to it, and ends of their own.

    Step ``k`` of episode ``e`` shows (e, k), its action was ``k % options`` and was rewarded with ``k``. Its number is
    that of the episode unless ``agent`` is given.
    """
    return [
        step(
            vector([float(episode), float(k)]),
            reward=float(k),
            done=k == length,
            agent=episode if agent is None else agent,
            discrete=[k % options],
        )
        for episode, length in enumerate(lengths)
        for k in range(length + 1)
    ]
