"""The training status says what is so, whenever a run ended and whatever became of the file."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from rlcore import hookimpl
from rlcore.contracts.stats import Tag
from rlcore.run.run import Run
from rlcore.storage.status import MOST_LISTED
from rlcore_devkit.fixtures import RunRlcore

STUBS = [str(Path(__file__).parent / name) for name in ("stub_plugin.py", "stub_curriculum.py")]
PACED: dict[str, Any] = {
    "plugins.local": STUBS,
    "environment.type": "paced",
    "environment_parameters.pace": {"curriculum": {"type": "stages", "every": 5}},
}


def stage_at(files: Any, step: int) -> int:
    """Where the curriculum was at a checkpoint, from its own state."""
    state = files().json(f"checkpoints/{step}/state.json")["run"]
    from safetensors.numpy import load_file

    arrays = load_file(files().path / "checkpoints" / str(step) / "run.safetensors")
    place = state["curricula"]["curricula"]["stages"]["state"]["stage"]["$array"]
    return int(arrays[place][0])


# ---------------------------------------------------------------- environment parameters


class Bookkeeper:
    """A plugin with a section of its own, whose content depends on what it got back."""

    def __init__(self) -> None:
        self.reports = 0

    @hookimpl
    def rlcore_report_status(self) -> dict[str, Any]:
        self.reports += 1
        return {"books": {"reports": self.reports}}

    @hookimpl
    def rlcore_restore_status(self, sections: Mapping[str, Any]) -> None:
        self.reports = sections["books"]["reports"]


def edit(path: Path) -> None:
    """Other lessons, sections, scores and lists than those of the checkpoint, and a later step."""
    status = json.loads(path.read_text())
    status["pace"]["lesson_num"] = 0
    status["books"]["reports"] = 50
    status["metadata"] |= {"run_steps": 900, "evaluation": {"score": 9.0, "best_score": 9.0, "step": 1, "best_step": 1}}
    status["Agent"]["checkpoints"] = [{"steps": 1, "run_steps": 1, "reward": 9.0}]
    path.write_text(json.dumps(status))


HAPPENS: dict[str, Callable[[Path], object]] = {
    "nothing": str,
    "lost": Path.unlink,
    "cut": lambda path: path.write_text(path.read_text()[:40]),
    "of other kinds": lambda path: path.write_text('{"metadata": ["0.3.0"], "Agent": {"checkpoints": 5}, "pace": 7}'),
    "edited": edit,
}


def test_a_resume_does_not_depend_on_the_status(make_run: Any, files: Any, abandon: Any, tmp_path: Path) -> None:
    """Byte for byte: every checkpoint, the summaries, the result and the status that is written in the end."""

    def made(**more: Any) -> Run:
        run = make_run({**PACED, "evaluation": {"interval": 60, "episodes": 2}, **more}, keep_checkpoints=3)
        run.plugins.register(Bookkeeper(), "bookkeeper")
        return run

    run = made()
    next(each for each in run if run.steps >= 150)
    abandon(run)
    shutil.copytree(files().path, tmp_path / "killed")
    outcomes = {}
    for name, happens in HAPPENS.items():
        shutil.rmtree(files().path)
        shutil.copytree(tmp_path / "killed", files().path)
        happens(files().path / "run_logs" / "training_status.json")
        made(**{"checkpoint_settings.resume": True}).train()
        outcomes[name] = lasting(files())
    expected = outcomes["nothing"]
    assert expected["status"]["books"] == {"reports": 5}
    assert expected["checkpoints"].keys() == {120, 160, 200} and expected["metrics"]
    for name, outcome in outcomes.items():
        assert outcome == expected, name


def lasting(run: Any) -> dict[str, Any]:
    """Everything that a run leaves, but for when it was made and how long that took."""
    status = run.status
    result = run.result
    for entry in (*status["Agent"]["checkpoints"], status["Agent"]["final_checkpoint"]):
        del entry["creation_time"]
    for key in ("wall_seconds", "steps_per_second"):
        del result[key]
    metrics = run.metrics
    for line in metrics:
        del line["time"], line["stats"][Tag.STEPS_PER_SECOND]
    return {
        "checkpoints": {step: run.checkpoint(step) for step in run.steps},
        "best": run.best,
        "metrics": metrics,
        "result": result,
        "status": status,
    }


# ---------------------------------------------------------------- rlcore status


def test_status_shows_what_a_kill_before_the_status_file_left_behind(
    make_run: Any, files: Any, run_rlcore: RunRlcore, killed_before_status: Any
) -> None:
    """The lists of checkpoints, steps and parameters are those that a resumed run continues with."""
    evaluated = {"evaluation": {"interval": 90, "episodes": 2}}
    run = make_run({**PACED, **evaluated}, keep_checkpoints=0)
    killed_before_status(run, 3)
    assert files().steps == [40, 80, 120] and files().status["metadata"]["run_steps"] == 80
    assert "evaluation" not in files().status["metadata"]
    lesson = stage_at(files, 120)
    assert files().status["pace"]["lesson_num"] == stage_at(files, 80) < lesson
    before = files().everything()
    answers = [run_rlcore("status", files().path, *options) for options in (["--json"], [])]
    assert [(each.exit_code, each.stderr) for each in answers] == [(0, "")] * 2
    answer = json.loads(answers[0].stdout)
    text = " ".join(answers[1].stdout.split())
    assert files().everything() == before
    assert answer["status"]["pace"] == {"lesson_num": lesson}
    entries = answer["status"]["Agent"]["checkpoints"]
    assert [entry["steps"] for entry in entries] == [40, 80, 120]
    assert entries[-1]["reward"] == run.behaviors["Agent"].mean_reward
    assert answer["evaluation"]["step"] == 90
    assert "Agent 120 200 (60%)" in text
    assert text.endswith("the training status is of step 80; shown is that of checkpoint 120")
    restored: list[Any] = []

    class Hears:
        @hookimpl
        def rlcore_restore_status(self, sections: Mapping[str, Any]) -> None:
            restored.append(sections)

    resumed = make_run({**PACED, **evaluated, "checkpoint_settings.resume": True})
    resumed.plugins.register(Hears(), "hears")
    resumed.start()
    resumed.close("failed")
    assert restored == [answer["status"]]


BOARD = """
from rlcore import echo, hookimpl

