"""The hostile inputs of ``test_hostile_inputs.py``: what is done to a workplace, the command, and how it must end."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import yaml
from hostile_files import NAMES, PICKLES, RUN, file_of, newest, path_of, seal
from hostile_recordings import RECORDINGS
from safetensors.numpy import load_file, save_file

from rlcore.config.dump import sealed

SIZE = 990_000  # just below what a configuration may have
BASE = "behaviors: {Agent: {trainer_type: ppo}}\nenvironment: {type: gymnasium, id: CartPole-v1}\npreset: none\n"
DEEP = "[" * 100_000
ESCAPE = "\x1b]0;owned\x07[red]"
RESUME = ("run", "--resume", "--results-dir", "results", "--run-id")
CANARY = "import pathlib\npathlib.Path(__file__).with_name('RAN').touch()\n"


@attrs.frozen
class Hostile:
    """One input."""

    name: str
    prepare: Callable[[Path], None]  # is given the workplace
    argv: tuple[str, ...]
    code: int
    said: str  # a regular expression that the output must match


def repeated(piece: Callable[[int], str], size: int = SIZE, most: int = 10**6) -> str:
    pieces: list[str] = []
    length = 0
    while length < size and len(pieces) < most:
        pieces.append(piece(len(pieces)))
        length += len(pieces[-1])
    return "".join(pieces)


# ---------------------------------------------------------------- configurations


def configurations() -> dict[str, tuple[str, str]]:
    """Texts of a configuration file, and what must be said of them; ``core/tests/config`` has others."""
    every = "behaviors:\n" + repeated(lambda i: f"  b{i}: {{zzz: 1}}\n", most=900)
    return {
        "10,000 behaviors": (
            "behaviors:\n" + repeated(lambda i: f"  b{i}: {{}}\n", most=10_000),
            "behaviors: has 10,000 entries; at most 1,000",
        ),
        "defaults of 900 behaviors": (
            "default_settings:\n  trainer_type: ppo\n  hyperparameters:\n"
            + repeated(lambda i: f"    k{i}: 1\n", most=990)
            + every.replace("zzz: 1", ""),
            r"default_settings\.hyperparameters\.k0: unknown key",
        ),
        "20,000 plugins": (
            BASE + "plugins: {enable: [" + repeated(lambda i: f"a{i},", most=20_000) + "]}\n",
            "names 20000 plugins; at most 1000",
        ),
        "deep": (BASE + "x: " + DEEP, "nested deeper than 40 levels"),
        "long text": (BASE + f"x: {'a' * SIZE}\n", "unknown key"),
        "one key again and again": (repeated(lambda _: "a: 1\n", most=20_000), "duplicate key"),
        "mistakes in each behavior": (every, "unknown key"),
        "an alias of itself": (BASE + "a: &a [*a]\n", "inside this block repeats the block"),
        "a tag": (BASE + "a: !!python/object/apply:os.system [touch RAN]\n", "not allowed"),
        "num_envs": (BASE + "env_settings: {num_envs: 1000000000}\n", "num_envs: must be at most 100000"),
    }


def overrides() -> dict[str, tuple[str, str]]:
    """Values of ``--set``, and what must be said of them."""
    return {
        "deep value": (f"behaviors.Agent={DEEP}", "nested deeper than 40 levels"),
        "a long path": (".".join(["a"] * 20_000) + "=1", "nested deeper than 40 levels"),
        "an escape": (f"env_settings.{ESCAPE}=1", "unknown key"),
    }


# ---------------------------------------------------------------- run directories


def no_file(name: str, kind: str) -> Callable[[Path], None]:
    """Puts something else in the place of a file."""

    def prepare(place: Path) -> None:
        path = path_of(place, name)
        path.unlink()
        if kind == "pipe":
            os.mkfifo(path)
        elif kind == "directory":
            path.mkdir()
        else:
            path.symlink_to("/dev/zero")

    return prepare


def manifest_of(name: str) -> Callable[[Path], None]:
    """A manifest that lists a file called ``name``."""

    def prepare(place: Path) -> None:
        path = newest(place) / "manifest.json"
        manifest = json.loads(path.read_text())
        manifest["files"][name.replace("OUTSIDE", str(place.parent / "outside"))] = {"size": 6, "sha256": "0" * 64}
        path.write_text(json.dumps(manifest))

    return prepare


def state_with(*keys: str, value: Any) -> Callable[[Path], None]:
    """A state with another value at ``keys``."""

    def prepare(place: Path) -> None:
        path = newest(place) / "state.json"
        state = entry = json.loads(path.read_text())
        for key in keys[:-1]:
            entry = entry[key]
        entry[keys[-1]] = value
        path.write_text(json.dumps(state))
        seal(path.parent)

    return prepare


def arrays_with(change: Callable[[dict[str, Any]], None]) -> Callable[[Path], None]:
    """Arrays of the behavior that were changed."""

    def prepare(place: Path) -> None:
        path = newest(place) / "Agent.safetensors"
        arrays = load_file(path)
        change(arrays)
        save_file(arrays, path)
        seal(path.parent)

    return prepare


def weight(arrays: dict[str, Any]) -> str:
    return next(name for name in sorted(arrays) if name.startswith("model/") and name.endswith("weight"))


def not_a_number(arrays: dict[str, Any]) -> None:
    arrays[weight(arrays)].ravel()[0] = np.nan


def infinite_moment(arrays: dict[str, Any]) -> None:
    arrays["optimizer/square"][0] = np.inf


def double(arrays: dict[str, Any]) -> None:
    arrays[weight(arrays)] = arrays[weight(arrays)].astype(np.float64)


def header(entries: Any) -> bytes:
    text = entries if isinstance(entries, bytes) else json.dumps(entries).encode()
    return struct.pack("<Q", len(text)) + text


CHECKPOINTS: dict[str, Callable[[Path], None]] = {
    "manifest: no JSON": file_of("manifest.json", "{"),
    "manifest: large": file_of("manifest.json", "[" + "1," * 600_000 + "1]"),
    "manifest: other types": file_of("manifest.json", '{"checkpoint_format": [], "step": {}, "files": 5}'),
    "manifest: a file above": manifest_of("../../../../../outside/secret"),
    "manifest: a name with an escape": manifest_of(ESCAPE),
    "manifest: a pipe": no_file("manifest.json", "pipe"),
    "state: deep": file_of("state.json", DEEP),
    "state: 80 megabytes": file_of("state.json", '{"run": "' + "x" * 80_000_000 + '"}'),
    "state: many values": file_of("state.json", "[" + "[]," * 2_000_000 + "[]]"),
    "state: not UTF-8": file_of("state.json", b'{"run": "\xff"}'),
    "state: a run that is none": state_with("run", value=5),
    "state: a seed that is none": state_with("run", "seed", value="x"),
    "state: negative steps": state_with("run", "steps", "Agent", value=-1),
    "state: behaviors that are none": state_with("run", "behaviors", value=[]),
    "state: returns that are none": state_with("run", "behaviors", "Agent", "recent", value="abc"),
    "state: an array that is not there": state_with("Agent", "model", value={"$array": "gone"}),
    "arrays: a huge header": file_of("Agent.safetensors", struct.pack("<Q", 1 << 62) + b"{}"),
    "arrays: out of the file": file_of(
        "Agent.safetensors", header({"a": {"dtype": "F32", "shape": [1 << 40], "data_offsets": [0, 1 << 42]}})
    ),
    "arrays: a pipe": no_file("Agent.safetensors", "pipe"),
    "arrays: not a number": arrays_with(not_a_number),
}

# Found when arrays are loaded, which status does not do.
OF_ARRAYS = {name for name in CHECKPOINTS if name.startswith("arrays: ") and name != "arrays: a pipe"} | {
    "state: an array that is not there",
}

# Of no concern to an evaluation.
OF_RESUMING = {
    "state: behaviors that are none",
    "state: returns that are none",
}

# Complete files that do not fit this run.
MISFITS: dict[str, tuple[Callable[[Path], None], str]] = {
    "double weights": (arrays_with(double), "weight is float64 .* in the checkpoint"),
    "no optimizer": (state_with("Agent", "optimizer", value=None), "'optimizer' is None, not a mapping"),
    "no generator": (state_with("Agent", "generators", value={}), "entry 'actions' is missing"),
    "a rollout of text": (state_with("Agent", "buffer", "reward", value="x"), "entry 'reward' is 'x', not an array"),
    "an environment of text": (state_with("run", "environment", value={"episodes": "x"}), "environment .*'episodes'"),
}

TEXTS = yaml.safe_load((Path(__file__).parent / "data/hostile_texts.yaml").read_text())
RESULTS = TEXTS["results"] | {
    "deep": DEEP,
    "many digits": '{"outcome": "done", "wall_seconds": ' + "9" * 100_000 + "}",
    "large": '{"a": "' + "x" * 80_000_000 + '"}',
}
STATUSES = TEXTS["statuses"] | {"deep": DEEP}


def write_sealed(configuration: Path, text: str) -> None:
    """Write it with rlcore's checksum: an edited configuration is not used if a checkpoint has a copy."""
    configuration.write_text(sealed(text.partition("\n")[2]))


