"""The exports of a run: their files, what the status says of them, and that a failing one changes nothing else."""

from __future__ import annotations

import hashlib
import json
import logging
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from rlcore.errors import PluginError, RunStateError
from rlcore.run.run import Run
from rlcore.storage.mark import read_mark

STUBS = [str(Path(__file__).parent / name) for name in ("stub_plugin.py", "stub_exporter.py")]
RESUME = {"checkpoint_settings.resume": True}
ALL = {"Agent.json": 200}


def at_the_end(**settings: Any) -> dict[str, Any]:
    return {"export": {"weights": settings}, "plugins.local": STUBS}


def always(**settings: Any) -> dict[str, Any]:
    return at_the_end(checkpoints=True, **settings)


def exported(directory: Path) -> dict[str, int]:
    """The exported files and the step of the policy in each, with everything that is left of an export."""
    places = [
        path
        for pattern in ("*.json", "*/*.json", ".rlcore-tmp-*", "*/.rlcore-tmp-*")
        for path in directory.glob(pattern)
    ]
    ours = [path for path in places if path.name.startswith((".rlcore-tmp-", "Agent", "Left", "Right"))]
    return {str(path.relative_to(directory)): about(path)["step"] for path in ours}


def about(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text())["about"]  # type: ignore[no-any-return]


def beside(*steps: int) -> dict[str, int]:
    """Return the files that stand beside the checkpoints of these steps."""
    return {f"Agent/Agent-{step}.json": step for step in steps}


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


def learned(directory: Path) -> Mapping[str, bytes]:
    """The arrays of all checkpoints, by path."""
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.glob("checkpoints/*/*.safetens*")}


def configuration_checksum(directory: Path) -> str:
    """SHA-256 of all lines of ``configuration.yaml`` but the first, which has the same digits."""
    first, _, rest = (directory / "configuration.yaml").read_bytes().partition(b"\n")
    digits = hashlib.sha256(rest).hexdigest()
    assert first.decode().endswith(f": {digits}")
    return digits


def test_policies_are_exported_at_the_end_and_beside_the_checkpoints_that_are_kept(
    make_run: Any, files: Any, caplog: pytest.LogCaptureFixture
) -> None:
    run: Run = make_run(always(report="largest difference 2e-07"), keep_checkpoints=2)
    with caplog.at_level(logging.INFO, "rlcore"):
        run.train()
    directory = files().path
    assert exported(directory) == {**ALL, **beside(160, 200)}
    written = json.loads((directory / "Agent.json").read_text())
    assert written["weights"] == run.behaviors["Agent"].trainer.weights.tolist()
    facts = written["about"]
    assert (facts["run_id"], facts["behavior_steps"], facts["trainer_type"]) == ("run", 200, "numpy")
    assert facts["configuration_sha256"] == configuration_checksum(directory)
    (line,) = [record.getMessage() for record in caplog.records if "exported" in record.getMessage()]
    assert line == f"behavior 'Agent' is exported to {directory / 'Agent.json'}: largest difference 2e-07"
    assert files().result["exports"] == [{
        "exporter": "stub_exporter/weights", "behavior": "Agent", "step": 200, "file": "Agent.json", "problem": None,
        "report": "largest difference 2e-07",
    }]  # fmt: skip
    assert [(each.file, each.report) for each in run.exports] == [("Agent.json", "largest difference 2e-07")]
    mark = read_mark(directory)
    assert run.failures == [] and mark is not None and mark.exports == {**ALL, **beside(160, 200)}
    assert recorded(files()) == {160: "Agent/Agent-160.json", 200: "Agent/Agent-200.json", "final": "Agent.json"}
    final = files().status["Agent"]["final_checkpoint"]
    last = files().status["Agent"]["checkpoints"][-1]
    assert last["auxillary_file_paths"] == [weights(200), "checkpoints/200/state.json"]  # as ML-Agents writes it
    assert {**final, "file_path": last["file_path"]} == last


