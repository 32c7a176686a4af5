"""Every command on every state of a run's folder, as a table of exit codes; and what may be gone afterwards.

No command loses a file that was there before, but ``--force`` what is rlcore's own, once the new run has a checkpoint.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

pytestmark = pytest.mark.faults

SHORT = {"max_steps": 800, "checkpoint_interval": 400, "summary_freq": 200}
EVALUATED = {"evaluation": {"interval": 200, "episodes": 2}}
NEVER = {"max_steps": 10_000_000, "checkpoint_interval": 10_000_000}

COMMANDS: dict[str, list[str]]
TABLE: str
COMMANDS, TABLE = yaml.safe_load((Path(__file__).parent / "data/commands_on_folders.yaml").read_text()).values()


def rows() -> Iterator[Any]:
    head, *lines = TABLE.strip("\n").splitlines()
    for line in lines:
        state = line[:16].strip()
        codes = line[16:].split()
        for command, code in zip(head.split(), codes, strict=True):
            yield pytest.param(state, command, int(code), id=f"{state}-{command}".replace(" ", "_"))


def test_the_table_has_every_pair() -> None:
    assert len(list(rows())) == len(STATES) * len(COMMANDS)


# ---------------------------------------------------------------- states


def content(file: Path) -> bytes:
    """Read the file; nothing if it is not there, or is being moved away."""
    try:
        return file.read_bytes()
    except FileNotFoundError:
        return b""


@pytest.fixture(scope="module")
def prepared(lasting_workplace: Any) -> Callable[..., Path]:
    """``prepared("done")``: the results directory of a run that was left so, made once for all tests."""
    made: dict[str, Path] = {}

    def make(kind: str) -> Path:
        if kind not in made:
            place = lasting_workplace()
            if kind == "done":
                place.configure(**SHORT)
                assert place.finish() == 0, place.stderr
            else:
                if kind == "replaced":
                    shutil.copytree(make("done"), place.results)
                place.configure(**NEVER, summary_freq=200, **(EVALUATED if kind == "best only" else {}))
                process = place.start(*(["--force"] if kind == "replaced" else []))
                sign = "checkpoints/best/200" if kind == "best only" else "metrics.jsonl"
                new = place.run / "rlcore_run.json"
                before = content(new)
                place.wait_for(lambda: content(new) not in (b"", before) and (place.run / sign).exists())
                place.wait_for(lambda: content(place.run / "metrics.jsonl") != b"")
                os.kill(process.pid, signal.SIGKILL)
                process.join()
            made[kind] = place.results
        return made[kind]

    return make


def foreign(place: Any, prepared: Any) -> None:
    """A finished run of ML-Agents."""
    (place.run / "run_logs").mkdir(parents=True)
    (place.run / "Agent").mkdir()
    (place.run / "configuration.yaml").write_text("behaviors:\n  Agent:\n    trainer_type: ppo\n")
    (place.run / "Agent.onnx").write_bytes(b"onnx")
    (place.run / "Agent" / "Agent-500.pt").write_bytes(b"weights")
    (place.run / "run_logs" / "training_status.json").write_text('{"metadata": {"stats_format_version": "0.3.0"}}')


def done(place: Any, prepared: Any) -> None:
    shutil.copytree(prepared("done"), place.results)


def no_checkpoints(place: Any, prepared: Any) -> None:
    done(place, prepared)
    shutil.rmtree(place.checkpoints)


def with_notes(place: Any, prepared: Any) -> None:
    """Files of a user's wherever one may put them."""
    done(place, prepared)
    places = ["", "run_logs", "checkpoints", "checkpoints/400", "checkpoints/best", "papers", ".old-drafts", ".tmp-x"]
    for folder in places:
        (place.run / folder).mkdir(exist_ok=True)
        (place.run / folder / "notes.txt").write_text(folder)


def unmounted(place: Any, prepared: Any) -> None:
    no_checkpoints(place, prepared)
    place.checkpoints.symlink_to(place.path / "disk" / "checkpoints")


def newer(place: Any, prepared: Any) -> None:
    done(place, prepared)
    for step in place.steps:
        path = place.checkpoints / str(step) / "manifest.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"checkpoint_format": 99}))


def damaged(place: Any, prepared: Any) -> None:
    done(place, prepared)
    for step in place.steps:
        os.truncate(place.checkpoints / str(step) / "Agent.safetensors", 100)