def code_of_others() -> Iterator[Hostile]:
    """Configurations that name the canary, looked at."""

    def local(plugins: str) -> Callable[[Path], None]:
        def prepare(place: Path) -> None:
            (place / "c.yaml").write_text(BASE + f"plugins: {plugins}\n")
            configuration = (place / RUN) / "configuration.yaml"
            text = configuration.read_text().replace("  local: []", f"  local: ['{place}/canary.py']")
            assert "canary" in text
            write_sealed(configuration, text)

        return prepare

    left_out = "canary.* was not imported"
    for plugins in ("{local: [./canary.py]}", "{local: [canary]}", "{enable: ['module:./canary.py']}"):
        yield Hostile(f"validate, plugins: {plugins}", local(plugins), ("validate", "c.yaml"), 0, left_out)
    prepare = local("{local: [./canary.py]}")
    yield Hostile("status, plugins.local", prepare, ("status", "run"), 0, left_out)
    yield Hostile("evaluate, plugins.local", prepare, ("evaluate", "run", "--episodes", "1"), 0, left_out)

    def owned_by_another(name: str) -> Callable[[Path], None]:
        def prepare(place: Path) -> None:
            configuration = (place / RUN) / "configuration.yaml"
            text = configuration.read_text().replace("  id: CartPole-v1", "  id: canary:CartPole-v1")
            write_sealed(configuration, text if name == "environment" else text.replace("canary:", ""))
            if name == "plugin":
                local("{}")(place)
            os.chown(configuration, 12345, -1)

        return prepare

    if hasattr(os, "getuid") and os.getuid() == 0:
        said = "was written by another user, .*canary.* --allow-local allows it"
        yield Hostile("evaluate, module of another user", owned_by_another("environment"), ("evaluate", "run"), 2, said)
        yield Hostile("resume, module of another user", owned_by_another("environment"), (*RESUME, "run"), 2, said)
        yield Hostile("resume, plugin of another user", owned_by_another("plugin"), (*RESUME, "run"), 2, said)


