"""The configuration of a run survives edits and damage, and a resume says what it changes."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from rlcore.cli.run_options import refuse_configuration_of_another
from rlcore.config.dump import is_sealed
from rlcore.errors import ConfigError, RunStateError
from rlcore.run.saved.data import read_saved_configuration
from rlcore.storage.checkpoint import load_checkpoint
from rlcore.storage.checkpoint_state import require_run
from rlcore.storage.checkpoints import save_checkpoint
from rlcore_devkit.fixtures import RunRlcore

RESUME = {"checkpoint_settings.resume": True}


def test_every_flipped_bit_of_the_configuration_is_noticed_and_costs_nothing(make_run: Any, files: Any) -> None:
    make_run(max_steps=40).train()
    path = files().path / "configuration.yaml"
    written = path.read_bytes()
    wanted = yaml.safe_load(written)
    draw = random.Random(9)
    for _ in range(60):
        damaged = bytearray(written)
        damaged[draw.randrange(len(damaged))] ^= 1 << draw.randrange(8)
        path.write_bytes(damaged)
        assert read_saved_configuration(files().path).data == wanted


@pytest.mark.parametrize("text", [None, "", "{", "behaviors: [1]\n", "\xff\x00"])
def test_a_configuration_that_is_gone_or_no_configuration_is_taken_from_the_checkpoint(
    make_run: Any, files: Any, run_rlcore: RunRlcore, text: str | None
) -> None:
    make_run(max_steps=100).train()
    path = files().path / "configuration.yaml"
    path.unlink() if text is None else path.write_bytes(text.encode("latin-1"))
    for argv in (["status", files().path], ["evaluate", files().path, "--episodes", "2"]):
        result = run_rlcore(*argv)
        assert result.exit_code == 0, result.stderr
        assert f"{path}: " in result.stderr and "; the configuration in checkpoint 100 is used" in result.stderr
    resume = ("run", "--resume", "--run-id", "run", "--results-dir", files().path.parent)
    result = run_rlcore(*resume, "--set", "behaviors.Agent.max_steps=160")
    assert result.exit_code == 0, result.stderr
    assert is_sealed(path.read_text()) and files().steps == [40, 80, 100, 120, 160]


def test_an_edited_configuration_is_not_taken_silently(make_run: Any, files: Any, run_rlcore: RunRlcore) -> None:
    make_run(max_steps=100).train()
    path = files().path / "configuration.yaml"
    path.write_text(path.read_text().replace("max_steps: 100", "max_steps: 900"))
    result = run_rlcore("run", "--resume", "--run-id", "run", "--results-dir", files().path.parent)
    assert result.stderr == (
        f"warning: {path}: was edited or is damaged (behaviors.Agent.max_steps is 900 instead of 100); the "
        "configuration in checkpoint 100 is used (to use another, give a file as CONFIG or keys with --set)\n"
    )
    assert "nothing left to learn: max_steps 100 is reached" in result.stdout
    assert "max_steps: 900" in path.read_text(), "a resume that has nothing to do leaves it as it is"
    # Named, the file is the user's word.
    result = run_rlcore("run", path, "--run-id", "other", "--set", "behaviors.Agent.summary_freq=900")
    assert result.exit_code == 0 and files("other").steps[-1] == 900
    assert "configuration.yaml: was edited or is damaged: its first line does not fit the rest" in result.stderr
    result = run_rlcore("run", path, "--resume", "--set", "behaviors.Agent.max_steps=160")
    assert result.exit_code == 0, result.stderr


def test_a_copy_in_a_damaged_checkpoint_is_not_used(make_run: Any, files: Any) -> None:
    make_run().train()
    copy = files().path / "checkpoints" / "200" / "configuration.yaml"
    copy.write_text(copy.read_text().replace("max_steps: 200", "max_steps: 900"))
    (files().path / "configuration.yaml").unlink()
    assert read_saved_configuration(files().path).data["behaviors"]["Agent"]["max_steps"] == 200


def test_a_resume_says_what_it_changes(make_run: Any, files: Any, caplog: pytest.LogCaptureFixture) -> None:
    make_run(max_steps=100).train()
    for steps, changes in (
        (160, "behaviors.Agent.max_steps is 160 instead of 100, behaviors.Agent.summary_freq is 20 instead of 50"),
        (200, "behaviors.Agent.max_steps is 200 instead of 160"),
    ):
        caplog.clear()
        with caplog.at_level("INFO", "rlcore"):
            # How a run is started and saved changes nothing of what it does.
            make_run({**RESUME, "checkpoint_settings.asynchronous": True}, max_steps=steps, summary_freq=20).train()
        assert [text for text in caplog.messages if "resumes with" in text] == [
            f"{files().path}: resumes with another configuration: {changes}"
        ]


def test_the_configuration_of_a_copy_resumes_no_original(make_run: Any, files: Any, run_rlcore: RunRlcore) -> None:
    make_run(max_steps=100).train()
    before = files().everything()
    shutil.copytree(files().path, files("copied").path)
    more = ("--set", "behaviors.Agent.max_steps=160")
    refused = run_rlcore("run", files("copied").path / "configuration.yaml", "--resume", *more)
    assert refused.exit_code == 2
    assert "is in the directory of run 'copied' and names run 'run'; say which with --run-id" in refused.stderr
    acting = make_run({"checkpoint_settings.inference": True})
    with pytest.raises(ConfigError, match="'copied' and names run 'run'"):
        refuse_configuration_of_another(files("copied").path / "configuration.yaml", acting)
    resumed = run_rlcore("run", files("copied").path / "configuration.yaml", "--resume", "--run-id", "copied", *more)
    assert resumed.exit_code == 0 and files("copied").steps[-1] == 160
    assert files().everything() == before


REFUSALS = yaml.safe_load((Path(__file__).parent / "data/refusals.yaml").read_text())["entries"]


def test_an_entry_that_is_not_what_it_should_be_is_damage(make_run: Any, files: Any) -> None:
    make_run(max_steps=40).train()
    path = files().path / "checkpoints/40"
    state = load_checkpoint(path)
    require_run(path, state)
    for entry, value in REFUSALS:
        with pytest.raises(RunStateError, match="checkpoints/40: cannot be used: "):
            require_run(path, state | {"run": state["run"] | {entry: value}})
    save_checkpoint(path.parent, 60, state | {"run": state["run"] | {"overdue": "x"}})
    with make_run(RESUME) as run:
        run.start()
        assert run.resumed_from == path
