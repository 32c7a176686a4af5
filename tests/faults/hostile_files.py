"""The pickles, and the names and links that lead elsewhere, among the hostile inputs."""

from __future__ import annotations

import hashlib
import io
import json
import os
import pickle
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

Prepare = Callable[[Path], None]
BASE = """\
behaviors: {Agent: {trainer_type: ppo, max_steps: 64}}
environment: {type: gymnasium, id: CartPole-v1}
preset: none
"""
RUN = Path("results") / "run"


class Payload:
    """Whoever unpickles it runs a command, which leaves ``RAN`` in the working directory."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("touch RAN",)


def pickled() -> bytes:
    return pickle.dumps({"model": Payload()})


def torch_zip() -> bytes:
    """As ``torch.save`` writes today."""
    stream = io.BytesIO()
    torch.save({"model": Payload()}, stream)
    return stream.getvalue()


def npy() -> bytes:
    stream = io.BytesIO()
    np.save(stream, np.array([Payload()], object), allow_pickle=True)
    return stream.getvalue()


def npz() -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("weights.npy", npy())
    return stream.getvalue()


def newest(place: Path) -> Path:
    return max((p for p in (place / RUN / "checkpoints").iterdir() if p.name.isdecimal()), key=lambda p: int(p.name))


def seal(checkpoint: Path, *more: str) -> None:
    """Makes the manifest true again, with ``more`` files in it."""
    manifest = json.loads((checkpoint / "manifest.json").read_text())
    for name in {*manifest["files"], *more}:
        data = (checkpoint / name).read_bytes()
        manifest["files"][name] = {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    (checkpoint / "manifest.json").write_text(json.dumps(manifest))


def path_of(place: Path, name: str) -> Path:
    """A file of the run directory, or of the newest checkpoint."""
    in_checkpoint = name in ("manifest.json", "state.json", "Agent.safetensors", "Agent.pt")
    return (newest(place) if in_checkpoint else place / RUN) / name


def file_of(name: str, content: str | bytes) -> Prepare:
    """Overwrites a file of the run directory; of the newest checkpoint, with a manifest that fits."""

    def prepare(place: Path) -> None:
        path = path_of(place, name)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        if path.parent == newest(place) and name != "manifest.json":
            seal(path.parent, name)

    return prepare


def beside(name: str, content: Callable[[], bytes], configuration: str = "") -> Prepare:
    """A file beside the configuration, which names it."""

    def prepare(place: Path) -> None:
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_bytes(content())
        (place / "c.yaml").write_text(configuration or BASE)

    return prepare


def with_init_path(path: str) -> str:
    return BASE.replace("max_steps: 64", f"max_steps: 64, init_path: {json.dumps(path)}")


def with_demo_path(path: str) -> str:
    return BASE.replace("trainer_type: ppo", f"trainer_type: bc, hyperparameters: {{demo_path: {json.dumps(path)}}}")


EVALUATE = ("evaluate", "run", "--episodes", "1")
START = ("run", "c.yaml", "--run-id", "new")
OLDER = "an older checkpoint is used"

# What is prepared, the command, its exit code, and what must be said.
PICKLES: dict[str, tuple[Prepare, tuple[str, ...], int, str]] = {
    "weights: a pickle": (file_of("Agent.safetensors", pickled()), EVALUATE, 0, OLDER),
    "weights: of torch.save": (file_of("Agent.safetensors", torch_zip()), EVALUATE, 0, OLDER),
    "state: a pickle": (file_of("state.json", pickled()), EVALUATE, 0, OLDER),
    "a file more in a checkpoint": (file_of("Agent.pt", torch_zip()), EVALUATE, 0, "Agent"),
    "result: a pickle": (file_of("result.json", pickled()), ("status", "run"), 0, "result.json"),
    "init_path: an npz of objects": (beside("policy.npz", npz, with_init_path("policy.npz")), START, 5, "policy.npz"),
    "init_path: a run of ML-Agents": (
        beside("results/old/Agent/checkpoint.pt", torch_zip, with_init_path("results/old")), START, 5, "old",
    ),
    "demo_path: an npz of objects": (beside("data.npz", npz, with_demo_path("data.npz")), START, 2, "data.npz"),
    "a configuration of torch.save": (
        lambda place: (place / "c.yaml").write_bytes(torch_zip()) and None, START, 2, "c.yaml",
    ),
}  # fmt: skip


def named(text: str) -> Prepare:
    return lambda place: (place / "c.yaml").write_text(text) and None


def run_is_a_link(place: Path) -> None:
    shutil.move(place / RUN, place.parent / "outside" / "run")
    (place / RUN).symlink_to(place.parent / "outside" / "run")
    (place / "c.yaml").write_text(BASE)


def file_is_a_link(name: str) -> Prepare:
    """A file or directory of the run is a link to something outside."""

    def prepare(place: Path) -> None:
        path = place / RUN / name
        if path.is_dir():
            shutil.rmtree(path)
            path.symlink_to(place.parent / "outside")
        else:
            path.unlink()
            path.symlink_to(place.parent / "outside" / "secret")
        (place / "c.yaml").write_text(BASE)

    return prepare


IDS = ("../outside/x", "x" * 300, "\x1b]0;owned\x07", "~", "a\u202eb")  # core/tests/config has others
RESULTS = ("--results-dir", "results")
RULE = "is 1 to 100 letters, digits"
NAMES: dict[str, tuple[Prepare, tuple[str, ...], int, str]] = {
    **{f"run id {name[:20]!r}": (named(BASE), ("run", "c.yaml", f"--run-id={name}"), 2, RULE) for name in IDS},
    "behavior ../../x": (named(BASE.replace("Agent:", "'../../x':")), START, 2, RULE),
    "initialize_from ../../outside": (
        named(BASE), (*START, "--initialize-from", "../../outside"), 2, "initialize_from|must",
    ),
    "init_path above": (named(with_init_path("../outside/secret")), START, 5, "secret"),
    "a run that is a link": (run_is_a_link, ("run", "--resume", "--run-id", "run", *RESULTS), 5, "link"),
    "checkpoints that are a link": (file_is_a_link("checkpoints"), EVALUATE, 5, "checkpoint"),
    "a checkpoint that is a link": (file_is_a_link("checkpoints/512"), EVALUATE, 0, "Agent"),
    "weights that are a link": (file_is_a_link("checkpoints/512/Agent.safetensors"), EVALUATE, 0, OLDER),
}  # fmt: skip
