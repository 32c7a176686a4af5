"""The state of plugins across a resume: their sections of the status, and a status that a plugin stores."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from rlcore import hookimpl
from rlcore.errors import PluginError
from rlcore.plugins.core import read_status_file
from rlcore.run.run import Run
from rlcore.run.saved.saved_run import load_policies
from rlcore_devkit.fixtures import RunRlcore

RESUME = {"checkpoint_settings.resume": True}


class Lessons:
    """A plugin with counters that must survive."""

    def __init__(self) -> None:
        self.counts = {"summaries": 0, "saved": 0}
        self.restored: Any = None

    @hookimpl
    def rlcore_summary_written(self) -> None:
        self.counts["summaries"] += 1

    @hookimpl
    def rlcore_checkpoint_saved(self) -> None:
        self.counts["saved"] += 1

    @hookimpl
    def rlcore_report_status(self, run: Any) -> dict[str, Any]:
        return {"lessons": self.counts}

    @hookimpl
    def rlcore_restore_status(self, sections: Mapping[str, Any]) -> None:
        self.restored = sections.get("lessons")
        self.counts = {key: self.restored[key] for key in self.counts}


def with_plugin(run: Run, plugin: object, name: str = "lessons", version: str = "1.0") -> Run:
    run.plugins.register(plugin, name, f"acme-{name}", version)
    return run


@pytest.mark.parametrize(
    ("file", "damage", "restored"),
    [
        ("checkpoints/120/state.json", None, 1),
        ("run_logs/training_status.json", None, 2),
        ("run_logs/training_status.json", "{", 2),
    ],
)
def test_sections_belong_to_the_checkpoint_the_run_goes_on_from_whatever_is_damaged(
    make_run: Any, files: Any, kill_after: Any, caplog: Any, file: str, damage: str | None, restored: int
) -> None:
    """The status file is of step 120. If 120 is damaged, plugins get back what they reported for step 80."""
    kill_after(with_plugin(make_run(), Lessons()), 150)
    path = files().path / file
    path.unlink() if damage is None else path.write_text(damage)
    lessons = Lessons()
    with_plugin(make_run(RESUME), lessons).train()
    assert lessons.restored == {"summaries": restored, "saved": restored}
    saved = [entry["steps"] for entry in files().status["Agent"]["checkpoints"]]
    assert saved == files().steps == [40, 80, 120, 160, 200] and (caplog.records == []) == (restored == 2)


def test_a_section_has_one_author(make_run: Any) -> None:
    run = with_plugin(with_plugin(make_run(), Lessons(), "one"), Lessons(), "two")
    told = r"'one' \(acme-one 1.0\) and plugin 'two' \(acme-two 1.0\) both report the status section 'lessons'"
    with pytest.raises(PluginError, match=told):
        run.train()


def test_a_plugin_may_add_to_a_behaviors_section_but_not_replace_its_checkpoints(make_run: Any, files: Any) -> None:
    class Rating:
        def __init__(self, key: str) -> None:
            self.key = key

        @hookimpl
        def rlcore_report_status(self, run: Any) -> dict[str, Any]:
            return {"Agent": {self.key: 1200.0}}

    with_plugin(make_run(), Rating("elo")).train()
    assert files().status["Agent"]["elo"] == 1200.0 and files().status["Agent"]["checkpoints"]
    with pytest.raises(PluginError, match=r"rlcore both report the status section 'Agent\.checkpoints'"):
        with_plugin(make_run({"checkpoint_settings.run_id": "other"}), Rating("checkpoints")).train()


class Database:
    """Keeps the status elsewhere, as a company would in SQLite."""

    def __init__(self) -> None:
        self.rows: dict[str, Any] = {}
        self.reads = 0

    @hookimpl
    def rlcore_write_status(self, status: Mapping[str, Any], directory: Path) -> bool:
        self.rows[str(directory)] = dict(status)
        return True

    @hookimpl
    def rlcore_read_status(self, directory: Path) -> Mapping[str, Any] | None:
        self.reads += 1
        return self.rows.get(str(directory))


def test_a_plugin_may_keep_the_status_elsewhere(make_run: Any, files: Any, kill_after: Any) -> None:
    database = Database()
    kill_after(with_plugin(with_plugin(make_run(), Lessons()), database, "database"), 150)
    assert read_status_file(files().path / "run_logs") is None
    lessons = Lessons()
    run = with_plugin(with_plugin(make_run(RESUME), lessons), database, "database")
    run.train()
    assert lessons.restored == {"summaries": 2, "saved": 2} and database.reads == 0
    (status,) = database.rows.values()
    assert [entry["steps"] for entry in status["Agent"]["checkpoints"]] == files().steps


def test_another_set_of_plugins_is_told(make_run: Any, caplog: pytest.LogCaptureFixture, kill_after: Any) -> None:
    kill_after(with_plugin(with_plugin(make_run(), Lessons()), object(), "gone"), 50)
    resumed = with_plugin(with_plugin(make_run(RESUME), Lessons(), version="2.0"), object(), "new")
    resumed.start()
    resumed.close("interrupted")
    (told,) = caplog.messages
    assert told.endswith(
        ": resumes with plugin 'gone' not loaded instead of acme-gone 1.0, plugin 'lessons' acme-lessons 2.0 instead "
        "of acme-lessons 1.0, plugin 'new' acme-new 1.0 instead of not loaded; nothing that is learned depends on that"
    )
    assert resumed.describe().resume.kind == "exact"


class Wraps:
    """Puts something around what is created, and leaves it as it is."""

    @hookimpl(wrapper=True)
    def rlcore_create_environment(self) -> Any:
        return (yield)

    rlcore_create_trainer = rlcore_create_stats_writer = rlcore_create_environment


@pytest.mark.parametrize(
    "command",
    [
        "evaluate RUN",
        "evaluate RUN --checkpoint best",
        "export RUN --format weights",
        "run --resume --run-id run --results-dir RESULTS",
        "run --inference --run-id run --results-dir RESULTS",
    ],
)
def test_commands_refuse_to_do_without_a_plugin_that_wrapped_a_factory_unless_it_is_turned_off(
    make_run: Any, files: Any, run_rlcore: RunRlcore, kill_after: Any, command: str
) -> None:
    exporter = [str(Path(__file__).parent / name) for name in ("stub_plugin.py", "stub_exporter.py")]
    run = make_run({"plugins.local": exporter, "evaluation": {"interval": 50, "episodes": 2}})
    kill_after(with_plugin(run, Wraps(), "acme"), 100)
    path = files().path
    words = [{"RUN": str(path), "RESULTS": str(path.parent)}.get(word, word) for word in command.split()]
    hook = "rlcore_create_trainer" if "export" in words else "rlcore_create_environment"  # what it makes first
    refused = run_rlcore(*words)
    assert refused.exit_code == 4
    assert refused.stderr.strip().endswith(
        f"plugin 'acme' (acme-acme 1.0) took part in {hook} when the checkpoint was saved, and does not now: "
        "pip install acme-acme, or do without it with -p no:acme-acme/acme"
    )
    if "--inference" not in command:  # which has no end
        assert run_rlcore(*words, "-p", "no:acme-acme/acme").exit_code == 0


def test_a_program_that_reads_a_run_needs_what_it_makes(make_run: Any, files: Any) -> None:
    run = with_plugin(make_run(), Wraps(), "acme")
    run.train()
    entries = files().json(f"checkpoints/{files().steps[-1]}/state.json")["run"]["factories"]
    assert [(each["hook"], each["distribution"], each["version"]) for each in entries] == [
        ("rlcore_create_environment", "acme-acme", "1.0"), ("rlcore_create_trainer", "acme-acme", "1.0"),
    ]  # fmt: skip
    with pytest.raises(PluginError, match=r"'acme' .* took part in rlcore_create_trainer"):
        load_policies(files().path, plugins=make_run().plugins)
    other = with_plugin(make_run(), Wraps(), "acme", version="2.0").plugins
    assert load_policies(files().path, plugins=other).keys() == {"Agent"}


def test_an_error_of_a_plugin_that_restores_its_section_stops_the_run(
    make_run: Any, files: Any, kill_after: Any
) -> None:
    class Fails(Lessons):
        @hookimpl
        def rlcore_restore_status(self, sections: Mapping[str, Any]) -> None:
            raise KeyError("lesson")

    kill_after(make_run(), 50)
    before = files().everything()
    with pytest.raises(PluginError, match=r"'lessons' \(acme-lessons 1.0\) failed in rlcore_restore_status"):
        with_plugin(make_run(RESUME), Fails()).train()
    assert files().everything() == before
