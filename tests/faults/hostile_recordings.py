"""The recordings among the hostile inputs: each is a Minari dataset that was changed."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np

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


RECORDINGS: dict[str, tuple[Callable[[Path], None], str]] = {
    "an external link": (linked(h5py.ExternalLink("../outside/other.hdf5", "/x")), "rewards is a link"),
    "a link to a file": (linked(h5py.ExternalLink("/etc/passwd", "/")), "rewards is a link"),
    "a soft link": (linked(h5py.SoftLink("/episode_0/actions")), "rewards is a link"),
    "data in another file": (changed(stored_outside), "has its data in another file"),
    "a virtual dataset": (changed(virtual), "has its data in another file"),
    "a vast array": (changed(vast), "declares 8,000,000,000,000 bytes and stores 0"),
    "a group within itself": (changed(circular), "cannot be read"),
    "a pipe": (pipe, "is a named pipe, not a regular file"),
    "damaged": (damaged, "cannot be read"),
    "a thousand billion steps": (described(total_steps=10**15), "need .* of memory"),
    "steps of text": (described(total_steps="x"), "total_steps must be a whole number"),
    "a vast observation": (described(observation_space=space(shape=[1 << 20, 1 << 20])), "an invalid shape"),
    "a negative observation": (described(observation_space=space(shape=[-1])), "an invalid shape"),
    "a deep space": (described(observation_space="[" * 100_000), "is nested deeper"),
    "many options": (
        described(action_space='{"type": "Discrete", "start": 0, "n": 1000000000000}'),
        "too many options",
    ),
    "a note of another kind": (described(rlcore='{"observations": 5}'), "entry 'rlcore' is damaged"),
    "an escape": (described(observation_space="\x1b]0;owned\x07"), "is not JSON"),
}
