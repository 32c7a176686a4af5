"""Programs that train with workers, which import the program's main module."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

STUBS = Path(__file__).parents[3] / "core" / "tests" / "run" / "stub_plugin.py"
PROGRAM = """
import sys
from pathlib import Path
from rlcore import Run

with open("imports", "a") as file:
    file.write(__name__ + "\\n")
run = Run({
    "plugins": {"autoload": False, "enable": ["workers"], "local": [STUBS]},
    "environment": {"type": "corridor", "num_envs": 2, "workers": 1},
    "behaviors": {"Agent": {"trainer_type": "numpy", "max_steps": 60, "summary_freq": 30}},
    "checkpoint_settings": {"run_id": "run"},
})
"""


def outcome(path: Path) -> str:
    return str(json.loads((path / "results" / "run" / "result.json").read_text())["outcome"])


@pytest.mark.parametrize("guarded", [False, True], ids=["without the guard", "guarded"])
def test_a_program_that_its_workers_import_must_not_start_a_run_then(tmp_path: Path, guarded: bool) -> None:
    program = tmp_path / "train.py"
    start = 'if __name__ == "__main__":\n    run.train()\n' if guarded else "run.train()\n"
    program.write_text(PROGRAM.replace("STUBS", repr(str(STUBS))) + start)
    done = subprocess.run([sys.executable, program], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert (tmp_path / "imports").read_text().split() == ["__main__", "__mp_main__"]  # no worker of a worker
    if guarded:
        assert done.returncode == 0 and outcome(tmp_path) == "done", done.stderr
        return
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        f"rlcore.errors.RunStateError: a new process, such as a worker, imports {program}, which starts a run when it "
        'is imported; put the lines that start the run under `if __name__ == "__main__":`'
    )
    assert not list((tmp_path / "results").rglob("checkpoints"))


def test_a_program_that_is_read_from_a_pipe_has_no_main_module_to_import(tmp_path: Path) -> None:
    program = PROGRAM.replace("STUBS", repr(str(STUBS))) + "run.train()\n"
    done = subprocess.run(
        [sys.executable, "-"], input=program, cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0 and outcome(tmp_path) == "done", done.stderr
    assert (tmp_path / "imports").read_text().split() == ["__main__"]
