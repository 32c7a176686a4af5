"""A child process of Python imports what its parent would import, and nothing that merely lies in the directory."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from rlcore import python_command

SHOW = "import json, sys; print(json.dumps([sys.path, sys.argv[1:], sys.flags.safe_path]))"


def output(command: list[str], cwd: Path) -> str:
    ran = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A directory with modules that Python itself imports, which end the process that imports them."""
    for name in ("types", "runpy", "json"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('code of the working directory')")
    return tmp_path


def test_a_program_has_the_path_and_the_arguments_and_not_the_working_directory(hostile: Path) -> None:
    path, arguments, safe = json.loads(output(python_command("-c", SHOW, "-m", "two words"), hostile))
    assert (path, arguments, safe) == (sys.path, ["-m", "two words"], True)


def test_a_module_runs_as_the_main_module_and_finds_local_ones_last(
    hostile: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (hostile / "shown.py").write_text(f"if __name__ == '__main__':\n    {SHOW}; print(sys.argv[0])")
    monkeypatch.setattr(sys, "path", [*sys.path, str(hostile)])  # as after the import of a local plugin there
    shown, program = output(python_command("-m", "shown", "-c"), hostile).splitlines()
    assert json.loads(shown) == [sys.path, ["-c"], True]
    assert program == str(hostile / "shown.py")


def test_a_process_elsewhere_keeps_its_own_path_before_what_is_added(hostile: Path) -> None:
    path, _, _ = json.loads(output(python_command("-c", SHOW, added=[str(hostile), *sys.path]), hostile))
    assert path[-1] == str(hostile) or path.index(str(hostile)) > path.index(str(Path(json.__file__).parents[1]))
    assert path.count(str(hostile)) == 1


@pytest.mark.parametrize("arguments", [(), ("-m",), ("status", "x")])
def test_other_arguments_are_refused(arguments: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="give -m MODULE or -c PROGRAM"):
        python_command(*arguments)
