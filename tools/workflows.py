"""Run the steps of the workflows in ``.github/workflows`` on this machine, one after another, as GitHub would.

    python tools/workflows.py                                list the jobs and their steps
    python tools/workflows.py release                        run all jobs of release.yml, as for a tag
    python tools/workflows.py release --event workflow_dispatch     as when a person starts it: the rehearsal
    python tools/workflows.py ci check --environment .venv   run a job in an environment that has everything installed

Each job gets a clean clone of the commit that is checked out, and a new virtual environment. Its ``run`` steps are run
by bash with the variables of the workflow, the job and the step. Actions are replaced: ``checkout`` is the clone,
``setup-python`` the virtual environment, with the Python that runs this program, and artifacts are copied to a
directory. A job with a matrix of Pythons runs once with each of those that this machine has. The publishing action
uploads to an empty index on this machine, with twine (which skips files that exist on some public indexes alone). A
step that changes the system (``sudo``) is left out, and so, with ``--environment``, are steps that only install
packages. The table at the end says what was left out.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from release import ReleaseError, local_index

ROOT = Path(__file__).parent.parent
EXPRESSION = re.compile(r"\$\{\{\s*(.*?)\s*\}\}")
CONDITION = re.compile(r"github\.(event_name|ref_type) (==|!=) '(\w+)'")
ONLY_INSTALLS = re.compile(r"(python -m )?pip install [^&|;]+")


ABSENT = "left out with the steps after it"


class WorkflowError(Exception):
    """A workflow that this program does not understand, or a step that failed."""


@dataclass
class Outcome:
    """What became of a step."""

    job: str
    step: str
    result: str  # "passed", "failed: 1" or "left out: reason"
    seconds: float = 0.0


@dataclass
class Machine:
    """What the jobs of one workflow share."""

    root: Path
    place: Path
    variables: Mapping[str, str] = field(default_factory=dict)  # of the repository, ``vars.NAME``
    environment: Path | None = None  # a virtual environment that has everything installed
    index: str = ""  # the address of the index to which a publishing step uploads
    tag: str = ""
    event: str = "push"  # of a tag; with "workflow_dispatch", a person starts the workflow for a branch
    matrix: Mapping[str, str] = field(default_factory=dict)  # the values of the job that runs
    outcomes: list[Outcome] = field(default_factory=list)


def workflow(root: Path, name: str) -> dict[str, Any]:
    """Read a workflow. All values are texts. Raises WorkflowError if there is none."""
    path = root / ".github/workflows" / f"{name}.yml"
    if not path.is_file():
        known = ", ".join(sorted(each.stem for each in path.parent.glob("*.yml")))
        raise WorkflowError(f"there is no workflow {name!r}; there are: {known}")
    return dict(yaml.load(path.read_text(encoding="utf-8"), yaml.BaseLoader))


def in_order(jobs: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return the names of jobs, each after those that it needs."""
    ordered: list[str] = []
    while len(ordered) < len(jobs):
        ready = [name for name in jobs if name not in ordered and set(needs(jobs[name])) <= set(ordered)]
        if not ready:
            raise WorkflowError(f"jobs need each other: {', '.join(set(jobs) - set(ordered))}")
        ordered += ready
    return ordered


def needs(job: Mapping[str, Any]) -> list[str]:
    """Return the jobs that must end before ``job``."""
    named = job.get("needs", [])
    return [named] if isinstance(named, str) else list(named)


def filled(text: str, machine: Machine) -> str:
    """Return ``text`` with the values of its expressions. Raises WorkflowError for an unknown one."""

    def value(match: re.Match[str]) -> str:
        kind, _, name = match[1].partition(".")
        if kind == "matrix" and name in machine.matrix:
            return machine.matrix[name]
        if kind != "vars":
            raise WorkflowError(f"the expression {match[0]} has no meaning on this machine")
        return machine.variables.get(name, "")

    return EXPRESSION.sub(value, text)


def is_wanted(block: Mapping[str, Any], machine: Machine) -> bool:
    """Return whether a job or a step runs, by its ``if``. Raises WorkflowError for an unknown condition."""
    condition = block.get("if", "always()")
    if condition == "always()":
        return True
    found = CONDITION.fullmatch(condition)
    if found is None:
        raise WorkflowError(f"the condition {condition} has no meaning on this machine")
    values = {"event_name": machine.event, "ref_type": "tag" if machine.event == "push" else "branch"}
    return (values[found[1]] == found[3]) == (found[2] == "==")