def test_without_checkpoints_the_last_policies_of_all_behaviors_are_exported(make_run: Any, files: Any) -> None:
    make_run(at_the_end() | {"environment.type": "pair"}, behaviors=("Left", "Right")).train()
    last = files().steps[-1]
    assert exported(files().path) == {"Left.json": last, "Right.json": last}
    for name in ("Left", "Right"):
        found = recorded(files(), name)
        assert found[last] == f"checkpoints/{last}/{name}.safetensors" and found["final"] == f"{name}.json"


FAILURES = yaml.safe_load((Path(__file__).parent / "data/refusals.yaml").read_text())["failing exports"]


@pytest.mark.parametrize("wrong", list(FAILURES))
def test_a_failing_export_does_not_stop_the_run_and_is_named_in_the_log_the_result_and_at_the_end(
    wrong: str, make_run: Any, files: Any, caplog: pytest.LogCaptureFixture
) -> None:
    run: Run = make_run(always(wrong=wrong))
    run.start()
    (opened,) = run._started.exports.exporters
    with caplog.at_level(logging.WARNING, "rlcore"):
        run.train()
    assert run.outcome == files().result["outcome"] == "done" and run.steps == 200
    assert exported(files().path) == {}
    (problem,) = {each["problem"] for each in files().result["exports"]}
    assert problem.endswith(FAILURES[wrong]) and "exporter 'weights' of plugin 'stub_exporter' (local)" in problem
    assert [each["step"] for each in files().result["exports"]] == [40, 80, 120, 160, 200, 200]
    assert [record.getMessage() for record in caplog.records].count(problem) == 1  # not at every checkpoint
    assert run.failures == [f"{problem} (6 times)"]
    tried = opened.exporter.tried  # type: ignore[attr-defined]
    assert tried == ([40] if wrong == "refuses" else [40, 80, 120, 160, 200, 200]), "what is refused is not tried again"


def test_an_exporter_that_cannot_work_is_an_error_of_the_start(make_run: Any, files: Any) -> None:
    with pytest.raises(PluginError, match=r"exporter 'absent' .*stub_exporter_that_is_absent"):
        make_run({"export": {"absent": {}}, "plugins.local": STUBS}).train()
    assert not files().path.exists()


# ------------------------------------------------------------ resumed, killed and replaced runs


@pytest.mark.parametrize("settings", [always(wrong="dies", at=80), at_the_end(wrong="dies")], ids=["80", "end"])
def test_a_run_that_is_killed_in_an_export_is_resumed_exactly(
    configure: Any, make_run: Any, files: Any, settings: dict[str, Any]
) -> None:
    make_run({"checkpoint_settings.run_id": "whole"}).train()
    code = "import json, sys; from rlcore import Run; Run(json.loads(sys.argv[1])).train()"
    config = json.dumps(configure(settings))
    dying = subprocess.run([sys.executable, "-c", code, config], check=False, capture_output=True)
    assert dying.returncode == 9, dying.stderr
    assert list(files().path.glob(".rlcore-tmp-export-*")) and not (files().path / "Agent.json").exists()
    during = "at" in settings["export"]["weights"]
    last = files().steps[-1]
    assert last == (80 if during else 200) and recorded(files())[last] == weights(last)
    make_run({**(always if during else at_the_end)(), **RESUME}).train()
    assert learned(files("whole").path) == learned(files().path)
    assert exported(files().path) == {**ALL, **(beside(40, 120, 160, 200) if during else {})}
    assert recorded(files())["final"] == "Agent.json" and files().result["outcome"] == "done"


def test_a_resumed_run_replaces_and_deletes_the_exports_of_the_earlier_process(
    make_run: Any, files: Any, kill_after: Any
) -> None:
    kill_after(make_run(always()), 100)
    assert exported(files().path) == beside(40, 80)
    before = configuration_checksum(files().path)
    make_run({**at_the_end(), **RESUME}).train()
    found = recorded(files())
    assert [found[40], found[80], found[120]] == ["Agent/Agent-40.json", "Agent/Agent-80.json", weights(120)]
    status = files().status
    make_run({**always(), **RESUME}).train()  # nothing is left to learn
    assert files().status == status
    assert {about(path)["configuration_sha256"] for path in files().path.glob("Agent/*.json")} == {before}
    make_run({**at_the_end(), **RESUME}, max_steps=240, keep_checkpoints=2).train()
    assert exported(files().path) == {"Agent.json": 240}
    after = configuration_checksum(files().path)
    assert about(files().path / "Agent.json")["configuration_sha256"] == after != before