def hostile_inputs() -> Iterator[Hostile]:
    """All of them."""
    for name, (text, said) in configurations().items():

        def write(place: Path, text: str = text) -> None:
            (place / "c.yaml").write_text(text, encoding="utf-8", errors="surrogateescape")

        yield Hostile(f"configuration: {name}", write, ("run", "c.yaml"), 2, said)
    for name, (text, said) in overrides().items():

        def base(place: Path) -> None:
            (place / "c.yaml").write_text(BASE)

        yield Hostile(f"--set: {name}", base, ("run", "c.yaml", "--set", text), 2, said)
    for name, prepare in CHECKPOINTS.items():
        said = "256" if name in OF_ARRAYS else "damaged:"
        yield Hostile(f"status, {name}", prepare, ("status", "run"), 0, said)
        said = "Agent: mean reward" if name in OF_RESUMING else "an older checkpoint is used"
        yield Hostile(f"evaluate, {name}", prepare, ("evaluate", "run", "--episodes", "1"), 0, said)
    for name, (prepare, said) in MISFITS.items():
        yield Hostile(f"resume, {name}", prepare, (*RESUME, "run"), 5, said)
    for name, text in RESULTS.items():
        said = "owned" if name == "an escape" else "result.json"
        yield Hostile(f"status, result: {name}", file_of("result.json", text), ("status", "run"), 0, said)
    for name, text in STATUSES.items():
        prepare = file_of("run_logs/training_status.json", text)
        yield Hostile(f"status, training status: {name}", prepare, ("status", "run"), 0, "Agent")
        yield Hostile(f"evaluate, training status: {name}", prepare, ("evaluate", "run", "--episodes", "1"), 0, "Agent")
    yield from code_of_others()
    for name, (prepare, said) in RECORDINGS.items():
        yield Hostile(f"recording: {name}", prepare, ("run", "c.yaml"), 2, said)
    for kind, table in (("pickle", PICKLES), ("name", NAMES)):
        for name, (prepare, argv, code, said) in table.items():
            yield Hostile(f"{kind}: {name}", prepare, argv, code, said)
    for name in ("result.json", "run_logs/training_status.json", "metrics.jsonl"):
        yield Hostile(f"status, a pipe as {name}", no_file(name, "pipe"), ("status", "run"), 0, "Agent")
