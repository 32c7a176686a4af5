"""Programs read a run back by ``rlcore.read_run``: a finished one, one that trains, and a damaged one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

import rlcore
from rlcore.errors import RunStateError
from rlcore.run.run import Run


def test_a_finished_run_is_read_as_its_files_say(make_run: Any, files: Any) -> None:
    make_run().train()
    data = rlcore.read_run(files().path)
    assert data.directory == files().path and not data.running and data.damaged == ()
    assert data.configuration == yaml.safe_load((files().path / "configuration.yaml").read_text())
    assert data.status == files().status and data.result == files().result
    assert [each.step for each in data.checkpoints] == files().steps == [40, 80, 120, 160, 200]
    assert all(each.path.is_dir() and each.problem == "" for each in data.checkpoints)
    assert [(each.behavior, each.step, each.time, each.stats) for each in data.metrics] == [
        (line["behavior"], line["step"], line["time"], line["stats"]) for line in files().metrics
    ]


def test_a_run_that_trains_has_no_result_yet(make_run: Any, files: Any) -> None:
    run: Run = make_run()
    run.start()
    before = rlcore.read_run(str(files().path))
    assert before.running and before.result is None and before.status == {} and before.checkpoints == ()
    assert before.metrics == ()
    next(run)
    data = rlcore.read_run(files().path)
    assert [each.step for each in data.checkpoints] == [40] and len(data.metrics) == 1
    assert data.status["metadata"]["run_steps"] == 40
    run.close()
    (files().path / "metrics.jsonl").unlink()
    (files().path / "run_logs" / "timers.json").unlink()
    data = rlcore.read_run(files().path)
    assert data.unreadable_metrics == () and data.timers is None


def test_an_unknown_run_is_refused(make_run: Any, files: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_run({"checkpoint_settings.run_id": "walker"}, max_steps=50).train()
    (files("walkers").path).mkdir()  # not a run
    monkeypatch.chdir(tmp_path)
    for typed, meant in (("wlaker", "walker"), ("nothing", None)):
        hint = f"; did you mean '{meant}'?" if meant else ""
        with pytest.raises(RunStateError) as raised:
            rlcore.read_run(typed)
        assert str(raised.value) == f"{typed}: neither a run directory nor the id of a run in results/{hint}"


def test_damaged_files_are_named_and_the_rest_is_read(make_run: Any, files: Any) -> None:
    make_run().train()
    path = files().path
    timers = path / "run_logs" / "timers.json"
    assert rlcore.read_run(path).timers == json.loads(timers.read_text())
    for name, text in (("result.json", "{"), ("run_logs/training_status.json", "[]"), ("run_logs/timers.json", "[")):
        (path / name).write_text(text)
    (path / "checkpoints/200/Agent.safetensors").write_bytes(b"")
    lines = (path / "metrics.jsonl").read_text().splitlines()
    bad = ["", "{", "[]", '{"behavior": "Agent", "step": 1}', '{"behavior": 1, "step": 1, "stats": {}}']
    bad.append(json.dumps({"behavior": "Agent", "step": 7, "time": 1, "stats": {"a": "x", "b": None, "c": 2}}))
    (path / "metrics.jsonl").write_text("\n".join([*lines, *bad, '{"behavior": "Ag']))
    data = rlcore.read_run(path)
    assert data.result is data.timers is None and len(data.damaged) == 2
    assert [bool(each.problem) for each in data.checkpoints] == [False] * 4 + [True]
    assert data.status["metadata"]["run_steps"] == 160  # made from the newest intact checkpoint
    assert len(data.metrics) == 5 and data.metrics[-1].stats == {"b": None, "c": 2}
    assert data.unreadable_metrics == (6, 7, 8, 9, 11)  # line 5 is empty, and that is none


@pytest.mark.parametrize("end", ["\n", "\r", "\x1b[31m\n", "\u2028"])
def test_a_file_of_somebody_else_prints_no_line_of_its_own(
    make_run: Any, files: Any, run_rlcore: Any, end: str
) -> None:
    make_run().train()
    path = files().path
    forged = f"done{end}error: all weights are lost"
    (path / "result.json").write_text(json.dumps({**files().result, "outcome": forged}))
    line = json.dumps({"behavior": forged, "step": 1, "stats": {}})
    (path / "metrics.jsonl").write_text(f"{line}\n")
    data = rlcore.read_run(path)
    assert data.result is None and data.metrics == ()
    assert any("has no outcome of one line" in each for each in data.damaged)
    shown = run_rlcore("status", path)
    assert not any(line.startswith("error:") for line in (shown.stdout + shown.stderr).splitlines())


def test_the_state_of_the_trainers_in_a_checkpoint_is_read(make_run: Any, files: Any) -> None:
    run: Run = make_run()
    with run:
        run.train()
        expected = run.behaviors["Agent"].trainer.state_dict()
    newest = rlcore.read_checkpoint(files().path)
    assert (newest.step, newest.path) == (200, files().path / "checkpoints/200")
    assert newest.trainers.keys() == {"Agent"}
    assert newest.trainers["Agent"].keys() == expected.keys()
    assert rlcore.read_checkpoint(str(files().path), "80").step == 80
    with pytest.raises(RunStateError, match="there is no checkpoint '81'; there are 40, 80, 120, 160, 200"):
        rlcore.read_checkpoint(files().path, "81")


def test_the_latest_summaries_are_those_at_the_end_of_the_metrics(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bytes that are read begin within a line, and the last line is being written."""
    monkeypatch.setattr("rlcore.run.saved.data.TAIL", 400)
    metrics = tmp_path / "metrics.jsonl"
    assert rlcore.latest_summaries(tmp_path) == {}
    lines = [json.dumps({"behavior": f"Agent{k % 2}", "step": k, "time": k, "stats": {"x": 0.5}}) for k in range(100)]
    metrics.write_text("\n".join(lines) + "\n\nnothing\n" + lines[0][:20])
    latest = rlcore.latest_summaries(tmp_path)
    assert [(name, summary.step) for name, summary in latest.items()] == [("Agent1", 99), ("Agent0", 98)]
    metrics.write_text(lines[7])  # a file of fewer bytes
    assert [summary.step for summary in rlcore.latest_summaries(tmp_path).values()] == [7]
    metrics.unlink()
    metrics.mkdir()
    assert rlcore.latest_summaries(tmp_path) == {}
