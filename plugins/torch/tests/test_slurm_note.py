"""A run that trains alone in an allocation of several tasks says so."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from small_runs import small_run

from rlcore_devkit import RunRlcore


@pytest.mark.parametrize(("tasks", "said"), [("4", True), ("1", False), ("", False), ("x", False)])
def test_a_run_in_one_process_of_several_tasks_of_slurm_names_torchrun(
    run_rlcore: RunRlcore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tasks: str, said: bool
) -> None:
    monkeypatch.setenv("SLURM_NTASKS", tasks)
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(small_run(tmp_path / "results")))
    done = run_rlcore("run", tmp_path / "run.yaml")
    assert done.exit_code == 0, done.stderr
    assert ("SLURM_NTASKS is 4: " in done.stderr and "use torchrun" in done.stderr) == said
