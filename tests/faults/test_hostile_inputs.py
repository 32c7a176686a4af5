"""Malicious and damaged files: each command ends soon, in bounds, with one line, and runs no code of the file.

The inputs are in ``hostile_inputs.py``. Each command is a process of its own, which measures itself.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from forks import FORKS, ended
from hostile_inputs import CANARY, RESUME, Hostile, arrays_with, hostile_inputs, infinite_moment, not_a_number

pytestmark = pytest.mark.faults

SECONDS = 2.0
MEGABYTES = 500.0
STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def cases() -> Iterator[Any]:
    """All inputs; without ``--deep`` every fifth, so that each kind of them is tried."""
    for number, hostile in enumerate(hostile_inputs()):
        yield pytest.param(hostile, id=hostile.name, marks=[pytest.mark.deep] if number % 5 else [])


@pytest.fixture
def hostile_place(whole_run: Callable[..., Any], tmp_path: Path) -> Path:
    """A workplace with a run of two checkpoints, a canary to import, and a neighbor that nothing may touch."""
    run = whole_run(max_steps=512, checkpoint_interval=256).run
    place = tmp_path / "place"
    shutil.copytree(run, place / "results" / "run")
    (place / "canary.py").write_text(CANARY)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text("secret")
    return place


def run_measured(place: Path, *argv: str) -> tuple[int, str, str]:
    """The exit code and output of a command, which must keep within the bounds."""
    from hostile_child import measured

    process = FORKS.Process(target=measured, args=(list(argv), str(place)), daemon=True)
    process.start()
    try:
        code = ended(process, 40.0)
    finally:
        if process.exitcode is None:
            process.kill()
            process.join()
    cost = json.loads((place / "cost").read_text())
    assert cost["seconds"] < SECONDS and cost["megabytes"] < MEGABYTES, cost
    return code, (place / "stdout").read_text(), (place / "stderr").read_text()


def contents(directory: Path) -> dict[str, Any]:
    """Everything below ``directory`` but what the measuring itself writes."""
    return {
        str(path.relative_to(directory)): path.read_bytes() if path.is_file() and not path.is_symlink() else None
        for path in sorted(directory.rglob("*"))
        if path.name not in ("stdout", "stderr", "cost", ".lock")
    }


@pytest.mark.parametrize("hostile", cases())
def test_hostile_input_ends_soon_in_bounds_in_a_line_and_runs_nothing(hostile: Hostile, hostile_place: Path) -> None:
    hostile.prepare(hostile_place)
    before = contents(hostile_place.parent)
    code, out, err = run_measured(hostile_place, *hostile.argv)
    assert code == hostile.code, out + err
    assert re.search(hostile.said, " ".join((out + err).split())), out[-1000:] + err[-1000:]
    assert "unexpected" not in err and "Traceback" not in out + err
    assert not STEERING.search(out + err)
    if hostile.code:
        assert err.startswith("error: ") and err.count("\n") == 1 and len(err) < 1500, err[:3000]
    assert contents(hostile_place.parent) == before


@pytest.mark.parametrize("damage", [not_a_number, infinite_moment])
def test_a_resume_passes_over_a_checkpoint_whose_learned_numbers_are_not_finite(
    damage: Callable[[dict[str, Any]], None], hostile_place: Path
) -> None:
    arrays_with(damage)(hostile_place)
    code, out, err = run_measured(hostile_place, *RESUME, "run")
    assert code == 0 and "is not finite; the training had diverged; an older checkpoint is used" in err
    assert "resumed at step 256" in out


def test_a_configuration_that_is_typed_imports_what_it_names(hostile_place: Path) -> None:
    (hostile_place / "c.yaml").write_text("plugins: {local: [./canary.py]}\nzzz: 1\n")
    code, _, _ = run_measured(hostile_place, "run", "c.yaml")
    assert code == 2 and (hostile_place / "RAN").exists()


def test_looking_imports_what_is_allowed(hostile_place: Path) -> None:
    (hostile_place / "c.yaml").write_text("plugins: {local: [./canary.py]}\nbehaviors: {A: {}}\n")
    code, _, err = run_measured(hostile_place, "validate", "c.yaml", "--allow-local")
    assert (code, err) == (0, "") and (hostile_place / "RAN").exists()