def half_damaged(place: Any, prepared: Any) -> None:
    done(place, prepared)
    os.truncate(place.checkpoints / "800" / "Agent.safetensors", 100)


def locked(place: Any, prepared: Any) -> None:
    """Another process continues the run."""
    done(place, prepared)
    metrics = place.run / "metrics.jsonl"
    size = metrics.stat().st_size
    place.start("--resume", "--set", "behaviors.Agent.max_steps=10000000",
                "--set", "behaviors.Agent.checkpoint_interval=10000000")  # fmt: skip
    place.wait_for(lambda: metrics.stat().st_size > size)


def link(place: Any, prepared: Any) -> None:
    place.results.mkdir()
    shutil.copytree(prepared("done") / "run", place.path / "elsewhere")
    place.run.symlink_to(place.path / "elsewhere")


def copied(kind: str) -> Callable[..., None]:
    """Leave the results directory as a process left it that ended, or was killed."""
    return lambda place, prepared: shutil.copytree(prepared(kind), place.results) and None


STATES: dict[str, Callable[..., None]] = {
    "missing": lambda place, prepared: place.results.mkdir(),
    "empty": lambda place, prepared: place.run.mkdir(parents=True),
    **{kind: copied(kind) for kind in ("killed early", "best only", "replaced", "done")},
    **{
        function.__name__.replace("_", " "): function
        for function in (foreign, no_checkpoints, with_notes, unmounted, newer, damaged, half_damaged, locked, link)
    },
}


# ---------------------------------------------------------------- commands


def everything(path: Path) -> dict[str, bytes]:
    """Every file, also below directories that links lead to, but for the locks."""
    found: dict[str, bytes] = {}
    for folder, _, names in os.walk(path, followlinks=True):
        for name in names:
            file = Path(folder, name)
            if name not in (".lock", "stdout", "stderr"):
                found[str(file.relative_to(path))] = file.read_bytes() if file.exists() else os.readlink(file).encode()
    return found


def ends(place: Any, argv: list[str], code: int) -> int:
    """The exit code of a command in a process of its own, interrupted where ``code`` is that of an interruption."""
    process = place.command(*argv)
    process.join(4.0 if code == 128 + signal.SIGINT else 60.0)
    if code == 128 + signal.SIGINT and process.exitcode is None:
        os.kill(process.pid, signal.SIGINT)
        process.join(60.0)
    assert process.exitcode is not None, "still running"
    return process.exitcode


# Views of a run, which a process that continues it writes again, and files that every process writes.
VIEWS = ("training_status.json", "timers.json", "result.json", "metrics.jsonl", "configuration.yaml", "rlcore_run.json")


@pytest.mark.parametrize(("state", "command", "code"), list(rows()))
def test_what_a_command_does_to_a_folder(workplace: Any, prepared: Any, state: str, command: str, code: int) -> None:
    place = workplace(**SHORT)
    STATES[state](place, prepared)
    before = everything(place.path)
    assert ends(place, COMMANDS[command], code) == code, place.stderr
    after = everything(place.path)
    errors = [line for line in place.stderr.splitlines() if line.startswith("error:")]
    assert len(errors) == (0 if code in (0, 130) else 1) and "unexpected" not in place.stderr, place.stderr
    if command in ("inference", "evaluate", "status") or code == 5:
        assert unlocked(after, state) == unlocked(before, state), "looking, and being refused, changes nothing"
        return
    lost = {name for name, data in before.items() if data not in after.values() and Path(name).name not in VIEWS}
    if command == "force" and state not in ("missing", "empty"):
        assert all(Path(name).name != "notes.txt" for name in lost)
        assert place.steps == [400, 800], "only once the new run had something of its own"
        left = {path.name for path in place.results.iterdir()}
        assert left == ({"run", "run.replaced"} if state in ("with notes", "unmounted") else {"run"})
    elif state == "half damaged" and command.startswith("resume"):
        assert all(name.startswith("results/run/checkpoints/800/") for name in lost), "an intact one is there now"
        assert place.verify() == [400, 800]
    elif command == "run" and state == "replaced":
        assert all(name.startswith("results/run.replaced/") for name in lost) and place.steps == [400, 800]
    else:
        assert lost == set()


def unlocked(files: dict[str, bytes], state: str) -> dict[str, bytes]:
    """Without what the other process writes."""
    changing = ("metrics.jsonl", "events.out") if state == "locked" else ()
    return {name: data for name, data in files.items() if not any(part in name for part in changing)}
