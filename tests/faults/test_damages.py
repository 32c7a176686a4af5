"""Every file of a run damaged in every way: what is damaged is named and never loaded, by any command.

``RLCORE_ATTACK_DAMAGES=all pytest tests/faults/test_damages.py`` tries all 896, part of ``pytest --deep``; by
default each file has 8 of its 64.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.faults

RUN = {
    "max_steps": 800,
    "checkpoint_interval": 400,
    "summary_freq": 200,
    "evaluation": {"interval": 200, "episodes": 2},
}
FILES = [
    "configuration.yaml",
    "rlcore_run.json",
    "metrics.jsonl",
    "result.json",
    "run_logs/training_status.json",
    "run_logs/timers.json",
    *(f"checkpoints/800/{name}" for name in ("Agent.safetensors", "run.safetensors", "state.json", "manifest.json")),
    "checkpoints/800/configuration.yaml",
    *(f"checkpoints/best/BEST/{name}" for name in ("Agent.safetensors", "state.json", "manifest.json")),
]
RESUME = ("--resume", "--run-id", "run", "--results-dir", "results", "--set", "behaviors.Agent.max_steps=1200")
COMMANDS = {
    "status": ("status", "results/run"),
    "evaluate": ("evaluate", "results/run", "--episodes", "2"),
    "evaluate best": ("evaluate", "results/run", "--episodes", "2", "--checkpoint", "best"),
    "resume": ("run", *RESUME),
}


def flip(path: Path, draw: random.Random) -> None:
    content = bytearray(path.read_bytes())
    content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
    path.write_bytes(content)


def truncate(path: Path, draw: random.Random) -> None:
    os.truncate(path, draw.randrange(1, path.stat().st_size))


def blank(path: Path, draw: random.Random) -> None:
    """A page of zeros, as a file system gives back after a power cut."""
    content = path.read_bytes()
    path.write_bytes(bytes(min(4096, len(content))) + content[4096:])


def extend(path: Path, draw: random.Random) -> None:
    path.write_bytes(path.read_bytes() + draw.randbytes(100))


def swap(path: Path, draw: random.Random) -> None:
    """The file of another checkpoint, or of another kind."""
    other = Path(re.sub(r"/checkpoints/(best/)?\d+/", "/checkpoints/400/", str(path)))
    shutil.copy(other if other != path else next(path.parent.glob("*.[jy]*")), path.with_name("swapped"))
    path.with_name("swapped").replace(path)


def text(content: str) -> Callable[[Path, random.Random], None]:
    return lambda path, draw: path.write_text(content) and None


def remove(path: Path, draw: random.Random) -> None:
    path.unlink()


def in_its_place(make: Callable[[Path], Any]) -> Callable[[Path, random.Random], None]:
    def replace(path: Path, draw: random.Random) -> None:
        path.unlink()
        make(path)

    return replace


DAMAGES: list[Callable[[Path, random.Random], None]] = [
    *[flip] * 3, truncate, truncate, blank, extend, swap, remove,
    text(""), text("[]"), text("[" * 100_000), text(f'{{"{"x" * 5000}": 1e999, "run": {{}}, "files": 3}}'),
    in_its_place(Path.mkdir), in_its_place(os.mkfifo), in_its_place(lambda path: path.symlink_to("nowhere")),
]  # fmt: skip


@pytest.fixture(scope="module")
def sound(whole_run: Any, lasting_workplace: Any) -> dict[str, Any]:
    """The run, the step of its best policies, and what ``evaluate`` measures at each of its checkpoints."""
    place = lasting_workplace()
    shutil.copytree(whole_run(**RUN).path, place.path, dirs_exist_ok=True)
    (best,) = (path.name for path in (place.checkpoints / "best").iterdir())
    measured = {}
    for checkpoint in ("400", "800", "best"):
        process = place.command("evaluate", "results/run", "--episodes", "2", "--checkpoint", checkpoint)
        process.join(60)
        assert process.exitcode == 0, place.stderr
        measured[checkpoint] = place.stdout
    return {"run": place.run, "best": best, "measured": measured}


@pytest.mark.parametrize("name", [pytest.param(FILES[0], marks=pytest.mark.daily), *FILES[1:]])
def test_what_is_damaged_is_named_and_never_loaded(workplace: Any, sound: Any, name: str) -> None:
    draw = random.Random(name)
    cases = [(which, command) for which in range(len(DAMAGES)) for command in COMMANDS]
    assert len(DAMAGES) == 16
    if os.environ.get("RLCORE_ATTACK_DAMAGES") != "all":
        cases = draw.sample(cases, 8)
    place = workplace(**RUN)
    for which, command in cases:
        shutil.rmtree(place.results, ignore_errors=True)
        shutil.copytree(sound["run"], place.run)
        path = place.run / name.replace("BEST", sound["best"])
        content = path.read_bytes()
        DAMAGES[which](path, draw)
        if path.is_file() and path.read_bytes() == content:
            continue  # the other checkpoint has the same file
        process = place.command(*COMMANDS[command])
        process.join(60)
        said = place.stdout + place.stderr
        case = f"{name}, damage {which}, {command}: {said}"
        assert process.exitcode in (0, 5), case
        assert "unexpected" not in said and "Traceback" not in said and not re.search("[\x00-\x08\x0b-\x1f]", said), (
            case
        )
        if command == "resume" and not path.is_file() and process.exitcode == 5:
            (error,) = [line for line in place.stderr.splitlines() if line.startswith("error: ")]
            assert f"results/run/{name}: " in error, "what stands in the place of a file is not removed, but named"
            place.verify()
            continue
        judge(command, name, process.exitcode, place, sound, case)


def judge(command: str, name: str, code: int, place: Any, sound: Any, case: str) -> None:
    """A command that ends well has used what is whole, and says so."""
    newest = "400" if name.startswith("checkpoints/800") else "800"
    of_best = name.startswith("checkpoints/best")
    if command == "status":
        assert code == 0 and (("damaged" in case) or "checkpoints" not in name or of_best), case
    elif command == "evaluate":
        assert code == 0 and place.stdout == sound["measured"][newest], case
    elif command == "evaluate best":
        assert code == (5 if of_best else 0), case
        assert code == 5 or place.stdout == sound["measured"]["best"], case
    else:
        assert code == 0 and f"resumed at step {newest} from checkpoint" in place.stdout, case
        assert place.verify()[-1] == 1200, case
        assert json.loads((place.run / "result.json").read_text())["behaviors"]["Agent"]["steps"] == 1200, case
