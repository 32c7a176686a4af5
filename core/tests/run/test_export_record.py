"""Exported files in the training status, where ML-Agents has the paths of its ``.onnx`` files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rlcore.errors import RunStateError
from rlcore.run.run import Run
from rlcore.run.saved.data import read_run
from rlcore.storage.run_files import ExportedFiles
from rlcore.storage.store import RunStore

STUBS = [str(Path(__file__).parent / name) for name in ("stub_plugin.py", "stub_exporter.py")]


def exporting(**settings: Any) -> dict[str, Any]:
    return {"export": {"weights": {"checkpoints": True, **settings}}, "plugins.local": STUBS}


def recorded(files: Any, behavior: str = "Agent") -> dict[int | str, str]:
    """``file_path`` of each checkpoint by its step, and of ``final_checkpoint``; every file in the status is there."""
    section = files.status[behavior]
    entries = {entry["run_steps"]: entry for entry in section["checkpoints"]}
    if "final_checkpoint" in section:
        entries["final"] = section["final_checkpoint"]
    for entry in entries.values():
        for path in (entry["file_path"], *entry["auxillary_file_paths"]):
            assert (files.path / path).is_file()
    return {step: entry["file_path"] for step, entry in entries.items()}


def weights(step: int) -> str:
    return f"checkpoints/{step}/Agent.safetensors"


def test_exported_files_are_recorded_as_ml_agents_does(make_run: Any, files: Any) -> None:
    make_run(exporting(), keep_checkpoints=2).train()
    found = recorded(files())
    assert found == {160: "Agent/Agent-160.json", 200: "Agent/Agent-200.json", "final": "Agent.json"}
    section = files().status["Agent"]
    final, last = section["final_checkpoint"], section["checkpoints"][-1]
    assert last["auxillary_file_paths"] == [weights(200), "checkpoints/200/state.json"]
    assert {**final, "file_path": last["file_path"]} == last


def test_without_exports_at_checkpoints_only_the_final_checkpoint_has_a_file(make_run: Any, files: Any) -> None:
    make_run(exporting(checkpoints=False), keep_checkpoints=2).train()
    assert recorded(files()) == {160: weights(160), 200: weights(200), "final": "Agent.json"}


def test_several_behaviors_have_their_own_files(make_run: Any, files: Any) -> None:
    names = ("Left", "Left.json", "Right")
    make_run(exporting() | {"environment.type": "pair"}, behaviors=("Left", "Right")).train()
    step = files().steps[-1]
    for name in ("Left", "Right"):
        found = recorded(files(), name)
        assert found[step] == f"{name}/{name}-{step}.json" and found["final"] == f"{name}.json"
    listed = ExportedFiles({"Left.json.onnx": 5, "Left.onnx": 5, "Left-5.onnx": 5, "Right.onnx": 4})
    assert [listed.of_end(name, 5, names) for name in names] == [["Left.onnx"], ["Left.json.onnx"], []]


def test_a_failed_export_at_the_end_does_not_record_an_earlier_file(make_run: Any, files: Any) -> None:
    make_run(exporting(checkpoints=False)).train()
    resumed = {**exporting(checkpoints=False, wrong="disk"), "checkpoint_settings.resume": True}
    make_run(resumed, max_steps=240).train()
    assert json.loads((files().path / "Agent.json").read_text())["about"]["step"] == 200
    assert recorded(files())["final"] == weights(240)


def test_a_resumed_run_keeps_the_record(make_run: Any, files: Any, kill_after: Any) -> None:
    kill_after(make_run(exporting()), 100)
    assert recorded(files()) == {40: "Agent/Agent-40.json", 80: "Agent/Agent-80.json"}
    make_run({**exporting(checkpoints=False), "checkpoint_settings.resume": True}).train()
    found = recorded(files())
    assert [found[40], found[80], found[120]] == ["Agent/Agent-40.json", "Agent/Agent-80.json", weights(120)]
    assert found["final"] == "Agent.json"
    before = files().status
    make_run({**exporting(), "checkpoint_settings.resume": True}).train()  # nothing is left to learn
    assert files().status == before


def test_a_status_that_is_made_from_the_checkpoints_has_the_files_too(make_run: Any, files: Any) -> None:
    make_run(exporting()).train()
    written = files().status["Agent"]["checkpoints"]
    (files().path / "run_logs/training_status.json").unlink()
    assert read_run(files().path).status["Agent"]["checkpoints"] == written


def test_a_status_that_cannot_be_written_after_an_export_ends_the_run_with_its_checkpoint(
    make_run: Any, files: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, calls = RunStore.write_status, []

    def second_fails(self: RunStore, final: bool = False) -> None:
        calls.append(final)
        if len(calls) == 2:
            raise RunStateError("no space left")
        write(self, final)

    run: Run = make_run(exporting())
    monkeypatch.setattr(RunStore, "write_status", second_fails)
    with pytest.raises(RunStateError, match="checkpoint of step 40 is saved, its status is not: no space left"):
        run.train()
    assert files().result["outcome"] == "failed" and recorded(files()) == {40: weights(40)}
    make_run({**exporting(), "checkpoint_settings.resume": True}).train()
    assert recorded(files())[40] == "Agent/Agent-40.json"
