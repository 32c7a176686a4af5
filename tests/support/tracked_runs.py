"""Runs that trackers follow, without a training: writers, and senders that are killed at chosen places.

``KilledTracker`` stands before a real tracker in the sender. It kills its process, as ``kill -9`` does, where the file
``kills`` in the folder of the trackers says so: before or after the real tracker has sent a step.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import pytest

from rlcore import BehaviorSettings, RunConfig, RunContext, StatSummary, Tag
from rlcore_trackers import Tracked, TrackedFile, TrackedSummary, TrackerSettings
from rlcore_trackers.writer import TrackerWriter

PATIENCE = 60.0  # seconds; a sender that imports its library may wait for a loaded machine
KILLS = "kills"


def context(directory: Path, **resumed: int) -> RunContext:
    """The context of a run with the behaviors Walker and Striker in ``directory``."""
    directory.mkdir(exist_ok=True)
    config = RunConfig(behaviors={name: BehaviorSettings() for name in ("Walker", "Striker")})
    return RunContext(config, cast(Any, None), directory, 1, 1, resumed_steps=resumed)


def writer(name: str, tracker: str, settings: TrackerSettings, directory: Path, **resumed: int) -> TrackerWriter:
    """A tracker's writer, as a training makes it."""
    return TrackerWriter(name, tracker, settings, context(directory, **resumed))


def stats(reward: float) -> dict[str, StatSummary]:
    """A summary with a mean reward."""
    return {Tag.CUMULATIVE_REWARD: StatSummary.of([reward]), "Losses/Policy Loss": StatSummary.of([0.25])}


def until(what: Callable[[], object]) -> None:
    """Wait until ``what`` is true."""
    end = time.monotonic() + PATIENCE
    while not what():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.05)


def in_senders(monkeypatch: pytest.MonkeyPatch, **environment: str) -> None:
    """Let senders import this module, and give them variables."""
    for variable, value in {"PYTHONPATH": str(Path(__file__).parent), **environment}.items():
        monkeypatch.setenv(variable, value)


