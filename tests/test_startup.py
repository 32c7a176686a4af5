"""Starting is cheap: what does not train or step loads neither torch nor numpy, and no plugin before it must."""

from __future__ import annotations

import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from workspace import PLUGINS, ROOT

HEAVY = {"numpy", "torch"}
# sys.modules rather than -X importtime, which does not see what importlib.import_module loads.
COMMAND = """
import sys
from rlcore.cli.main import main
code = main(sys.argv[1:])
print(*sys.modules, file=sys.stderr)
sys.exit(code)
"""
IMPORT = "import importlib, sys; importlib.import_module(sys.argv[1]); print(*sys.modules, file=sys.stderr)"


def modules_after(code: str, *arguments: str, cwd: Path) -> set[str]:
    """Every module that a fresh interpreter has loaded in the end."""
    # -I: what is installed, and nothing that the environment or this directory adds.
    ran = subprocess.run(
        [sys.executable, "-I", "-c", code, *arguments], cwd=cwd, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return set(ran.stderr.split())


def top_level(modules: set[str]) -> set[str]:
    return {module.partition(".")[0] for module in modules}


@pytest.mark.parametrize(
    "command",
    [["--help"], ["--version"], ["run", "--help"], ["plugins", "--help"], ["plugins", "list"]],
    ids=" ".join,
)
def test_loads_no_heavy_module_and_no_plugin(command: list[str], tmp_path: Path) -> None:
    modules = modules_after(COMMAND, *command, cwd=tmp_path)
    assert "rlcore.cli.main" in modules
    announced = {entry.value.partition(":")[0] for entry in metadata.entry_points(group="rlcore")}
    assert modules & announced == set()
    assert top_level(modules) & (HEAVY | {member.module for member in PLUGINS}) == set()


# Measured: 57 and 144. Wall time is measured in benchmarks/startup.py, against the same import of click.
@pytest.mark.parametrize(("command", "most"), [(["--help"], 75), (["plugins", "list"], 175)], ids=["help", "list"])
def test_loads_few_modules_beside_those_of_click(command: list[str], most: int, tmp_path: Path) -> None:
    beside = modules_after(COMMAND, *command, cwd=tmp_path) - modules_after(IMPORT, "click", cwd=tmp_path)
    assert len(beside) <= most, sorted(beside)


def test_asking_what_plugins_provide_loads_no_heavy_module(tmp_path: Path) -> None:
    modules = modules_after(COMMAND, "plugins", "list", "--provides", cwd=tmp_path)
    assert {module for member in PLUGINS for module in member.plugins.values()} <= modules
    assert top_level(modules) & HEAVY == set()


def test_checking_a_configuration_loads_no_heavy_module(tmp_path: Path) -> None:
    modules = modules_after(COMMAND, "validate", str(ROOT / "examples/cartpole.yaml"), cwd=tmp_path)
    assert "rlcore_ppo.settings" in modules
    assert top_level(modules) & HEAVY == set()
