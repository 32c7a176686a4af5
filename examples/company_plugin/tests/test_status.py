"""Runs store their status in the database only, and the database follows a run that is resumed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import closing
from copy import deepcopy
from pathlib import Path
from typing import Any

import attrs
import pytest
import yaml
from acme_rl import store

from rlcore import Run, RunStateError, hookimpl
from rlcore_devkit import RunRlcore, StatusSectionConformance, StatusStoreConformance

LESSONS = "SELECT step, parameter, lesson, name, previous, previous_name FROM lessons ORDER BY rowid"
MORE = ["--set", "behaviors.Pole.max_steps=4500"]


@pytest.fixture(scope="module")
def with_lessons(short_run: dict[str, Any]) -> dict[str, Any]:
    """The run, longer, with a lesson after each fifth of it."""
    config = deepcopy(short_run)
    config["behaviors"]["Pole"] |= {"max_steps": 4000, "summary_freq": 2000, "keep_checkpoints": 0}
    lessons = [
        {"name": name, "value": value, "completion_criteria": {**criteria, "threshold": threshold}}
        for criteria in [{"measure": "progress", "behavior": "Pole"}]
        for name, value, threshold in [("long", 1.0, 0.2), ("medium", 0.7, 0.4), ("short", 0.5, 0.6)]
    ]
    config["environment_parameters"] = {"length": {"curriculum": [*lessons, {"name": "shortest", "value": 0.25}]}}
    return config


class TestSections(StatusSectionConformance):
    plugin = "acme-rl/acme"


class TestStore(StatusStoreConformance):
    plugin = "acme-rl/acme"


@attrs.frozen
class Place:
    """A run in ``path/results``, where ``path`` contains ``config.yaml`` with ``config``."""

    path: Path
    config: dict[str, Any]
    run: str = "run"

    @property
    def logs(self) -> Path:
        return self.path / "results" / self.run / "run_logs"

    def rows(self, query: str) -> list[Any]:
        with closing(sqlite3.connect(self.logs / store.FILE_NAME)) as database:
            return database.execute(query).fetchall()

    @property
    def steps(self) -> list[int]:
        """Return the steps of the checkpoints on disk in ascending order."""
        return sorted(int(path.name) for path in (self.logs.parent / "checkpoints").glob("[0-9]*"))


@pytest.fixture
def place(
    run_rlcore: RunRlcore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, with_lessons: dict[str, Any]
) -> Place:
    """Return the run in the working directory of ``run_rlcore``."""
    monkeypatch.setenv("LOGNAME", "ann")
    working = tmp_path / "working"
    (working / "config.yaml").write_text(yaml.safe_dump(with_lessons))
    return Place(working, with_lessons)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, with_lessons: dict[str, Any]) -> Path:
    """Return a working directory with a finished run. Training takes longest, so it is done once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOGNAME", "ann")
        patch.chdir(tmp_path_factory.mktemp("trained"))
        Run(with_lessons).train()
        return Path.cwd()


@pytest.fixture
def finished(place: Place, trained: Path) -> Place:
    """Return a copy of the finished run."""
    shutil.copytree(trained / "results", place.path / "results")
    return place


def resuming(place: Place) -> dict[str, Any]:
    """Return the configuration that resumes the run."""
    settings = {"run_id": place.run, "results_dir": str(place.path / "results"), "resume": True}
    return {**place.config, "checkpoint_settings": settings}


# ---------------------------------------------------------------- a run


def test_the_database_replaces_the_status_file_and_rlcore_status_reads_it(
    finished: Place, run_rlcore: RunRlcore
) -> None:
    assert not (finished.logs / "training_status.json").exists()
    answer = run_rlcore("status", "run", "--json")
    assert (answer.exit_code, answer.stderr) == (0, "")
    status = json.loads(answer.stdout)["status"]
    assert status["length"]["lesson_num"] == 3 and status["length"]["lesson"] == "shortest"
    assert [entry["run_steps"] for entry in status["Pole"]["checkpoints"]] == finished.steps
    assert status["Pole"]["final_checkpoint"]["run_steps"] == finished.steps[-1]
    (started,) = status["acme"]["starts"]
    assert (started["user"], started["step"]) == ("ann", 0) and started["at"].endswith("+00:00")
    assert "3 (shortest)" in run_rlcore("status", "run").stdout