def combinations(job: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return the values with which a job runs: one dict for each value of its matrix, which has one key at most."""
    found = job.get("strategy", {}).get("matrix", {})
    if len(found) > 1:
        raise WorkflowError(f"a matrix of {', '.join(found)}: only one key is understood")
    return [{name: value} for name, values in found.items() for value in values] or [{}]


def title(step: Mapping[str, Any]) -> str:
    """Return a step in one line: its command, or the action without its version."""
    return " ".join(str(step["run"]).split()) if "run" in step else str(step["uses"]).partition("@")[0]


def run_job(machine: Machine, name: str, job: Mapping[str, Any], shared: Mapping[str, str]) -> None:
    """Run the steps of a job; the first one that fails ends it with a WorkflowError."""
    checkout = machine.place / name
    python = machine.environment or machine.place / f"{name}-environment"
    for step in job["steps"]:
        if not is_wanted(step, machine):
            continue
        started = time.monotonic()
        result = "failed"
        try:
            if "uses" in step:
                result = act(machine, step, checkout, python)
            else:
                variables = {**shared, **job.get("env", {}), **step.get("env", {})}
                filled_in = {key: filled(text, machine) for key, text in variables.items()}
                result = run_step(machine, filled(step["run"], machine), checkout, python, filled_in)
        finally:
            machine.outcomes.append(Outcome(name, title(step), result, time.monotonic() - started))
        if result.startswith(ABSENT):
            return
        if result.startswith("failed"):
            raise WorkflowError(f"job {name}: {title(step)}: {result}")


def act(machine: Machine, step: Mapping[str, Any], checkout: Path, python: Path) -> str:
    """Do what an action does. Raises WorkflowError for an unknown one."""
    action = title(step)
    given = step.get("with", {})
    artifacts = machine.place / "artifacts"
    if action == "actions/checkout":
        command = ["git", "clone", "--quiet", "--no-hardlinks", str(machine.root), str(checkout)]
        return call(command, machine.place, {**os.environ})
    if action == "actions/setup-python":
        wanted = filled(given["python-version"], machine)
        here = f"{sys.version_info.major}.{sys.version_info.minor}"
        if machine.matrix and wanted != here:  # the job is about this version
            return make_environment(wanted, python)
        if machine.environment is None:
            venv.create(python, with_pip=True)
        return "passed" if wanted == here else f"passed with Python {here} instead of {wanted}"
    if action == "actions/upload-artifact":
        source = checkout / given["path"]
        copy = shutil.copytree if source.is_dir() else shutil.copy
        artifacts.mkdir(exist_ok=True)
        copy(source, artifacts / given["name"])
        return "passed"
    if action == "actions/download-artifact":
        shutil.copytree(artifacts / given["name"], checkout / given["path"])
        return "passed"
    if action == "pypa/gh-action-pypi-publish":
        files = sorted(str(path) for path in (checkout / given["packages-dir"]).iterdir() if path.is_file())
        login = ["--repository-url", machine.index, "--username", "any", "--password", "any", "--non-interactive"]
        command = [sys.executable, "-m", "twine", "upload", "--disable-progress-bar", *login, *files]
        result = call(command, checkout, {**os.environ})
        return f"passed on a local index, {len(files)} files" if result == "passed" else result
    raise WorkflowError(f"the action {action} has no meaning on this machine")


def make_environment(version: str, directory: Path) -> str:
    """Create a virtual environment with a Python of this machine, such as ``3.12``; return what became of it."""
    program = shutil.which(f"python{version}")
    # A shim of pyenv is there for versions that are not active, and fails.
    if program is None or subprocess.run([program, "--version"], capture_output=True, check=False).returncode:
        return f"{ABSENT}: python{version} is not on this machine"
    return call([program, "-m", "venv", str(directory)], directory.parent, {**os.environ})


def run_step(machine: Machine, command: str, checkout: Path, python: Path, variables: Mapping[str, str]) -> str:
    """Run a command of a step; return what became of it."""
    if machine.environment is not None and ONLY_INSTALLS.fullmatch(command.strip()):
        return "left out: the environment has everything installed"
    parts = [part.strip() for part in command.split("&&")]
    kept = [part for part in parts if not part.startswith("sudo ")]
    if machine.environment is not None:
        kept = [part for part in kept if not ONLY_INSTALLS.fullmatch(part)]
    if not kept:
        return "left out: it changes the system"
    base = {name: text for name, text in os.environ.items() if not name.startswith(("PYTHON", "RLCORE_", "GITHUB_"))}
    own = {name: text for name, text in variables.items() if text or name not in base}
    search = f"{python / 'bin'}{os.pathsep}{base.get('PATH', os.defpath)}"
    environment = {
        **base,
        **own,
        "PATH": search,
        "VIRTUAL_ENV": str(python),
        "GITHUB_REF_NAME": machine.tag,
        "CI": "true",
    }
    # As GitHub runs a step whose shell is not named.
    result = call(["bash", "-e", "-c", " && ".join(kept)], checkout, environment)
    return result if kept == parts or result != "passed" else f"passed without {', '.join(set(parts) - set(kept))}"


def call(command: Sequence[str], place: Path, environment: Mapping[str, str]) -> str:
    """Run a program with its output on this terminal; return ``passed`` or ``failed: CODE``."""
    code = subprocess.run(command, cwd=place, env=environment, check=False).returncode
    return "passed" if code == 0 else f"failed: {code}"


def run_workflow(machine: Machine, name: str, chosen: Sequence[str] = ()) -> None:
    """Run the jobs of a workflow, or those that are ``chosen``, in the order of their needs."""
    found = workflow(machine.root, name)
    jobs = found["jobs"]
    if unknown := set(chosen) - set(jobs):
        raise WorkflowError(f"{name}.yml has no job {', '.join(sorted(unknown))}; it has: {', '.join(jobs)}")
    for job in in_order(jobs):
        if (chosen and job not in chosen) or not is_wanted(jobs[job], machine):
            continue
        for values in combinations(jobs[job]):
            machine.matrix = values
            name = "-".join([job, *values.values()])
            if not any(title(step) == "actions/checkout" for step in jobs[job]["steps"]):
                (machine.place / name).mkdir(parents=True)
            run_job(machine, name, jobs[job], found.get("env", {}))


def table(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Yield a line for each step."""
    for each in outcomes:
        step = each.step if len(each.step) <= 76 else f"{each.step[:73]}..."
        yield f"{each.job:<11} {each.seconds:>7.1f} s  {step:<76}  {each.result}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    parser = argparse.ArgumentParser(prog="tools/workflows.py", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("workflow", nargs="?", help="its name, such as ci, nightly or release")
    parser.add_argument("jobs", nargs="*", help="the jobs to run; all by default")
    parser.add_argument("--environment", type=Path, help="a virtual environment that has everything installed")
    parser.add_argument("--tag", help="the tag of the release; by default, that of the version")
    parser.add_argument("--event", choices=("push", "workflow_dispatch"), default="push", help="what starts it")
    given = parser.parse_args(arguments)
    if given.workflow is None:
        for path in sorted((ROOT / ".github/workflows").glob("*.yml")):
            for job, content in workflow(ROOT, path.stem)["jobs"].items():
                for step in content["steps"]:
                    print(f"{path.stem:<8} {job:<8} {title(step)}")
        return 0
    problem = ""
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        machine = Machine(ROOT, place, environment=given.environment and given.environment.absolute())
        machine.event = given.event
        from release import version_of

        machine.tag = given.tag or f"v{version_of(ROOT)}"
        machine.variables = {name: os.environ[name] for name in ("PIP_EXTRA_INDEX_URL",) if name in os.environ}
        machine.index = stack.enter_context(local_index([], uploads=True)).removesuffix("simple/")
        try:
            run_workflow(machine, given.workflow, given.jobs)
        except (WorkflowError, ReleaseError) as error:
            problem = str(error)
    for line in table(machine.outcomes):
        print(line)
    if problem:
        print(problem, file=sys.stderr)
    return 1 if problem else 0


if __name__ == "__main__":
    sys.exit(main())
