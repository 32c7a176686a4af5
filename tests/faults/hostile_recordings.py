"""The recordings among the hostile inputs: Minari datasets that were changed, and demonstrations of ML-Agents."""

from __future__ import annotations

import json
import os
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from unity_demos import brain, file_of, metadata, picture, step, varint, vector, walked

LENGTH = 300
BOX = {"type": "Box", "dtype": "float32", "shape": [4], "low": [-1.0] * 4, "high": [1.0] * 4}
METADATA: dict[str, Any] = {
    "total_episodes": 1,
    "total_steps": LENGTH,
    "data_format": "hdf5",
    "observation_space": json.dumps(BOX),
    "action_space": json.dumps({"type": "Discrete", "dtype": "int64", "start": 0, "n": 2}),
}
CONFIGURATION = """behaviors: {Agent: {trainer_type: bc, max_steps: 2, hyperparameters: {demo_path: ./data-v0}}}
environment: {type: gymnasium, id: CartPole-v1}
"""


def write_recording(place: Path, change: Callable[[h5py.Group], None] | None = None, **metadata: Any) -> None:
    """A dataset of one episode, and a configuration that learns from it."""
    (place / "c.yaml").write_text(CONFIGURATION)
    data = place / "data-v0" / "data"
    data.mkdir(parents=True)
    (data / "metadata.json").write_text(json.dumps(METADATA | metadata))
    with h5py.File(data / "main_data.hdf5", "w") as file:
        episode = file.create_group("episode_0")
        episode["observations"] = np.zeros((LENGTH + 1, 4), np.float32)
        episode["actions"] = np.zeros(LENGTH, np.int64)
        episode["rewards"] = np.zeros(LENGTH)
        episode["terminations"] = np.zeros(LENGTH, np.bool_)
        episode["truncations"] = np.zeros(LENGTH, np.bool_)
        if change is not None:
            change(episode)


def changed(change: Callable[[h5py.Group], None]) -> Callable[[Path], None]:
    return lambda place: write_recording(place, change)


def described(**metadata: Any) -> Callable[[Path], None]:
    return lambda place: write_recording(place, **metadata)


def linked(link: Any) -> Callable[[Path], None]:
    def change(episode: h5py.Group) -> None:
        del episode["rewards"]
        episode["rewards"] = link

    return changed(change)


def stored_outside(episode: h5py.Group) -> None:
    del episode["rewards"]
    episode.create_dataset("rewards", (1,), "u1", external=[("../outside/secret", 0, 6)])


def virtual(episode: h5py.Group) -> None:
    del episode["rewards"]
    layout = h5py.VirtualLayout((LENGTH,), "f8")
    layout[:] = h5py.VirtualSource("../outside/other.hdf5", "x", (LENGTH,))
    episode.create_virtual_dataset("rewards", layout)


def vast(episode: h5py.Group) -> None:
    del episode["rewards"]
    episode.create_dataset("rewards", (10**12,), "f8", chunks=(1000,))


def circular(episode: h5py.Group) -> None:
    episode["infos"] = episode


def pipe(place: Path) -> None:
    write_recording(place)
    (place / "data-v0" / "data" / "main_data.hdf5").unlink()
    os.mkfifo(place / "data-v0" / "data" / "main_data.hdf5")


def damaged(place: Path) -> None:
    write_recording(place)
    path = place / "data-v0" / "data" / "main_data.hdf5"
    content = bytearray(path.read_bytes())
    content[200:2000] = b"\xff" * 1800
    path.write_bytes(bytes(content))


def space(**changes: Any) -> str:
    return json.dumps(BOX | changes)


def demonstration(content: bytes) -> Callable[[Path], None]:
    """A demonstration of ML-Agents, and a configuration that learns from it."""

    def write(place: Path) -> None:
        (place / "c.yaml").write_text(CONFIGURATION)
        (place / "data-v0").mkdir()
        (place / "data-v0" / "x.demo").write_bytes(content)

    return write


def demonstration_pipe(place: Path) -> None:
    demonstration(b"")(place)
    (place / "data-v0" / "x.demo").unlink()
    os.mkfifo(place / "data-v0" / "x.demo")


def sparse_demonstration(place: Path) -> None:
    """Zeros that take no place on the disk, behind a step."""
    content = file_of(brain(branches=[2]), walked([0], 2), metadata(0), tail=False)
    demonstration(content)(place)
    os.truncate(place / "data-v0" / "x.demo", 1 << 26)


def bomb(side: int) -> bytes:
    """The beginning of a PNG file of ``side`` by ``side`` pixels, and an end."""
    chunks = struct.pack(">II5B", side, side, 8, 2, 0, 0, 0), zlib.compress(bytes(1000)), b""
    png = b"\x89PNG\r\n\x1a\n"
    for kind, chunk in zip((b"IHDR", b"IDAT", b"IEND"), chunks, strict=True):
        png += struct.pack(">I", len(chunk)) + kind + chunk + struct.pack(">I", zlib.crc32(kind + chunk))
    return png


def of_steps(*steps: bytes, meta: bytes | None = None) -> Callable[[Path], None]:
    return demonstration(file_of(brain(branches=[2]), steps, meta))


DEMONSTRATIONS: dict[str, tuple[Callable[[Path], None], str]] = {
    "a pipe": (demonstration_pipe, "is not a regular file"),
    "of zeros": (sparse_demonstration, "step 1 is empty"),
    "with a vast step": (
        demonstration(file_of(brain(branches=[2]), [], metadata(1), tail=False) + varint(1 << 34) + bytes(1000)),
        "step 0 has 17179869184 bytes",
    ),
    "with a vast observation": (
        of_steps(*[step(vector([1.0], shape=[1 << 20, 1 << 20]), discrete=[0])] * 2),
        "has the shape",
    ),
    "with a damaged picture": (
        of_steps(*[step(picture(bomb(200), [200, 200, 3]), discrete=[0])] * 2),
        "PNG image that cannot be read",
    ),
    "with an escape": (of_steps(b"\x1b]0;owned\x07" * 5, *walked([1], 2)), "step 0 cannot be read"),
}

RECORDINGS: dict[str, tuple[Callable[[Path], None], str]] = {
    "an external link": (linked(h5py.ExternalLink("../outside/other.hdf5", "/x")), "rewards is a link"),
    "data in another file": (changed(stored_outside), "has its data in another file"),
    "a virtual dataset": (changed(virtual), "has its data in another file"),
    "a vast array": (changed(vast), "declares 8,000,000,000,000 bytes and stores 0"),
    "a group within itself": (changed(circular), "cannot be read"),
    "a pipe": (pipe, "is not a regular file"),
    "damaged": (damaged, "cannot be read"),
    "a thousand billion steps": (described(total_steps=10**15), "need .* of memory"),
    "a vast observation": (described(observation_space=space(shape=[1 << 20, 1 << 20])), "an invalid shape"),
    "many options": (
        described(action_space='{"type": "Discrete", "start": 0, "n": 1000000000000}'),
        "too many options",
    ),
    "a note of another kind": (described(rlcore='{"observations": 5}'), "entry 'rlcore' is damaged"),
    "an escape": (described(observation_space="\x1b]0;owned\x07"), "is not JSON"),
} | {f"a demonstration, {name}": hostile for name, hostile in DEMONSTRATIONS.items()}
