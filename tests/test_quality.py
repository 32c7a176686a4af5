"""The tools that read the code: with these here, `pytest` is the one gate."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
from workspace import MEMBERS, ROOT

from rlcore_devkit.scaffold.kinds import KINDS
from rlcore_devkit.scaffold.names import new_package
from rlcore_devkit.scaffold.writing import write_plugin

pytestmark = pytest.mark.lint

LINT_IMPORTS = "import sys; from importlinter.cli import lint_imports_command; sys.exit(lint_imports_command())"

TOOLS = {
    "ruff check": ("ruff", ["-m", "ruff", "check", "."]),
    "ruff format": ("ruff", ["-m", "ruff", "format", "--check", "."]),
    "mypy": ("mypy", ["-m", "mypy", "--strict", *(f"{member.path}/src" for member in MEMBERS)]),
    "import-linter": ("importlinter", ["-c", LINT_IMPORTS]),
}


def new_plugins(parent: Path) -> list[str]:
    """The folders with code of packages that `rlcore plugins new` writes, of every kind.

    mypy refuses two modules of one name, so the tests of the later packages are left out, except those of hooks.
    """
    second = ["torch-trainer", "hooks"]
    third = ["off-policy-trainer"]
    fourth = ["continuous-trainer"]
    first = [kind for kind in KINDS if kind not in (*second, *third, *fourth)]
    packages = {"one": first, "two": second, "three": third, "four": fourth}
    one, two, three, four = (write_plugin(new_package(name, kinds), parent) for name, kinds in packages.items())
    for test in (two / "tests").iterdir():
        if test.name != "test_hooks.py":
            test.unlink()
    return [
        *(str(package / folder) for package in (one, two) for folder in ("src", "tests")),
        *(str(package / "src") for package in (three, four)),
    ]


@pytest.mark.long
@pytest.mark.parametrize("tool", TOOLS)
def test_the_tool_finds_nothing(tool: str, tmp_path: Path) -> None:
    module, arguments = TOOLS[tool]
    if importlib.util.find_spec(module) is None:
        pytest.skip(f"{module} is not installed; pip install -r requirements-dev.txt brings it")
    written = new_plugins(tmp_path) if tool == "mypy" else []
    checked = subprocess.run(
        [sys.executable, *arguments, *written],
        cwd=ROOT, env={**os.environ, "MYPYPATH": os.pathsep.join(written)},
        capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip
    if checked.returncode:
        pytest.fail(f"{tool} finds:\n{checked.stdout}{checked.stderr}", pytrace=False)