def test_every_checkpoint_and_every_lesson_change_is_a_row(place: Place, run_rlcore: RunRlcore) -> None:
    changes: list[tuple[Any, ...]] = []

    class Listener:
        @hookimpl
        def rlcore_lesson_changed(self, step: int, change: Any) -> None:
            changes.append((step, *attrs.astuple(change)))

    config = {**place.config, "checkpoint_settings": {"run_id": "run", "results_dir": str(place.path / "results")}}
    run = Run(config)
    run.plugins.register(Listener(), "listener")
    run.train()
    kept = place.rows("SELECT step, document FROM status ORDER BY step")
    assert [step for step, _ in kept] == place.steps
    assert [json.loads(document)["metadata"]["run_steps"] for _, document in kept] == place.steps
    assert place.rows("SELECT step, parameter, lesson, name, previous, previous_name FROM lessons") == changes
    assert [lesson for _, _, lesson, *_ in changes] == [1, 2, 3]


# ---------------------------------------------------------------- stopped and resumed


KILLER = """\
import os, signal
from rlcore import hookimpl

@hookimpl(trylast=True)
def rlcore_lesson_changed(change):
    if change.lesson == 2:
        os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_run_that_is_killed_and_resumed_has_the_rows_of_a_run_that_was_never_stopped(
    finished: Place, run_rlcore: RunRlcore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process is killed after a lesson change that no checkpoint has. The change comes again and is stored once."""
    killed = attrs.evolve(finished, run="killed")
    (finished.path / "killer.py").write_text(KILLER)
    words = ["run", "config.yaml", "--run-id", "killed", "-p", "module:./killer.py"]
    ran = subprocess.run([sys.executable, "-m", "rlcore.cli.main", *words], cwd=finished.path, check=False)
    assert ran.returncode == -signal.SIGKILL
    at = killed.steps[-1]
    lesson = killed.rows(LESSONS)[-1]
    assert lesson[0] > at and lesson[2] == 2
    monkeypatch.setenv("LOGNAME", "bob")
    resumed = run_rlcore("run", "config.yaml", "--resume", "--run-id", "killed")
    assert (resumed.exit_code, "status" in resumed.stderr) == (0, False)
    for query in (LESSONS, "SELECT step FROM status"):
        assert killed.rows(query) == finished.rows(query)
    status = store.read(killed.logs)
    assert status is not None
    assert [(each["user"], each["step"]) for each in status["acme"]["starts"]] == [("ann", 0), ("bob", at)]


def test_a_resumed_run_receives_the_status_of_its_checkpoint_and_not_of_the_database(finished: Place) -> None:
    written = store.read(finished.logs)
    assert written is not None
    with store.opened(finished.logs) as database:
        changed = {**written, "noted by hand": {"job": 7}, "length": {"lesson_num": 0}}
        database.execute("UPDATE status SET document = ? WHERE step = 4000", (json.dumps(changed),))
    restored: list[Mapping[str, Any]] = []

    class Listener:
        @hookimpl
        def rlcore_restore_status(self, sections: Mapping[str, Any]) -> None:
            restored.append(sections)

    run = Run(resuming(finished))
    run.plugins.register(Listener(), "listener")
    run.start()
    run.close("failed")
    (sections,) = restored
    assert "noted by hand" not in sections and sections["length"] == written["length"] != changed["length"]
    assert [entry["run_steps"] for entry in sections["Pole"]["checkpoints"]] == finished.steps


def test_a_run_that_resumes_from_an_older_checkpoint_drops_later_rows(finished: Place) -> None:
    before = finished.rows(LESSONS)
    for step in (4000, 3500, 3000, 2500, 2000):
        (finished.path / f"results/run/checkpoints/{step}/state.json").unlink()
    run = Run(resuming(finished))
    run.start()
    assert finished.rows(LESSONS) == [row for row in before if row[0] <= 1500] != before
    assert finished.rows("SELECT step FROM status") == [(500,), (1000,), (1500,)]
    run.train()
    assert finished.rows(LESSONS) == before


def test_inference_changes_nothing(finished: Place, run_rlcore: RunRlcore, monkeypatch: pytest.MonkeyPatch) -> None:
    from rlcore import Plugins

    before = (finished.logs / store.FILE_NAME).read_bytes()

    def stop(self: Plugins, hook: str, **arguments: Any) -> None:
        if hook == "rlcore_summary_written":
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(Plugins, "notify", stop)
    assert run_rlcore("run", "--inference", "--run-id", "run").exit_code == 143
    assert (finished.logs / store.FILE_NAME).read_bytes() == before


