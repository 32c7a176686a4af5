"""Environments of commits, and packages that are tried in them: the parts of ``tools/plugin_matrix.py``.

An environment of a commit has the distributions of this repository as wheels of that commit, and the other libraries of
the Python that runs this program: nothing is downloaded for it. A package is installed into an environment of its own
above that, because a plugin may be called in each run.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import time
import tomllib
import venv
import xml.etree.ElementTree as xml
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

from packaging.requirements import Requirement
from release import members

NAMES = "tests/docs/data/public_names.txt"
REFUSED = "fits rlcore"  # the rule of rlcore-devkit's doctor about contracts and bounds
LONGEST = 1200.0  # seconds of the tests of one package
ENTRY_POINTS = """\
import sys
from importlib import metadata
for each in metadata.distribution(sys.argv[1]).entry_points:
    if each.group == "rlcore":
        print(each.name)
"""


class MatrixError(Exception):
    """What keeps the matrix from being made; the text says how to fix it."""


# ---------------------------------------------------------------- commits


def git(root: Path, *words: str) -> str:
    """Return what git prints. Raises MatrixError if it fails."""
    ran = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=False)
    if ran.returncode:
        raise MatrixError(f"git {' '.join(words)}: {ran.stderr.strip()}")
    return ran.stdout.strip()


def published(root: Path, this: str) -> str:
    """Return the commit that plugins of today are written for.

    It is the newest tag before ``this``. Without a tag, it is the last commit with another list of public names.
    """
    if git(root, "rev-parse", "--is-shallow-repository") == "true":
        raise MatrixError("the clone has no history; fetch it with: git fetch --unshallow --tags")
    tags = git(root, "tag", "--merged", f"{this}^", "--list", "v[0-9]*", "--sort=-version:refname").split()
    if tags:
        return tags[0]
    names = git(root, "rev-parse", f"{this}:{NAMES}")
    for commit in git(root, "log", "--format=%H", this, "--", NAMES).split():
        parents = git(root, "rev-list", "--parents", "-n", "1", commit).split()[1:]
        if parents and git(root, "ls-tree", parents[0], NAMES).split()[2:3] not in ([names], []):
            return git(root, "rev-parse", "--short=8", parents[0])
    raise MatrixError(f"no commit before {this} has another {NAMES}; name one with --last")


def unpack(root: Path, commit: str, directory: Path) -> Path:
    """Write the files of a commit into ``directory``, and return it."""
    archive = subprocess.run(["git", "archive", commit], cwd=root, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        files.extractall(directory, filter="data")
    return directory


# ---------------------------------------------------------------- environments


@dataclass(frozen=True)
class Environment:
    """A virtual environment that also sees what those below it have."""

    directory: Path
    below: tuple[Path, ...]  # directories of packages

    @classmethod
    def make(cls, directory: Path, *below: Path) -> Environment:
        """Create the environment, without pip."""
        venv.create(directory, symlinks=os.name != "nt")
        made = cls(directory, below)
        (made.packages / "below.pth").write_text("".join(f"{each}\n" for each in below), encoding="utf-8")
        return made

    @property
    def packages(self) -> Path:
        """Its ``site-packages``."""
        (found,) = self.directory.glob("[Ll]ib/**/site-packages")
        return found

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.directory / ("Scripts/python.exe" if os.name == "nt" else "bin/python")

    def run(self, *words: str | Path, cwd: Path, seconds: float = LONGEST) -> subprocess.CompletedProcess[str]:
        """Run its Python with the variables of this process, except those that let the checkout shine through."""
        kept = {name: text for name, text in os.environ.items() if not name.startswith(("PYTHON", "RLCORE_", "PYTEST"))}
        kept["PATH"] = f"{self.python.parent}{os.pathsep}{kept.get('PATH', os.defpath)}"
        command = [self.python, *words]
        return subprocess.run(
            command, cwd=cwd, env=kept, capture_output=True, text=True, errors="replace", timeout=seconds, check=False
        )


def link_libraries(directory: Path) -> Path:
    """Link what this Python has installed into ``directory``, except rlcore and its plugins; return the directory."""
    directory.mkdir()
    own = {Path("__pycache__")}
    for each in metadata.distributions():
        plugin = any(point.group == "rlcore" for point in each.entry_points)
        if plugin or each.name == "rlcore" or each.name.startswith("rlcore-"):
            own |= {Path(file.parts[0]) for file in each.files or ()}
    places = [Path(each) for each in sys.path if Path(each).name in ("site-packages", "dist-packages")]
    for entry in (entry for place in places for entry in sorted(place.iterdir())):
        link = directory / entry.name
        if Path(entry.name) not in own and entry.suffix != ".pth" and not link.exists():
            link.symlink_to(entry)
    return directory


def environment_of(source: Path, libraries: Path, directory: Path) -> Environment:
    """Return an environment with the distributions of ``source``. Raises MatrixError if one does not build."""
    made = Environment.make(directory, libraries)
    command = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
    ran = subprocess.run(
        [*command, "--python", made.python, *members(source)], capture_output=True, text=True, check=False
    )
    if ran.returncode:
        raise MatrixError(f"{source.name}: its distributions do not install\n{ran.stderr}")
    return made


# ---------------------------------------------------------------- a package in an environment


@dataclass(frozen=True)
class Trial:
    """What became of a package in an environment.

    ``refused`` is a package of another contract, or whose bounds exclude this rlcore: its users read the reason.
    """

    result: Literal["passed", "failed", "refused"]
    said: str  # "12 passed", "not installed"
    details: str = ""
    seconds: float = 0.0


def try_package(package: Path, tests: str, below: Environment, place: Path) -> Trial:
    """Install a package, a folder or a wheel, above ``below``; run the doctor and its tests. ``place`` is new."""
    started = time.monotonic()
    environment = Environment.make(place / "environment", below.packages, *below.below)
    try:
        found = _tried(package, tests, environment, place)
    except subprocess.TimeoutExpired as error:
        found = Trial("failed", f"not finished after {error.timeout:.0f} s")
    shutil.rmtree(place / "environment")
    return Trial(found.result, found.said, found.details, time.monotonic() - started)


def _tried(package: Path, tests: str, environment: Environment, place: Path) -> Trial:
    project = project_of(package)
    if bounds := excluding(project, environment.below[0]):
        return Trial("refused", "refused: its bounds", "\n".join(bounds))
    extra = "[test]" if "test" in project.get("optional-dependencies", {}) else ""
    copy = place / "source"
    if package.is_dir():  # building leaves files
        shutil.copytree(package, copy, ignore=shutil.ignore_patterns(".git", "__pycache__", "results"))
    options: list[str | Path] = [
        "-q",
        "--disable-pip-version-check",
        "--python",
        environment.python,
        "install",
        "--no-compile",
    ]
    isolation = ["--no-build-isolation"] if builds_here(package) else []
    wanted = f"{copy if package.is_dir() else package}{extra}"
    command = [sys.executable, "-m", "pip", *options, *isolation, wanted]
    installed = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False)
    if installed.returncode:
        return Trial("failed", "not installed", installed.stderr.strip())
    findings, output = doctor(project["name"], environment, place)
    errors = [each for each in findings if each["level"] == "error"]
    if any(each["rule"] == REFUSED for each in errors):
        return Trial("refused", "refused: its contract", "\n".join(each["message"] for each in errors))
    if errors or output:
        said = f"doctor: {len(errors)} error{'s' * (len(errors) != 1)}" if errors else "doctor: no answer"
        return Trial("failed", said, "\n".join([*(each["message"] for each in errors), output]).strip())
    if not (copy / "tests").is_dir():
        return Trial("passed", "doctor alone: it has no tests")
    shutil.rmtree(copy / "src", ignore_errors=True)  # what is installed is tested
    return run_tests(copy, tests, environment, place / "tests.xml")


def project_of(package: Path) -> dict[str, Any]:
    """Return the table ``project`` of a folder; that of a wheel has its name only."""
    if package.is_dir():
        table: dict[str, Any] = tomllib.loads((package / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        return table
    return {"name": package.name.partition("-")[0].replace("_", "-")}


def excluding(project: dict[str, Any], packages: Path) -> list[str]:
    """Return the requirements of a package that exclude what is installed in ``packages``."""
    installed = {each.name: each.version for each in metadata.distributions(path=[str(packages)])}
    needs = [Requirement(text) for text in project.get("dependencies", ())]
    return [
        f"requires {each}, and {installed[each.name]} is here"
        for each in needs
        if each.name in installed and not each.specifier.contains(installed[each.name], prereleases=True)
    ]


def builds_here(package: Path) -> bool:
    """Return whether the folder needs hatchling alone, which this Python has: isolation would download it again."""
    if not package.is_dir():
        return False
    needs = tomllib.loads((package / "pyproject.toml").read_text(encoding="utf-8"))["build-system"]["requires"]
    return all(each.startswith("hatchling") for each in needs)


def doctor(name: str, environment: Environment, place: Path) -> tuple[list[dict[str, Any]], str]:
    """Return what the doctor finds in the plugins of a distribution, and its output if that is not JSON."""
    listed = environment.run("-c", ENTRY_POINTS, name, cwd=place)
    plugins = listed.stdout.split()
    if not plugins:
        return [], listed.stderr or f"{name} has no entry point in the group rlcore"
    findings = []
    for plugin in plugins:
        ran = environment.run("-m", "rlcore.cli.main", "plugins", "doctor", f"{name}/{plugin}", "--json", cwd=place)
        try:
            findings += json.loads(ran.stdout)["findings"]
        except (ValueError, KeyError):
            return findings, (ran.stdout + ran.stderr).strip() or f"exit code {ran.returncode}"
    return findings, ""


def run_tests(directory: Path, tests: str, environment: Environment, report: Path) -> Trial:
    """Run pytest in ``directory``; ``tests`` is an expression for ``-k``, or empty for all."""
    chosen = ["-k", tests] if tests else []
    options = ["-q", "-p", "no:cacheprovider", f"--junitxml={report}", "-o", "junit_logging=no", *chosen]
    ran = environment.run("-m", "pytest", *options, cwd=directory)
    output = (ran.stdout + ran.stderr).strip()
    if not report.is_file():
        return Trial("failed", "tests did not start", output[-3000:])
    cases = list(xml.parse(report).iter("testcase"))
    wrong = [case for case in cases if case.find("failure") is not None or case.find("error") is not None]
    skipped = [case for case in cases if case.find("skipped") is not None]
    if ran.returncode == 0:
        return Trial("passed", f"{len(cases) - len(skipped)} passed")
    if not wrong:
        return Trial("failed", f"pytest: exit code {ran.returncode}", output[-3000:])
    return Trial("failed", f"{len(wrong)} of {len(cases)} failed", "\n".join(_in_a_line(case) for case in wrong))


def _in_a_line(case: xml.Element) -> str:
    problem = case.find("failure") if case.find("failure") is not None else case.find("error")
    assert problem is not None
    message = (problem.get("message") or problem.text or "").strip()
    return f"{case.get('name')}: {message.partition(chr(10))[0]}"
