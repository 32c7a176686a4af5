"""Wheels and virtual environments, as tests of packaging need them."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Mapping
from pathlib import Path

import attrs
from workspace import ROOT

PIP = (sys.executable, "-m", "pip", "-q", "--disable-pip-version-check")
PYTEST_INI = f"""\
[pytest]
addopts = --import-mode=importlib -p no:cacheprovider
pythonpath = {Path(__file__).parent}
markers =
    smoke: run here
    deep: run here, with all the others
    packaging: not run here
    learning: not run here
    faults: not run here
    daily: run here
    distributed: run here
    documentation: run here
    lint: run here
    long: run here
"""


BUILD = """\
import os, sys
from hatchling.build import build_wheel

for source in sys.argv[2:]:
    os.chdir(source)
    build_wheel(sys.argv[1])
"""


def build_wheels(directory: Path, *sources: Path) -> None:
    """Build the wheels of the distributions in ``sources``: with one process, which costs less than one for each."""
    # The build backend is among the development requirements; a fresh one for every wheel would cost seconds each.
    if importlib.util.find_spec("hatchling"):
        subprocess.run([sys.executable, "-c", BUILD, directory, *sources], check=True)
    else:
        subprocess.run([*PIP, "wheel", "--no-deps", "-w", directory, *sources], check=True)


def wheel_in(directory: Path, name: str) -> Path:
    """Return the wheel of a distribution."""
    (wheel,) = directory.glob(f"{name.replace('-', '_')}-[0-9]*.whl")
    return wheel


def own_environment() -> dict[str, str]:
    """This process's variables without those that would let this checkout, or its settings, shine through."""
    return {name: text for name, text in os.environ.items() if not name.startswith(("PYTHON", "RLCORE_", "PYTEST"))}


@attrs.frozen
class Venv:
    """A virtual environment. It also sees what the one ``below`` it holds, so that numpy and torch are installed once;
    beyond that each holds only what its distributions declare, which is what is tested.
    """

    directory: Path
    below: Venv | None = None

    @classmethod
    def make(cls, directory: Path, below: Venv | None = None) -> Venv:
        venv.create(directory, symlinks=os.name != "nt")
        made = cls(directory, below)
        stack: list[str] = []
        while below is not None:
            stack.append(f"{below.site}\n")
            below = below.below
        (made.site / "below.pth").write_text("".join(stack))
        return made

    @property
    def binaries(self) -> Path:
        return self.directory / ("Scripts" if os.name == "nt" else "bin")

    @property
    def site(self) -> Path:
        (site,) = self.directory.glob("[Ll]ib/**/site-packages")
        return site

    def python(
        self, *arguments: str | Path, cwd: Path, code: int = 0, env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Runs ``python``, with the variables ``env`` added; anything but the exit code ``code`` fails the test."""
        ran = subprocess.run(
            [self.binaries / "python", *arguments],
            cwd=cwd, env=own_environment() | dict(env or {}), capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert ran.returncode == code, f"exit code {ran.returncode}, not {code}\n{ran.stdout}{ran.stderr}"
        return ran

    def rlcore(
        self, *arguments: str | Path, cwd: Path, code: int = 0, env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        return self.python("-m", "rlcore.cli.main", *arguments, cwd=cwd, code=code, env=env)

    def install(self, *requirements: str | Path, constrained: bool = True) -> None:
        constraints = ("-c", ROOT / "constraints.txt") if constrained else ()
        # The pip of this process, which costs seconds less than one in every environment; Python compiles what it
        # imports, a fraction of PyTorch.
        command = [*PIP, "--python", self.binaries / "python", "install", "--no-compile", *constraints, *requirements]
        # Wheels are copied and unpacked where the environment is, in memory if there is room.
        env = own_environment() | {"TMPDIR": str(self.directory)}
        subprocess.run(command, cwd=self.directory, env=env, check=True)

    def distributions(self) -> dict[str, str]:
        """The installed distributions with their versions."""
        code = "from importlib import metadata; print(*(f'{d.name}=={d.version}' for d in metadata.distributions()))"
        listed = self.python("-c", code, cwd=self.directory).stdout.lower().split()
        pairs = [(name, version) for name, _, version in (each.partition("==") for each in listed)]
        return dict(reversed(pairs))  # of two with one name, Python imports the first

    def test(self, tests: Path, directory: Path, *arguments: str, chosen: str = "") -> None:
        """Run a copy of ``tests`` away from this checkout: those that the expression of markers ``chosen`` selects.

        The rest is at least imported.
        """
        shutil.copytree(tests, directory / "tests", ignore=shutil.ignore_patterns("__pycache__"))
        self.pytest(directory, *arguments, "tests", chosen=chosen)

    def pytest(self, directory: Path, *arguments: str | Path, chosen: str = "") -> set[str]:
        """Run pytest in ``directory``, with the tests that the expression of markers ``chosen`` selects.

        Returns the ids of the tests that passed: at least one.
        """
        (directory / "pytest.ini").write_text(PYTEST_INI)
        chosen = chosen or "not packaging and not learning and not faults"
        ran = self.python("-m", "pytest", "-q", "-rp", "-m", chosen, *arguments, cwd=directory)
        passed = {line.removeprefix("PASSED ") for line in ran.stdout.splitlines() if line.startswith("PASSED ")}
        assert passed
        return passed