def test_a_run_resumed_from_an_earlier_checkpoint_has_the_exports_up_to_it(make_run: Any, files: Any) -> None:
    make_run(always(), keep_checkpoints=0).train()
    with make_run({**always(), **RESUME, "checkpoint_settings.checkpoint": "80"}, keep_checkpoints=0) as run:
        run.start()
        assert exported(files().path) == beside(40, 80)


def test_a_stopped_run_is_exported_and_one_with_nothing_left_a_failed_one_or_inference_is_not(
    make_run: Any, files: Any
) -> None:
    with make_run(at_the_end()) as run:
        next(run)
    assert files().result["outcome"] == "interrupted" and exported(files().path) == {"Agent.json": run.steps}
    make_run({**at_the_end(), **RESUME}).train()
    (files().path / "Agent.json").unlink()
    make_run({**at_the_end(), **RESUME}).train()
    assert exported(files().path) == {} and files().result["exports"][0]["file"] == "Agent.json"
    with make_run({**always(), "checkpoint_settings.inference": True}) as run:
        next(run)
    assert exported(files().path) == {} and run.exports == ()
    with pytest.raises(PluginError, match="the loss is"):
        make_run({**at_the_end(), "checkpoint_settings.force": True}, hyperparameters={"fail_at": 100}).train()
    assert exported(files().path) == {}


# ------------------------------------------------------------ files of others


def test_a_file_of_the_name_that_the_run_did_not_write_is_neither_replaced_nor_deleted(
    make_run: Any, files: Any, kill_after: Any
) -> None:
    kill_after(make_run(), 100)
    directory = files().path
    (directory / "Agent").mkdir()
    mine = [directory / "Agent.json", directory / "Agent/Agent-120.json", directory / "Agent/notes.json"]
    for path in mine:
        path.write_text("mine")
    run: Run = make_run({**always(), **RESUME}, keep_checkpoints=1)
    run.start()
    for name in ("result.json", "run_logs/timers.json", "metrics.jsonl"):
        with pytest.raises(RunStateError, match="is a file that this run did not export"):
            run.directory.declare_export(name, None)
    run.train()
    assert run.outcome == "done" and [path.read_text() for path in mine] == ["mine"] * 3
    refused = [each["problem"] for each in files().result["exports"]]
    assert refused == [f"{path}: is a file that this run did not export; move it away" for path in mine[1::-1]]


def test_nothing_is_exported_through_a_link(make_run: Any, files: Any, tmp_path: Path) -> None:
    run = make_run(always())
    next(run)
    for path in (files().path / "Agent").iterdir():
        path.unlink()
    (files().path / "Agent").rmdir()
    (files().path / "Agent").symlink_to(tmp_path)
    run.train()
    assert not list(tmp_path.glob("*.json")) and exported(files().path) == ALL
    link = f"{files().path / 'Agent'}: is a symbolic link, and a run writes only in its directory; move it"
    assert {each["problem"] for each in files().result["exports"]} == {link, None}


def test_a_run_that_is_replaced_takes_its_exports_with_it_and_no_other_file(make_run: Any, files: Any) -> None:
    make_run(always()).train()
    (files().path / "Agent/notes.txt").write_text("mine")
    make_run({"checkpoint_settings.force": True}).train()
    assert exported(files().path) == {} and not list(files().path.parent.glob("run.replaced/**/*.json"))
    assert [path.read_text() for path in files().path.parent.rglob("notes.txt")] == ["mine"]


def test_an_edited_mark_does_not_reach_beyond_its_run(make_run: Any, files: Any, tmp_path: Path) -> None:
    make_run(always()).train()
    outside = tmp_path / "results/outside.json"
    path = files().path / "rlcore_run.json"
    mark = json.loads(path.read_text())
    names = ("../outside.json", str(outside), "a/b/c.json", "..", "Agent/../../outside.json")
    mark["exports"] = dict.fromkeys(names, 1)
    path.write_text(json.dumps(mark))
    found = read_mark(files().path)
    assert found is not None and found.exports == {}