@contextmanager
def nothing_sent(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fail if a program that uses the variables for proxies connects to any host within the block."""
    with socket.create_server(("127.0.0.1", 0)) as proxy:
        proxy.setblocking(False)
        for variable in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(variable, f"http://127.0.0.1:{proxy.getsockname()[1]}")
        yield
        with pytest.raises(BlockingIOError):
            proxy.accept()


def send_by_hand(
    run: Path, name: str, block: Mapping[str, Any], *options: str, code: int = 0, given: bool = True
) -> subprocess.CompletedProcess[str]:
    """Send what is left of a run, by the command; with ``given``, a configuration of the user has the ``block``.

    Without, it is that of the run.
    """
    known = {"plugins": {"local": [str(Path(__file__).with_name("lake_plugin.py"))]}, "stats": {name: dict(block)}}
    of_run = {"behaviors": {"Walker": {}, "Striker": {}}}
    (run / "configuration.yaml").write_text(json.dumps(of_run if given else of_run | known))
    mine = run.parent / "mine.yaml"
    mine.write_text(json.dumps(known))
    command = [sys.executable, "-m", "rlcore_trackers", str(run), name]
    command += [*(("--config", str(mine)) if given else ()), *options]
    done = subprocess.run(command, check=False, timeout=100, capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    return done


def killed_twice(
    name: str, tracker: str, settings: TrackerSettings, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> list[tuple[str, int, float]]:
    """Track steps 100 to 600 with two kills, each of a training and its sender; return what the store is to have.

    The first sender is killed when step 200 was sent and not noted, the second one just before it sends step 500. Each
    resumed training repeats steps, with other times and, unlike a real one, other rewards: the first ones count.
    """
    (directory / "trackers").mkdir(parents=True)
    in_senders(monkeypatch, KILLED_TRACKER=tracker)
    with nothing_sent(monkeypatch):
        return _killed_twice(name, settings, directory, directory / "trackers" / KILLS)


def _killed_twice(name: str, settings: TrackerSettings, directory: Path, kills: Path) -> list[tuple[str, int, float]]:
    kills.write_text("after 200")
    killing = "tracked_runs:KilledTracker"
    first = writer(name, killing, settings, directory)
    for step in (100, 200, 300):
        first.write("Walker", step, stats(step / 100))
    until(lambda: not kills.exists())
    kills.write_text("before 500")
    second = writer(name, killing, settings, directory, Walker=100)
    for step in (200, 300, 400, 500):
        second.write("Walker", step, stats(step / 100 if step > 300 else -1.0))
    until(lambda: not kills.exists())
    third = writer(name, killing, settings, directory, Walker=300)
    for step in (400, 500, 600):
        third.write("Walker", step, stats(step / 100 if step > 500 else -1.0))
    third.write("Striker", 300, stats(0.5))
    third.run_finished("done")
    third.close()
    return [("Striker", 300, 0.5), *(("Walker", step, step / 100) for step in range(100, 700, 100))]


def git(directory: Path, *words: str) -> str:
    """Run a command of git's in ``directory``, without the settings of the user, and return its output."""
    settings = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false")
    done = subprocess.run(["git", *settings, *words], cwd=directory, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def repository(directory: Path) -> str:
    """Make ``directory`` a repository of git's with the file train.py; return its commit."""
    (directory / "train.py").touch()
    git(directory, "init", "--quiet")
    git(directory, "remote", "add", "origin", "https://user:secret@example.org/repository.git")
    git(directory, "add", "train.py")
    git(directory, "commit", "--quiet", "--message", "first")
    return git(directory, "rev-parse", "HEAD")


def written_in_study(
    name: str, tracker: str, settings: TrackerSettings, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> str:
    """Track the run walk-seed-3 from a repository with a change, for two summaries; return the commit.

    Each summary has three returns with the mean of step / 100 and the standard deviation of 2.
    """
    in_senders(monkeypatch)
    commit = repository(folder)
    (folder / "train.py").write_text("changed")
    monkeypatch.chdir(folder)
    tracked = writer(name, tracker, settings, folder / "walk-seed-3")
    for step in (100, 200):
        spread = [step / 100 + difference for difference in (-(6**0.5), 0.0, 6**0.5)]
        tracked.write("Walker", step, {**stats(0.0), Tag.CUMULATIVE_REWARD: StatSummary.of(spread)})
    tracked.run_finished("done")
    tracked.close()
    return commit


class KilledTracker:
    """The tracker that the variable KILLED_TRACKER names, in a process that is killed at chosen places."""

    def __init__(self, tracked: Tracked) -> None:
        module, _, name = os.environ["KILLED_TRACKER"].partition(":")
        self._kills = tracked.directory / "trackers" / KILLS
        self._tracker = getattr(import_module(module), name)(tracked)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tracker, name)

    def send(self, summaries: Sequence[TrackedSummary]) -> None:
        for summary in summaries:
            self._kill(f"before {summary.step}")
            self._tracker.send([summary])
            self._kill(f"after {summary.step}")

    def _kill(self, place: str) -> None:
        if self._kills.exists() and self._kills.read_text() == place:
            self._kills.unlink()
            os.kill(os.getpid(), signal.SIGKILL)


class FileTracker:
    """A tracker whose store is a file of one line for each summary, and that fails as the file ``faults`` says.

    The file ``about`` has the name, the group and the labels of the run. Checkpoints are copied to ``copies``.

    ``faults`` has JSON: ``fail``, the number of calls of ``send`` to fail; ``part``, the number of calls to fail after
    their first summary; ``refuse``, the steps of summaries that are never taken; ``lose``, the number of calls that
    store nothing and do not say so; ``hang``, whether ``finish`` never returns.
    """

    def __init__(self, tracked: Tracked) -> None:
        self._store = tracked.directory / "store"
        self._faults = tracked.directory / "faults"
        about = {"name": tracked.name, "group": tracked.group, **tracked.labels}
        (tracked.directory / "about").write_text(json.dumps(about))

    def sent(self) -> set[tuple[str, int]]:
        lines = self._store.read_text().splitlines() if self._store.exists() else []
        return {(behavior, int(step)) for behavior, step in (line.split() for line in lines)}

    def send(self, summaries: Sequence[TrackedSummary]) -> None:
        faults = self._read()
        if faults.get("fail"):
            self._faults.write_text(json.dumps({**faults, "fail": faults["fail"] - 1}))
            raise OSError("database is locked")
        if any(summary.step in faults.get("refuse", ()) for summary in summaries):
            raise ValueError("this step is out of range")
        if faults.get("lose"):
            self._faults.write_text(json.dumps({**faults, "lose": faults["lose"] - 1}))
            return
        part = bool(faults.get("part"))
        with self._store.open("a") as store:
            for summary in summaries[:1] if part else summaries:
                store.write(f"{summary.behavior} {summary.step}\n")
        if part:
            self._faults.write_text(json.dumps({**faults, "part": faults["part"] - 1}))
            raise OSError("connection lost")

    def send_file(self, file: TrackedFile) -> None:
        with (self._store.parent / "kept").open("a") as kept:
            kept.write(f"{file.kind} {file.step} {file.path.name}\n")
        if file.path.is_dir():
            shutil.copytree(file.path, self._store.parent / "copies" / str(file.step))

    def finish(self, outcome: str) -> str:
        if self._read().get("hang"):
            time.sleep(1e6)
        return f"the store has the {outcome} run"

    def close(self) -> None:
        """Do nothing."""

    def _read(self) -> dict[str, Any]:
        return json.loads(self._faults.read_text()) if self._faults.exists() else {}


def journaled(directory: Path, name: str) -> int:
    """The number of summaries in the journal of a run."""
    path = directory / f"trackers/{name}.jsonl"
    return sum('"summary"' in line for line in path.read_text("utf-8").splitlines()) if path.exists() else 0


def by_behavior(rows: Iterable[tuple[int, Mapping[str, float]]]) -> list[tuple[str, int, Mapping[str, float]]]:
    """Rows with keys BEHAVIOR/TAG as behavior, step and means by tag."""
    found = []
    for step, row in rows:
        (behavior,) = {key.partition("/")[0] for key in row if not key.startswith("_")}
        found.append((behavior, step, {key.partition("/")[2]: value for key, value in row.items()}))
    return sorted(found, key=lambda each: each[:2])


FILE = """
preset: none
environment: {{type: gymnasium, id: CartPole-v1, num_envs: 2}}
behaviors:
  CartPole:
    trainer_type: ppo
    hyperparameters: {{batch_size: 64, buffer_size: 256, num_epoch: 1}}
    network_settings: {{hidden_units: 16, num_layers: 1}}
    max_steps: 6000
    summary_freq: 500
    checkpoint_interval: 1000
stats:
  {name}: {block}
"""


def trained_and_killed_twice(name: str, block: Mapping[str, Any], folder: Path) -> list[tuple[str, int, float]]:
    """Train with the command in ``folder``, and kill first the training, then the training and its sender.

    Returns behavior, step and mean reward of each line of ``metrics.jsonl`` that has a reward.
    """
    import psutil  # which a tracker does not require

    (folder / "run.yaml").write_text(FILE.format(name=name, block=json.dumps(block)))
    command = [sys.executable, "-m", "rlcore", "run", "run.yaml", "--run-id", "run"]
    resumed: list[str] = []
    for summaries, with_sender in ((3, False), (8, True)):
        training = psutil.Popen([*command, *resumed], cwd=folder, stdout=subprocess.DEVNULL)
        until(lambda least=summaries: journaled(folder / "results/run", name) >= least)
        children = training.children()
        training.kill()
        for child in children if with_sender else []:
            child.kill()
        assert training.wait() == -signal.SIGKILL, "the training ended before it was killed"
        resumed = ["--resume"]
    subprocess.run([*command, *resumed], cwd=folder, check=True, stdout=subprocess.DEVNULL, timeout=200)
    lines = (folder / "results/run/metrics.jsonl").read_text().splitlines()
    metrics = [json.loads(line) for line in lines]
    assert [line["step"] for line in metrics] == list(range(500, 6500, 500))
    return [(line["behavior"], line["step"], line["stats"][Tag.CUMULATIVE_REWARD]) for line in metrics]


def written_while_locked(tracked: TrackerWriter, database: Path) -> None:
    """Write steps 100 to 300 of Walker, step 200 while another program has the SQLite database ``database`` locked.

    Fails if the training waits for the database.
    """
    tracked.write("Walker", 100, stats(1.0))
    until(lambda: database.exists() and database.stat().st_size and has_rows(database))
    with closing(sqlite3.connect(database, isolation_level=None, timeout=30)) as other:
        other.execute("BEGIN EXCLUSIVE")
        begun = time.monotonic()
        tracked.write("Walker", 200, stats(2.0))
        assert time.monotonic() - begun < 1.0
        time.sleep(3.0)
        other.execute("ROLLBACK")
    tracked.write("Walker", 300, stats(3.0))
    tracked.close()


def has_rows(database: Path) -> bool:
    """Whether the table metrics has rows."""
    with closing(sqlite3.connect(database)) as connection:
        try:
            return bool(connection.execute("SELECT 1 FROM metrics LIMIT 1").fetchall())
        except sqlite3.OperationalError:  # it is being made
            return False
