"""``rlcore run`` and the commands that read a run: what is typed reaches the run, and the run can be read again."""

from __future__ import annotations

import gc
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from rlcore.cli.run_options import typed_flags
from rlcore.storage.store import CheckpointStore
from rlcore_devkit.fixtures import RunRlcore

Write = Callable[..., Path]
HERE = Path(__file__).parent
REFUSED = yaml.safe_load((HERE / "data/refusals.yaml").read_text(encoding="utf-8"))


def written(files: Any, run_id: str = "run") -> Any:
    """The configuration that a run wrote."""
    return yaml.safe_load((files(run_id).path / "configuration.yaml").read_text(encoding="utf-8"))


def test_what_is_typed_is_what_is_trained(write: Write, files: Any, run_rlcore: RunRlcore) -> None:
    """A seed of 0 is a seed, the last line counts the episodes, and --debug logs each plugin and why it was loaded."""
    config = write({"env_settings.seed": 7})
    done = run_rlcore("run", config, "--seed", "0", "--max-steps", "1e2")
    assert done.exit_code == 0 and "debug: plugin" not in done.stderr
    assert written(files)["env_settings"]["seed"] == 0 and written(files)["debug"] is False
    assert written(files)["behaviors"]["Agent"]["max_steps"] == 100
    episodes = files().result["behaviors"]["Agent"]["episodes"]
    assert 1 < episodes <= 100 and f" of all {episodes} episodes; " in done.stdout
    assert "debug: plugin core (rlcore" in run_rlcore("run", config, "--debug", "--force").stderr
    assert written(files)["debug"] is True and written(files)["env_settings"]["seed"] == 7


def test_flags_of_behaviors_reach_those_that_only_the_environment_names_too() -> None:
    keys = [("behaviors", "A", "max_steps"), ("default_settings", "max_steps")]
    assert typed_flags({"max_steps": 50.0}, {"behaviors": {"A": {}}, "default_settings": {}}) == dict.fromkeys(
        keys, 50.0
    )


@pytest.mark.parametrize(("flags", "said"), REFUSED["flags of run"])
def test_flags_that_do_not_fit_are_refused(write: Write, run_rlcore: RunRlcore, flags: str, said: str) -> None:
    refused = run_rlcore("run", write(), *flags.split())
    assert refused.exit_code == 2 and said in refused.stderr


def test_a_run_with_plugins_from_the_command_line_can_be_resumed_and_read_without_naming_them(
    write: Write, files: Any, run_rlcore: RunRlcore, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = write({"plugins": {"local": []}})
    stubs = HERE / "stub_plugin.py"
    monkeypatch.setenv("RLCORE_PLUGINS", f"module:{stubs}")
    assert run_rlcore("run", config, "--set", "behaviors.Agent.max_steps=100").exit_code == 0
    monkeypatch.delenv("RLCORE_PLUGINS")
    chosen = {"autoload": False, "enable": [], "disable": [], "local": [str(stubs)]}
    assert written(files)["plugins"].items() >= chosen.items()
    run = files().path
    for command in (
        ("evaluate", run, "--episodes", "2"),
        ("status", run),
        ("run", "--resume", "--run-id", "run", "--results-dir", run.parent, "--set", "behaviors.Agent.max_steps=200"),
        ("run", config, "--resume", "-p", f"module:{stubs}"),
    ):
        done = run_rlcore(*command)
        assert done.exit_code == 0, done.stderr


@pytest.mark.parametrize(("changes", "end"), REFUSED["foreign errors"])
def test_what_foreign_code_raises_is_told_with_the_way_to_its_traceback(
    write: Write, run_rlcore: RunRlcore, changes: Any, end: str
) -> None:
    failed = run_rlcore("run", write(changes))
    assert failed.stderr.count("\n") == 1 and failed.stderr.endswith(f"{end}; --debug shows the traceback\n")


def test_an_interrupted_run_says_how_to_go_on_and_the_resumed_one_where_it_does(
    write: Write, files: Any, run_rlcore: RunRlcore, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved = CheckpointStore.saved

    def save_and_interrupt(self: CheckpointStore, *arguments: Any) -> Path:
        path = saved(self, *arguments)
        os.kill(os.getpid(), signal.SIGINT)
        return path

    monkeypatch.setattr(CheckpointStore, "saved", save_and_interrupt)
    interrupted = run_rlcore("run", write())
    monkeypatch.setattr(CheckpointStore, "saved", saved)
    assert interrupted.exit_code == 130
    words = shlex.split(interrupted.stdout.partition("; resume with: ")[2])
    assert words[:2] == ["rlcore", "run"]
    assert words[2:] == ["--resume", "--run-id", "run", "--results-dir", str(files().path.parent)]
    (step,) = files().steps
    resumed = run_rlcore(*words[1:])
    first, last = resumed.stdout.splitlines()
    assert first == f"resumed at step {step} from checkpoint {files().path / 'checkpoints' / str(step)}"
    assert last.startswith("done: 200 steps") and "resume with" not in last


def test_a_finished_run_has_nothing_left_to_learn(write: Write, files: Any, run_rlcore: RunRlcore) -> None:
    config = write()
    assert run_rlcore("run", config).exit_code == 0
    before = files().everything()
    again = run_rlcore("run", config, "--resume")
    assert again.exit_code == 0
    assert again.stdout == (
        "nothing left to learn: max_steps 200 is reached; raise it with --set behaviors.Agent.max_steps=...\n"
    )
    for name in ("result.json", "run_logs/timers.json", "metrics.jsonl"):
        assert files().everything()[name] == before[name]
    (files().path / "result.json").unlink()  # as after a kill behind the last checkpoint
    assert run_rlcore("run", config, "--resume").exit_code == 0
    assert files().result["outcome"] == "done"


def test_garbage_is_looked_for_in_a_training_as_in_any_program(write: Write, tmp_path: Path) -> None:
    hooks = tmp_path / "garbage.py"
    hook = "def rlcore_summary_written():\n    print('looks', gc.get_threshold())\n"
    hooks.write_text(f"import gc\nfrom rlcore import hookimpl\n@hookimpl\n{hook}")
    plugins = [option for path in (HERE / "stub_plugin.py", hooks) for option in ("-p", f"module:{path}")]
    done = subprocess.run([sys.executable, "-m", "rlcore", "run", write(), *plugins], capture_output=True, text=True)
    assert f"looks {gc.get_threshold()}\n" in done.stdout, done.stderr
