"""The tools that read the code: with these here, `pytest` is the one gate."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import pytest
from workspace import MEMBERS, ROOT

LINT_IMPORTS = "import sys; from importlinter.cli import lint_imports_command; sys.exit(lint_imports_command())"

TOOLS = {
    "ruff check": ("ruff", ["-m", "ruff", "check", "."]),
    "ruff format": ("ruff", ["-m", "ruff", "format", "--check", "."]),
    "mypy": ("mypy", ["-m", "mypy", "--strict", *(f"{member.path}/src" for member in MEMBERS)]),
    "import-linter": ("importlinter", ["-c", LINT_IMPORTS]),
}


@pytest.mark.parametrize("tool", TOOLS)
def test_the_tool_finds_nothing(tool: str) -> None:
    module, arguments = TOOLS[tool]
    if importlib.util.find_spec(module) is None:
        pytest.skip(f"{module} is not installed; pip install -r requirements-dev.txt brings it")
    checked = subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, check=False, timeout=600
    )
    if checked.returncode:
        pytest.fail(f"{tool} finds:\n{checked.stdout}{checked.stderr}", pytrace=False)