def test_a_run_that_started_without_the_package_continues_in_the_database(place: Place, run_rlcore: RunRlcore) -> None:
    plain = {name: block for name, block in place.config.items() if name != "acme"}
    (place.path / "plain.yaml").write_text(yaml.safe_dump(plain))
    assert run_rlcore("run", "plain.yaml", "-p", "no:acme").exit_code == 0
    assert not (place.logs / store.FILE_NAME).exists()
    assert run_rlcore("run", "config.yaml", "--resume", *MORE).exit_code == 0
    status = store.read(place.logs)
    assert status is not None
    assert [entry["run_steps"] for entry in status["Pole"]["checkpoints"]] == place.steps


def test_another_run_starts_with_the_lessons_in_the_database(finished: Place, run_rlcore: RunRlcore) -> None:
    lessons = ["--set", "checkpoint_settings.initialize_lessons_from=run", "--set", "behaviors.Pole.max_steps=40"]
    assert run_rlcore("run", "config.yaml", "--run-id", "next", *lessons).exit_code == 0
    status = store.read(attrs.evolve(finished, run="next").logs)
    assert status is not None and status["length"]["lesson_num"] == 3


# ---------------------------------------------------------------- a database that is lost or damaged


def test_the_checkpoint_replaces_a_lost_database(finished: Place, run_rlcore: RunRlcore) -> None:
    before = finished.rows("SELECT * FROM starts")
    (finished.logs / store.FILE_NAME).unlink()
    resumed = run_rlcore("run", "--resume", "--run-id", "run", *MORE)
    assert (resumed.exit_code, "status" in resumed.stderr) == (0, False)
    assert finished.rows("SELECT * FROM starts")[:-1] == before and len(before) == 1


def overwrite(path: Path) -> None:
    path.write_bytes(b"this was a database" * 100)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:5000])


def garble(path: Path) -> None:
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("UPDATE status SET document = substr(document, 1, 40)")


@pytest.mark.parametrize("damage", [overwrite, cut])
def test_the_error_of_a_damaged_database_is_one_line_with_the_solution(
    finished: Place, run_rlcore: RunRlcore, damage: Callable[[Path], None]
) -> None:
    damage(finished.logs / store.FILE_NAME)
    damaged = (finished.logs / store.FILE_NAME).read_bytes()
    for words in (["status", "run"], ["run", "--resume", "--run-id", "run", *MORE]):
        answer = run_rlcore(*words)
        (line,) = answer.stderr.splitlines()
        assert (answer.exit_code, answer.stdout) == (5, "")
        assert line.startswith("error: results/run/run_logs/status.db: ")
        assert line.endswith("restore it from a backup, or delete it: checkpoints hold the status")
    assert (finished.logs / store.FILE_NAME).read_bytes() == damaged and finished.steps[-1] == 4000


def test_a_damaged_row_stops_rlcore_status_and_the_resumed_run_writes_it_again(
    finished: Place, run_rlcore: RunRlcore
) -> None:
    garble(finished.logs / store.FILE_NAME)
    answer = run_rlcore("status", "run")
    assert answer.exit_code == 5 and answer.stderr.startswith("error: results/run/run_logs/status.db: ")
    assert run_rlcore("run", "--resume", "--run-id", "run", *MORE).exit_code == 0
    assert run_rlcore("status", "run").exit_code == 0


INTERRUPTED = """\
import os, pathlib, sys
from acme_rl import store

directory = pathlib.Path(sys.argv[1])
store.write(directory, {"metadata": {"run_steps": 1}, "kept": "old"})
with store.opened(directory) as database:
    database.execute("PRAGMA cache_size = 1")  # so that SQLite writes to the file before the transaction ends
    for step in range(1, 200):
        database.execute("INSERT OR REPLACE INTO status VALUES (?, '', ?)", (step, "x" * 5000))
    os._exit(9)
"""


def test_a_process_that_is_killed_while_writing_leaves_the_previous_status(tmp_path: Path) -> None:
    ran = subprocess.run([sys.executable, "-c", INTERRUPTED, tmp_path], check=False)
    assert ran.returncode == 9 and (tmp_path / "status.db-journal").exists()
    assert store.read(tmp_path) == {"metadata": {"run_steps": 1}, "kept": "old"}


def test_the_error_of_a_database_that_cannot_be_written_names_its_path(tmp_path: Path) -> None:
    with pytest.raises(RunStateError, match=r"nowhere/status\.db: unable to open database file; restore"):
        store.write(tmp_path / "nowhere", {"metadata": {"run_steps": 1}})
