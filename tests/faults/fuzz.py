"""Give the loaders of rlcore files that were changed at random, for a time; print how often each was tried.

    python tests/faults/fuzz.py                            # two minutes for each of the loaders
    python tests/faults/fuzz.py recording --minutes 10     # one of them
    python tests/faults/fuzz.py recording --seed 7 --trials 300

A loader may accept what it is given, or raise the error that its documentation names. Everything else ends the program
with exit code 1 and the number of the trial, which ``--seed`` and ``--from`` repeat: another exception, a trial of more
than ten seconds, a file that is written or deleted, a class that pickle looks up, a process that is started.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import hashlib
import json
import logging
import random
import re
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import numpy as np

from rlcore import ConfigError, Run, RunStateError, load_checkpoint, load_config, load_plugins
from rlcore.config.reading import parse_document
from rlcore.storage.checkpoint import damages
from rlcore.storage.checkpoint_state import require_run
from rlcore.storage.checkpoints import newest_intact
from rlcore_offline import read_recording
from rlcore_study.checkpoints.details import checkpoint_details

EXAMPLES = Path(__file__).parents[2] / "examples"
SECONDS = 10.0
WRITES = {"os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.link", "os.symlink", "os.truncate", "shutil.rmtree"}
RUNS = {"os.system", "os.exec", "os.posix_spawn", "subprocess.Popen", "pickle.find_class", "ctypes.dlopen"}
ODD: tuple[Any, ...] = (
    None, True, -1, 0, 1, 2**31, 2**63, 10**30, 10**400, -(2**63) - 1, 0.5, 1e308, -0.0, float("nan"), float("inf"),
    "", "x", "Agent", "../../x", "/dev/zero", "\x1b]0;owned\x07", "\ud800", "a\0b", "9" * 5000, "n" * 5000, "$array",
    [], [1], [[]], {}, {"": 0}, {"$array": "x"}, [[[[[[[[]]]]]]]],
)  # fmt: skip
CONFIGURATION: dict[str, Any] = {
    "preset": "none",
    "environment": {"type": "gymnasium", "id": "CartPole-v1", "num_envs": 2},
    "env_settings": {"seed": 3},
    "behaviors": {
        "Agent": {
            "trainer_type": "ppo",
            "max_steps": 128,
            "checkpoint_interval": 64,
            "hyperparameters": {"batch_size": 32, "buffer_size": 64},
            "network_settings": {"hidden_units": 4, "num_layers": 1},
        }
    },
    "checkpoint_settings": {"run_id": "run"},
    "stats": {"console": False, "tensorboard": False},
}


# ---------------------------------------------------------------- changes


def changed_bytes(data: bytes, draw: random.Random) -> bytes:
    """Some bits and bytes flipped, removed, repeated, inserted or cut off."""
    found = bytearray(data)
    for _ in range(draw.randint(1, 4)):
        at = draw.randrange(len(found) + 1)
        end = min(len(found), at + draw.choice((1, 2, 4, 8, 64, 1024)))
        kind = draw.randrange(7)
        if kind == 0 and at < len(found):
            found[at] ^= 1 << draw.randrange(8)
        elif kind == 1:
            found[at:end] = draw.randbytes(end - at)
        elif kind == 2:
            del found[at:end]
        elif kind == 3:
            found[at:at] = found[at:end] * draw.choice((1, 2, 50))
        elif kind == 4:
            found[at:at] = draw.randbytes(draw.choice((1, 4, 8)))
        elif kind == 5:
            found[at:end] = draw.choice((b"\0", b"\xff")) * (end - at)
        elif draw.random() < 0.3:
            del found[at:]
    return bytes(found)


def changed_text(text: str, draw: random.Random) -> str:
    """Some words replaced, exchanged or repeated, or bytes as :func:`changed_bytes` does."""
    if draw.random() < 0.4:
        return changed_bytes(text.encode(), draw).decode(errors="surrogateescape")
    words = re.split(r"(\s+|[:,{}\[\]])", text)
    for _ in range(draw.randint(1, 4)):
        at = draw.randrange(len(words))
        other = draw.randrange(len(words))
        kind = draw.randrange(4)
        if kind == 0:
            with contextlib.suppress(ValueError):  # a whole number with more digits than Python writes
                words[at] = str(draw.choice(ODD)).replace("None", "null")
        elif kind == 1:
            words[at], words[other] = words[other], words[at]
        elif kind == 2:
            words[at] = words[other] * draw.choice((1, 2, 30))
        else:
            words[at] = draw.choice(("&a", "*a", "!!python/name:os.system", "? ", "- ", "{", "[", "|\n", "<<: *a", "'"))
    return "".join(words)


def changed_tree(tree: Any, draw: random.Random) -> Any:
    """A JSON value with another value, or none, at a place."""
    places: list[tuple[Any, Any]] = []

    def visit(node: Any) -> None:
        for key in list(node) if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ():
            places.append((node, key))
            visit(node[key])

    tree = json.loads(json.dumps(tree))
    visit(tree)
    for node, key in draw.sample(places, min(len(places), draw.randint(1, 2))):
        kind = draw.randrange(3)
        if kind == 0 and isinstance(node, dict):
            node.pop(key, None)
        elif kind == 1 and isinstance(node, dict):
            node[str(draw.choice(ODD[15:25]))] = draw.choice(ODD[:8])
        else:
            node[key] = draw.choice(ODD)
    return tree


def changed_json(text: str, draw: random.Random) -> bytes:
    if draw.random() < 0.3:
        return changed_bytes(text.encode(), draw)
    return json.dumps(changed_tree(json.loads(text), draw)).encode()


def change_file(path: Path, draw: random.Random) -> None:
    data = path.read_bytes()
    path.write_bytes(changed_json(data.decode(), draw) if path.suffix == ".json" else changed_bytes(data, draw))


# ---------------------------------------------------------------- loaders


@attrs.define
class Loaders:
    """The loaders. Each prepares a trial in ``place``, and returns the function that is watched."""

    place: Path
    run: Path = attrs.field(init=False)
    plugins: Any = attrs.field(init=False)
    texts: list[str] = attrs.field(init=False)
    refused: int = 0  # calls that raised what they may

    def _allow(self, error: type[Exception] | tuple[type[Exception], ...], call: Callable[[], Any]) -> None:
        try:
            call()
        except error:
            self.refused += 1

    def __attrs_post_init__(self) -> None:
        sys.path.append(str(Path(__file__).parents[1] / "support"))
        from hostile_recordings import write_recording
        from unity_demos import brain, file_of, walked

        original = self.place / "original"
        with Run(CONFIGURATION | {"checkpoint_settings": {"run_id": "run", "results_dir": str(original)}}) as run:
            run.train()
        self.run = original / "run"
        self.plugins = load_plugins()
        self.texts = [path.read_text() for path in sorted(EXAMPLES.glob("*.yaml"))]
        for name in ("minari", "demo"):
            (self.place / name).mkdir()
        write_recording(self.place / "minari")
        (self.place / "demo" / "a.demo").write_bytes(file_of(brain(branches=(5,)), walked([3, 4])))

    def _copied(self, source: Path) -> Path:
        shutil.rmtree(self.place / "tried", ignore_errors=True)
        return Path(shutil.copytree(source, self.place / "tried"))

    def checkpoint(self, draw: random.Random) -> Callable[[], None]:
        """Manifest, state and arrays; in most of the trials the manifest is true again."""
        run = self._copied(self.run)
        checkpoint = max(
            (run / "checkpoints").iterdir(), key=lambda path: int(path.name) if path.name.isdecimal() else 0
        )
        changed = draw.choice([path for path in checkpoint.iterdir() if path.is_file()])
        change_file(changed, draw)
        if changed.name != "manifest.json" and draw.random() < 0.7:
            manifest = json.loads((checkpoint / "manifest.json").read_text())
            data = changed.read_bytes()
            manifest["files"][changed.name] = {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
            (checkpoint / "manifest.json").write_text(json.dumps(manifest))

        def load() -> None:
            self._allow(RunStateError, lambda: list(damages(checkpoint)))
            checkpoint_details(run)
            self._allow(RunStateError, lambda: require_run(checkpoint, load_checkpoint(checkpoint)))
            self._allow(RunStateError, lambda: newest_intact(run / "checkpoints", "run"))

        return load

    def configuration(self, draw: random.Random) -> Callable[[], None]:
        text = changed_text(draw.choice(self.texts), draw)
        return lambda: self._allow(ConfigError, lambda: load_config(parse_document(text, "c.yaml"), self.plugins))

    def recording(self, draw: random.Random) -> Callable[[], None]:
        """A Minari data set, of JSON and HDF5, and a demonstration of ML-Agents."""
        where = self._copied(self.place / draw.choice(("minari", "demo")))
        changed = draw.choice([path for path in where.rglob("*") if path.is_file() and path.suffix != ".yaml"])
        change_file(changed, draw)
        path = where if changed.suffix == ".demo" else where / "data-v0"
        return lambda: self._allow((ConfigError, RunStateError), lambda: read_recording(self.plugins, path, "Agent"))


LOADERS = ("checkpoint", "configuration", "recording")


# ---------------------------------------------------------------- trials


@attrs.define
class Watch:
    """Notes what a trial must not do; ``sys.addaudithook`` calls it."""

    noted: list[str] = attrs.field(factory=list)
    active: bool = False

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.active:
            return
        writes = event == "open" and isinstance(arguments[1], str) and set(arguments[1]) & set("wax+")
        if writes and "__pycache__" not in str(arguments[0]) and str(arguments[0]) != "/dev/null":
            self.noted.append(f"{event} {arguments[:2]}")
        elif event in RUNS or (event in WRITES and "__pycache__" not in str(arguments)):
            self.noted.append(f"{event} {arguments}"[:300])


def try_one(loaders: Loaders, name: str, seed: int, trial: int, watch: Watch) -> str:
    """The problem of a trial, or nothing."""
    draw = random.Random(f"{name} {seed} {trial}")
    load = getattr(loaders, name)(draw)
    began = time.process_time()
    faulthandler.dump_traceback_later(6 * SECONDS, exit=True)
    watch.noted.clear()
    watch.active = True
    try:
        load()
    except BaseException:
        return traceback.format_exc()
    finally:
        watch.active = False
        faulthandler.cancel_dump_traceback_later()
    seconds = time.process_time() - began
    if seconds > SECONDS:
        return f"took {seconds:.1f} s of processor time"
    return "\n".join(watch.noted)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("loaders", nargs="*", metavar="LOADER", help=", ".join(LOADERS))
    parser.add_argument("--minutes", type=float, default=2.0, help="for each of the loaders")
    parser.add_argument("--trials", type=int, default=10**9, help="of each of the loaders, at most")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--from", type=int, default=0, dest="first", help="number of the first trial")
    arguments = parser.parse_args()
    logging.disable()
    sys.dont_write_bytecode = True  # what a refusal imports would be written in a trial
    np.seterr(all="ignore")
    faulthandler.enable()
    watch = Watch()
    failed = False
    with tempfile.TemporaryDirectory(prefix="rlcore-fuzz-") as place:
        loaders = Loaders(Path(place))
        sys.addaudithook(watch)
        for name in arguments.loaders or LOADERS:
            until = time.monotonic() + 60 * arguments.minutes
            trial = arguments.first
            problem, loaders.refused = "", 0
            while not problem and trial - arguments.first < arguments.trials and time.monotonic() < until:
                problem = try_one(loaders, name, arguments.seed, trial, watch)
                trial += 1
            print(f"{name:14} {trial - arguments.first:8} trials, {loaders.refused:8} refused", flush=True)
            if problem:
                failed = True
                print(f"FAILED: {name} --seed {arguments.seed} --from {trial - 1} --trials 1\n{problem}", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
