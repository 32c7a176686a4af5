"""Answers of plugins about the status are checked; errors name the plugin; no plugin changes another one's status."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from rlcore import hookimpl
from rlcore.errors import EnvironmentFailed, PluginError, RunStateError
from rlcore.run.run import Run

STUBS = [str(Path(__file__).parent / name) for name in ("stub_plugin.py", "stub_curriculum.py")]
PACED: dict[str, Any] = {
    "plugins.local": STUBS,
    "environment.type": "paced",
    "environment_parameters.pace": {"curriculum": {"type": "stages", "every": 5}},
}
RESUME = {"checkpoint_settings.resume": True}
LOOP: dict[str, Any] = {}
LOOP["loop"] = LOOP
WHO = r"^plugin 'rating' \(acme-rating 1.0\)"


class Reads:
    """Reads no status, as a plugin that writes one must be able to."""

    @hookimpl
    def rlcore_read_status(self) -> None: ...


class Reports:
    def __init__(self, answer: Any) -> None:
        self.answer = answer

    @hookimpl
    def rlcore_report_status(self) -> Any:
        return self.answer


class Spoils(Reads):
    """Empties what it is given, and stores nothing."""

    @hookimpl
    def rlcore_write_status(self, status: dict[str, Any]) -> None:
        status.clear()

    @hookimpl
    def rlcore_restore_status(self, sections: dict[str, Any]) -> None:
        for section in sections.values():
            section.clear()
        sections.clear()


class Hears:
    def __init__(self) -> None:
        self.restored: Mapping[str, Any] = {}

    @hookimpl
    def rlcore_report_status(self) -> Any:
        return {"rating": {"elo": 1200.0}}

    @hookimpl
    def rlcore_restore_status(self, sections: Mapping[str, Any]) -> None:
        self.restored = sections


def with_plugin(run: Run, plugin: object, name: str = "rating") -> Run:
    run.plugins.register(plugin, name, f"acme-{name}", "1.0")
    return run


REPORTS: dict[str, tuple[Any, str]] = {
    "a list": ([], ": rlcore_report_status answered a list instead of a mapping"),
    "a parameter's": ({"pace": {}}, " and rlcore both report the status section 'pace'"),
    "rlcore's": ({"metadata": {}}, " and rlcore both report the status section 'metadata'"),
    "a behavior's": ({"Agent": 3}, ": the status section of behavior 'Agent' is not a mapping"),
    "no text": ({3: {}}, ": rlcore_report_status answered what is not JSON: the key 3 is not a text"),
    "itself": ({"elo": LOOP}, ": rlcore_report_status answered what is not JSON: "),
}


@pytest.mark.parametrize("case", REPORTS)
def test_a_report_that_is_none_names_its_plugin_and_costs_no_checkpoint(make_run: Any, files: Any, case: str) -> None:
    answer, message = REPORTS[case]
    saved = "^checkpoint of step 40 is saved, its status is not: "
    with pytest.raises(PluginError, match=saved + WHO.removeprefix("^") + message):
        with_plugin(make_run(PACED), Reports(answer)).train()
    assert files().steps == [40]


def test_several_plugins_add_keys_to_the_section_of_a_behavior(make_run: Any, files: Any) -> None:
    run = with_plugin(make_run(PACED), Reports({"Agent": {"elo": 3}}), "other")
    with_plugin(run, Reports({"Agent": {"rank": 4}})).train()
    section = files().status["Agent"]
    assert (section["elo"], section["rank"]) == (3, 4) and section["checkpoints"]
    run = with_plugin(make_run({**PACED, "checkpoint_settings.force": True}), Reports({"Agent": {"elo": 3}}), "other")
    with pytest.raises(PluginError, match=r"both report the status section 'Agent\.elo'"):
        with_plugin(run, Reports({"Agent": {"elo": 4}})).train()


def test_what_is_not_finite_is_null_in_every_file_and_every_status(make_run: Any, files: Any) -> None:
    class Keeps(Reports):
        kept: Any = {"rating": {"elo": float("inf")}}

        @hookimpl
        def rlcore_read_status(self) -> Any:
            return self.kept

    run = with_plugin(make_run(), Keeps({"rating": {"elo": [float("nan"), 1.5]}}))
    run.train()
    assert files().status["rating"] == {"elo": [None, 1.5]}
    assert "NaN" not in (files().path / "checkpoints/200/state.json").read_text()
    assert run.plugins.read_status(Path()) == {"rating": {"elo": None}}
    Keeps.kept = {"rating": {1, 2}}
    with pytest.raises(
        PluginError, match=r"answered what is not JSON: rating: set is not a JSON value.*acme-rating 1.0"
    ):
        run.plugins.read_status(Path())


@pytest.mark.parametrize("first", [True, False])
def test_no_plugin_changes_what_another_is_given(make_run: Any, files: Any, first: bool) -> None:
    def run(hears: Hears, **more: Any) -> Run:
        pair = [(Spoils(), "spoils"), (hears, "hears")]
        run: Run = make_run({}, **more) if not more else make_run(RESUME, **more)
        for plugin, name in pair if first else reversed(pair):
            with_plugin(run, plugin, name)
        return run

    run(Hears()).train()
    assert files().status["rating"] == {"elo": 1200.0} and files().status["Agent"]["checkpoints"]
    hears = Hears()
    run(hears, max_steps=240).train()
    assert hears.restored["rating"] == {"elo": 1200.0}


@pytest.mark.parametrize(
    "error", [OSError(28, "No space left"), RunStateError("the database is locked"), KeyError("x")]
)
def test_without_a_written_status_the_checkpoint_is_saved_and_told(make_run: Any, files: Any, error: Exception) -> None:
    class Fails(Reads):
        @hookimpl
        def rlcore_write_status(self) -> None:
            raise error

    kind = RunStateError if isinstance(error, RunStateError) else PluginError
    with pytest.raises(
        kind, match=r"^checkpoint of step 40 is saved, its status is not: .*resume with --resume$"
    ) as told:
        with_plugin(make_run(), Fails()).train()
    assert kind is RunStateError or "plugin 'rating' (acme-rating 1.0) failed in rlcore_write_status" in str(told.value)
    assert files().steps == [40]
    make_run(RESUME).train()
    assert files().result["outcome"] == "done"


@pytest.mark.parametrize(
    ("owner", "state", "error", "told"),
    [
        ("trainer", None, PluginError, r"^behavior 'Agent': trainer 'numpy': state_dict returned a .*, not a mapping"),
        ("trainer", [1], PluginError, r"^behavior 'Agent': trainer 'numpy': state_dict returned a .*, not a mapping"),
        ("trainer", {"loop": LOOP, "model": {}}, PluginError, "^checkpoint of step 40: a state contains itself$"),
        ("environment", [1], EnvironmentFailed, "the environment's state_dict returned a list, not a mapping"),
    ],
)
def test_a_state_that_is_no_mapping_or_holds_itself_is_not_saved(
    make_run: Any, files: Any, owner: str, state: Any, error: type[Exception], told: str
) -> None:
    run = make_run()
    run.start()
    owned: Any = run.environment if owner == "environment" else run.behaviors["Agent"].trainer
    owned.state_dict = lambda: state
    with pytest.raises(error, match=told):
        run.train()
    assert files().steps == []


def test_lessons_come_from_the_checkpoint_if_need_be(
    make_run: Any, files: Any, caplog: pytest.LogCaptureFixture
) -> None:
    make_run({**PACED, "checkpoint_settings.run_id": "other"}).train()
    status = files("other").path / "run_logs" / "training_status.json"
    lesson = files("other").status["pace"]["lesson_num"]
    for damage in (lambda: status.write_text("{"), status.unlink):
        damage()
        caplog.clear()
        run = make_run({**PACED, "checkpoint_settings.initialize_lessons_from": "other"})
        run.start()
        assert run.lessons == {"pace": lesson} and lesson > 0
        assert "the newest checkpoint is read instead" in caplog.text
        run.close()
        shutil.rmtree(files().path, ignore_errors=True)
    shutil.rmtree(files("other").path / "checkpoints")
    with pytest.raises(RunStateError, match=r"initialize_lessons_from 'other': .*training"):
        make_run({**PACED, "checkpoint_settings": {"initialize_lessons_from": "other", "run_id": "third"}}).start()