@hookimpl
def rlcore_status_printed(directory, configuration, status):
    echo(f"{directory.name}: {sorted(configuration['behaviors'])} at {status['metadata']['run_steps']}")
"""


def test_a_plugin_prints_more_of_a_run_but_not_into_json(
    make_run: Any, files: Any, run_rlcore: RunRlcore, tmp_path: Path
) -> None:
    make_run(keep_checkpoints=2).train()
    board = tmp_path / "board.py"
    board.write_text(BOARD)
    answers = [run_rlcore("status", files().path, "-p", f"module:{board}", *options) for options in ([], ["--json"])]
    assert [(each.exit_code, each.stderr) for each in answers] == [(0, "")] * 2
    assert answers[0].stdout.endswith("\nrun: ['Agent'] at 200\n")
    assert json.loads(answers[1].stdout)["steps"] == {"Agent": 200}


def test_watching_shows_a_run_again_until_it_ends(
    make_run: Callable[..., Run], run_rlcore: RunRlcore, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run()
    epochs = iter(run)
    waited = []

    def wait(seconds: float) -> None:
        waited.append(seconds)
        if len(waited) == 1:
            next(epochs)
        else:
            run.close()

    monkeypatch.setattr("rlcore.cli.status.sleep", wait)
    next(epochs)
    shown = run_rlcore("status", run.directory.path, "--watch")
    assert shown.exit_code == 0 and len(waited) == 2 and min(waited) >= 1
    steps = [line.split()[1] for line in shown.stdout.splitlines() if line.startswith("Agent ")]
    assert [line.split(": ")[1] for line in shown.stdout.splitlines() if str(run.directory.path) in line][:2] == [
        "running"
    ] * 2
    assert steps[:2] == ["50", "100"] and len(steps) == 3
    assert run_rlcore("status", run.directory.path, "--watch").exit_code == 0 and len(waited) == 2  # it has ended


def test_the_status_lists_the_newest_checkpoints_of_many(make_run: Any, files: Any) -> None:
    """All stay in the directory; a list of all would make every save longer than the last."""
    make_run(keep_checkpoints=0, checkpoint_interval=8).train()
    assert files().steps == list(range(8, 201, 8)) and len(files().steps) > MOST_LISTED
    listed = [entry["steps"] for entry in files().status["Agent"]["checkpoints"]]
    assert listed == files().steps[-MOST_LISTED:]
