"""``--resume --checkpoint STEP|best``: a run continues from an earlier checkpoint and loses nothing before it saves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from rlcore.errors import ConfigError, RunStateError
from rlcore.storage import replaced_runs
from rlcore.storage.replaced_runs import ReplacedRuns
from rlcore_devkit.fixtures import RunRlcore

ALL = {"keep_checkpoints": 0}  # checkpoints 40, 80, 120, 160 and 200
EVALUATED = {"evaluation": {"interval": 40, "episodes": 1}}


def back_to(step: int | str) -> dict[str, Any]:
    return {"checkpoint_settings.resume": True, "checkpoint_settings.checkpoint": str(step)}


@pytest.mark.parametrize("kind", ["corridor", "identity"])
def test_a_run_resumed_from_an_earlier_checkpoint_repeats_its_steps(make_run: Any, files: Any, kind: str) -> None:
    changes = {"environment.type": kind}
    make_run(changes, **ALL).train()
    whole = {step: files().checkpoint(step) for step in files().steps}
    metrics = files().metrics
    (files().path / "notes.txt").write_text("mine")
    with make_run({**changes, **back_to(80)}, **ALL) as run:
        run.start()
        assert (run.steps, run.resumed_from) == (80, files().path / "checkpoints" / "80")
        assert files().steps == [40, 80]
        # The abandoned checkpoints are those of a complete run, until the first regular checkpoint.
        assert {step: files("run.replaced").checkpoint(step) for step in files("run.replaced").steps} == whole
        assert files("run.replaced").metrics == metrics
        run.train()
    assert {step: files().checkpoint(step) for step in files().steps} == whole
    assert [(line["step"], line["stats"]["Environment/Episode Length"]) for line in files().metrics] == [
        (line["step"], line["stats"]["Environment/Episode Length"]) for line in metrics
    ]
    assert not files("run.replaced").path.exists()
    assert (files().path / "notes.txt").read_text() == "mine"
    assert [entry["steps"] for entry in files().status["Agent"]["checkpoints"]] == files().steps


@pytest.mark.parametrize("changes", [back_to(80), {"checkpoint_settings.force": True}])
def test_a_run_that_cannot_be_moved_aside_or_does_not_start_is_given_back(
    make_run: Any, files: Any, monkeypatch: pytest.MonkeyPatch, changes: Any
) -> None:
    make_run(**ALL).train()
    before = files().everything()
    rename = Path.rename

    def refuse(self: Path, target: Any) -> Path:
        if "replaced" in str(target):
            raise PermissionError(13, "Permission denied")
        return rename(self, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", refuse)
        with pytest.raises(RunStateError, match="cannot be moved"):
            make_run(changes, **ALL).start()
    assert files().everything() == before
    run = make_run(changes, **ALL)
    run.directory.started = None
    with pytest.raises(TypeError):
        run.start()
    assert files().everything() == before and not files("run.replaced").path.exists()


@pytest.mark.parametrize("at", range(4))
def test_a_process_that_is_killed_while_it_moves_the_run_aside_loses_nothing(
    make_run: Any, files: Any, monkeypatch: pytest.MonkeyPatch, killing: Any, abandon: Any, at: int
) -> None:
    """The copies of checkpoints, their directory, the mark, and the move itself."""
    make_run(**ALL).train()
    whole = {step: files().checkpoint(step) for step in files().steps}

    run = make_run(back_to(80), **ALL)
    monkeypatch.setattr(ReplacedRuns, "move_back", lambda *_: None)
    monkeypatch.setattr(type(run.directory), "_undo", lambda *_: None)
    with killing(at, (replaced_runs, "_share"), (replaced_runs.shutil, "copy2")) as killed, pytest.raises(killed):
        run.start()
    monkeypatch.undo()
    abandon(run)
    assert {step: files("run.replaced").checkpoint(step) for step in files("run.replaced").steps} == whole
    assert files().steps == []
    with pytest.raises(RunStateError, match=r"run\.replaced"):
        make_run({"checkpoint_settings.resume": True}, **ALL).start()
    make_run({"checkpoint_settings.run_id": "run.replaced", **back_to(80)}, **ALL).train()
    assert {step: files("run.replaced").checkpoint(step) for step in files("run.replaced").steps} == whole


def test_the_best_evaluation_names_a_checkpoint_and_later_policies_stay(make_run: Any, files: Any, script: Any) -> None:
    script(1, 9, 2, 3, 4)
    make_run(EVALUATED, **ALL).train()
    script(2, 3, 4)
    with make_run({**EVALUATED, **back_to("best")}, **ALL) as run:
        run.start()
        assert run.steps == 80
        run.train()
    assert files().best == [80] and files().result["evaluation"]["best_step"] == 80


def test_a_checkpoint_that_is_not_there_is_refused(make_run: Any, files: Any, script: Any) -> None:
    make_run(**ALL).train()
    before = files().everything()
    for name, message in (
        (70, "there is no checkpoint '70' to resume from; there are 40, 80, 120, 160, 200"),
        ("last", "there is no checkpoint 'last'"),
        ("best", "there is no checkpoint 'best' to resume from"),
    ):
        with pytest.raises(RunStateError, match=message):
            make_run(back_to(name), **ALL).start()
    with pytest.raises(ConfigError, match="add --resume or --inference"):
        make_run({"checkpoint_settings.checkpoint": "80"}, **ALL).start()
    assert files().everything() == before
    script(9, 1, 2, 3)
    make_run({"evaluation": {"interval": 60, "episodes": 1}, "checkpoint_settings.force": True}, **ALL).train()
    with pytest.raises(RunStateError, match=r"best/60 has weights only, .*init_path of a new run; there are 40, 80"):
        make_run(back_to("best"), **ALL).start()


def test_the_command_and_inference_take_a_checkpoint_too(
    configure: Any, make_run: Any, files: Any, tmp_path: Path, run_rlcore: RunRlcore
) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(configure({"stats.console": {}}, **ALL)))
    assert run_rlcore("run", path).exit_code == 0
    ended = run_rlcore("run", path, "--resume", "--checkpoint", "120")
    assert ended.exit_code == 0 and "resumed at step 120" in ended.stdout and files().steps == [40, 80, 120, 160, 200]
    assert run_rlcore("run", path, "--checkpoint", "120").exit_code == 2
    metrics = files().metrics
    ended = run_rlcore("run", path, "--resume", "--checkpoint", "80", "--max-steps", "80")
    assert ended.stdout.startswith("nothing left to learn: max_steps 80 is reached"), "and so nothing is moved or lost"
    assert files().steps == [40, 80, 120, 160, 200] and files().metrics == metrics
    with make_run({"checkpoint_settings.inference": True, "checkpoint_settings.checkpoint": "80"}) as run:
        run.start()
        assert run.behaviors["Agent"].policy_steps == 80
