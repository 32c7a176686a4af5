"""The exports of a run: where they are, what becomes of them, and that a failing one changes nothing else."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from rlcore.errors import EXIT_PLUGIN, ConfigError, PluginError, RunStateError
from rlcore.run.run import Run
from rlcore.storage.run_files import read_mark
from rlcore_devkit.fixtures import RunRlcore

STUBS = [str(Path(__file__).parent / name) for name in ("stub_plugin.py", "stub_exporter.py")]


def exporting(**settings: Any) -> dict[str, Any]:
    return {"export": {"weights": settings}, "plugins.local": STUBS}


def exported(directory: Path) -> dict[str, int]:
    """The exported files and the step of the policy in each, with everything that is left of an export."""
    places = [
        path
        for pattern in ("*.json", "*/*.json", ".rlcore-tmp-*", "*/.rlcore-tmp-*")
        for path in directory.glob(pattern)
    ]
    ours = [path for path in places if path.name.startswith((".rlcore-tmp-", "Agent", "Left", "Right"))]
    return {str(path.relative_to(directory)): json.loads(path.read_text())["about"]["step"] for path in ours}


def test_policies_are_exported_at_the_end_and_beside_the_checkpoints_that_are_kept(make_run: Any, files: Any) -> None:
    run: Run = make_run(exporting(checkpoints=True), keep_checkpoints=2)
    run.train()
    directory = files().path
    assert exported(directory) == {"Agent.json": 200, "Agent/Agent-160.json": 160, "Agent/Agent-200.json": 200}
    written = json.loads((directory / "Agent.json").read_text())
    assert written["weights"] == run.behaviors["Agent"].trainer.weights.tolist()
    about = written["about"]
    assert (about["run_id"], about["behavior_steps"], about["trainer_type"]) == ("run", 200, "numpy")
    (shown,) = files().result["exports"]
    assert shown == {
        "exporter": "stub_exporter/weights", "behavior": "Agent", "step": 200, "file": "Agent.json", "problem": None,
        "report": None,
    }  # fmt: skip
    assert [each.file for each in run.exports] == ["Agent.json"] and run.failures == []
    mark = read_mark(directory)
    assert mark is not None
    assert mark.exports == {"Agent.json": 200, "Agent/Agent-160.json": 160, "Agent/Agent-200.json": 200}
    timers = files().json("run_logs/timers.json")["children"]
    assert timers["RLTrainer._checkpoint"]["children"]["Exporter.export"]["count"] == 5
    assert timers["Exporter.export"]["count"] == 1


def test_without_checkpoints_only_the_last_policies_are_exported(make_run: Any, files: Any) -> None:
    make_run(exporting() | {"environment.type": "pair"}, behaviors=("Left", "Right")).train()
    steps = files().steps[-1]
    assert exported(files().path) == {"Left.json": steps, "Right.json": steps}


def test_a_run_without_the_block_has_nothing_of_it(make_run: Any, files: Any) -> None:
    make_run().train()
    assert exported(files().path) == {} and "exports" not in files().result
    assert "Exporter" not in (files().path / "run_logs/timers.json").read_text()


FAILURES = {
    "raises": "failed to export behavior 'Agent': KeyError: 'layer'",
    "disk": "failed to export behavior 'Agent': OSError: [Errno 28] No space left on device",
    "exits": "failed to export behavior 'Agent': SystemExit: 3; raise an exception instead of calling sys.exit",
    "nothing": "export of behavior 'Agent' wrote no file",
    "empty": "export of behavior 'Agent' wrote an empty file",
    "folder": "export of behavior 'Agent' wrote something other than a file",
    "beside": "export of behavior 'Agent' wrote 'data.bin' beside its file; an export is one file",
    "two lines": "export of behavior 'Agent' returned 2 lines; a report is one line of text, or None",
    "number": "export of behavior 'Agent' returned a float; a report is one line of text, or None",
    "refuses": "behavior 'Agent' cannot be exported: it has no continuous actions",
}


@pytest.mark.parametrize("wrong", list(FAILURES))
def test_a_failing_export_does_not_stop_the_run_and_is_named_in_the_log_the_result_and_at_the_end(
    wrong: str, make_run: Any, files: Any, caplog: pytest.LogCaptureFixture
) -> None:
    run: Run = make_run(exporting(checkpoints=True, wrong=wrong))
    with caplog.at_level(logging.WARNING, "rlcore"):
        run.train()
    assert run.outcome == files().result["outcome"] == "done" and run.steps == 200
    assert exported(files().path) == {}
    problems = {each["problem"] for each in files().result["exports"]}
    (problem,) = problems
    assert problem.endswith(FAILURES[wrong]) and "exporter 'weights' of plugin 'stub_exporter' (local)" in problem
    assert [each["step"] for each in files().result["exports"]] == [40, 80, 120, 160, 200, 200]
    assert [record.getMessage() for record in caplog.records].count(problem) == 1  # not at every checkpoint
    assert run.failures == [f"{problem} (6 times)"]
    (opened,) = run._started.exports.exporters
    tried = [40] if wrong == "refuses" else [40, 80, 120, 160, 200, 200]  # what was refused is not tried again
    assert opened.exporter.tried == tried  # type: ignore[attr-defined]


@pytest.mark.parametrize("wrong", ["raises", "nothing"])
def test_strict_plugins_end_the_run_after_a_checkpoint(
    wrong: str, configure: Any, run_rlcore: RunRlcore, tmp_path: Path, files: Any
) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(json.dumps(configure(exporting(checkpoints=True, wrong=wrong, at=80))))
    ended = run_rlcore("run", path, "--strict-plugins")
    assert ended.exit_code == EXIT_PLUGIN and "exporter 'weights'" in ended.stderr
    assert files().result["outcome"] == "failed" and files().steps[-1] >= 80


def test_an_exporter_that_cannot_be_created_is_an_error_of_the_start(make_run: Any, files: Any) -> None:
    run = make_run({"export": {"absent": {}}, "plugins.local": STUBS})
    with pytest.raises(PluginError, match=r"exporter 'absent' .*stub_exporter_that_is_absent"):
        run.train()
    assert not files().path.exists()


# ------------------------------------------------------------ resumed, killed and replaced runs


def test_a_resumed_run_replaces_and_deletes_the_exports_of_the_earlier_process(
    make_run: Any, files: Any, kill_after: Any
) -> None:
    kill_after(make_run(exporting(checkpoints=True)), 100)
    assert exported(files().path) == {"Agent/Agent-40.json": 40, "Agent/Agent-80.json": 80}
    make_run({**exporting(), "checkpoint_settings.resume": True}, keep_checkpoints=2).train()
    assert exported(files().path) == {"Agent.json": 200}
    make_run({**exporting(), "checkpoint_settings.resume": True}, max_steps=240).train()
    assert exported(files().path) == {"Agent.json": 240}


def test_a_stopped_run_is_exported_and_one_with_nothing_left_is_not_again(make_run: Any, files: Any) -> None:
    with make_run(exporting()) as run:
        next(run)
    assert files().result["outcome"] == "interrupted" and exported(files().path) == {"Agent.json": run.steps}
    make_run({**exporting(), "checkpoint_settings.resume": True}).train()
    (files().path / "Agent.json").unlink()
    make_run({**exporting(), "checkpoint_settings.resume": True}).train()
    assert exported(files().path) == {} and files().result["exports"][0]["file"] == "Agent.json"


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
    run: Run = make_run({**exporting(checkpoints=True), "checkpoint_settings.resume": True}, keep_checkpoints=1)
    run.train()
    assert run.outcome == "done" and [path.read_text() for path in mine] == ["mine"] * 3
    refused = [each["problem"] for each in files().result["exports"]]
    assert refused == [f"{path}: is a file that this run did not export; move it away" for path in mine[1::-1]]


@pytest.mark.parametrize("obstacle", ["file", "link"])
def test_a_folder_that_cannot_be_made_is_a_failure(make_run: Any, files: Any, kill_after: Any, obstacle: str) -> None:
    kill_after(make_run(), 100)
    place = files().path / "Agent"
    place.write_text("mine") if obstacle == "file" else place.symlink_to("nowhere")
    run: Run = make_run({**exporting(checkpoints=True), "checkpoint_settings.resume": True})
    run.train()
    assert run.outcome == "done"
    problem = "cannot be made: " if obstacle == "file" else "is a symbolic link, and a run writes only in its directory"
    assert any(str(each.problem).startswith(f"{place}: {problem}") for each in run.exports)


def test_a_name_that_rlcore_uses_is_not_taken(make_run: Any, files: Any) -> None:
    run: Run = make_run(exporting(), max_steps=80)
    run.start()
    for name in ("result.json", "run_logs/timers.json", "metrics.jsonl"):
        with pytest.raises(RunStateError, match="is a file that this run did not export"):
            run.directory.declare_export(name, None)
    run.close()


def test_an_edited_mark_does_not_reach_beyond_its_run(make_run: Any, files: Any, tmp_path: Path) -> None:
    make_run(exporting(checkpoints=True)).train()
    outside = tmp_path / "results/outside.json"
    outside.write_text("mine")
    path = files().path / "rlcore_run.json"
    mark = json.loads(path.read_text())
    names = ("../outside.json", str(outside), "a/b/c.json", "..", "Agent/../../outside.json")
    mark["exports"] = dict.fromkeys(names, 1)
    path.write_text(json.dumps(mark))
    found = read_mark(files().path)
    assert found is not None and found.exports == {}
    make_run({**exporting(), "checkpoint_settings.resume": True}, max_steps=240).train()
    assert outside.read_text() == "mine"
    for wrong in ({"Agent.json": -1}, {"Agent.json": "one"}, ["Agent.json"]):
        path.write_text(json.dumps(mark | {"exports": wrong}))
        assert read_mark(files().path) is None


def test_what_an_exporter_lacks_is_an_error_of_the_start_at_its_key(make_run: Any, files: Any) -> None:
    run = make_run(exporting(wrong="lacks a package"))
    with pytest.raises(ConfigError, match=r"export.weights: Agent with 3 weights needs acme-weights$"):
        run.train()
    assert files().steps == []
