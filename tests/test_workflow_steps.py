"""tools/workflows.py runs the steps of a workflow in the order and with the variables that its file has."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import workflows
from workflows import Machine, WorkflowError
from workspace import ROOT

WORKFLOW = """\
on: push
env: {LEVEL: workflow, INDEX: "${{ vars.PIP_EXTRA_INDEX_URL }}"}
jobs:
  upload:
    needs: build
    steps:
      - uses: actions/download-artifact@v1
        with: {name: made, path: got}
      - run: cat got/out.txt > "$RECORD/got"
  build:
    env: {LEVEL: job}
    steps:
      - uses: actions/checkout@v1
      - uses: actions/setup-python@v1
        with: {python-version: "3.1"}
      - run: sudo false && pip install -r needs.txt && echo "$LEVEL $INDEX $GITHUB_REF_NAME" > "$RECORD/first"
      - run: pip install -r needs.txt
      - run: |
          mkdir made && cp tracked.txt made/out.txt
          command -v python > "$RECORD/python"
        env: {LEVEL: step}
      - uses: actions/upload-artifact@v1
        with: {name: made, path: made}
"""


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """A repository with one workflow, and the directory in which its jobs run."""
    root = tmp_path / "root"
    place = tmp_path / "place"
    record = tmp_path / "record"
    for folder in (root / ".github/workflows", place, record):
        folder.mkdir(parents=True)
    (root / "tracked.txt").write_text("committed")
    write(root, WORKFLOW)
    subprocess.run(["git", "init", "-q", root], check=True)
    (root / "tracked.txt").write_text("changed later")
    monkeypatch.setenv("RECORD", str(record))
    environment = tmp_path / "environment"
    (environment / "bin").mkdir(parents=True)
    (environment / "bin/python").symlink_to(sys.executable)
    return Machine(root, place, {"PIP_EXTRA_INDEX_URL": "http://index"}, environment, tag="v1.2.3")


def write(root: Path, text: str) -> None:
    """Commit a workflow."""
    (root / ".github/workflows/try.yml").write_text(text)
    git = ["git", "-C", root, "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run(["git", "init", "-q", root], check=True)
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "-qm", "workflow"], check=True)


def test_jobs_run_in_the_order_of_their_needs_with_their_variables(machine: Machine, tmp_path: Path) -> None:
    workflows.run_workflow(machine, "try")
    record = tmp_path / "record"
    assert (record / "first").read_text() == "job http://index v1.2.3\n"
    assert (record / "got").read_text() == "committed"  # of the commit, through the artifact
    assert (record / "python").read_text() == f"{tmp_path}/environment/bin/python\n"
    results = [(each.job, each.result) for each in machine.outcomes]
    assert [job for job, _ in results] == ["build"] * 6 + ["upload"] * 2
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert [result for _, result in results][:5] == [
        "passed",
        f"passed with Python {here} instead of 3.1",
        results[2][1],
        "left out: the environment has everything installed",
        "passed",
    ]
    assert results[2][1].startswith("passed without ")
    assert "sudo false" in results[2][1] and "pip install -r needs.txt" in results[2][1]


def test_a_step_that_fails_ends_the_workflow(machine: Machine) -> None:
    failing = WORKFLOW.replace("mkdir made && cp tracked.txt made/out.txt", "false\n          mkdir made")
    write(machine.root, failing)
    with pytest.raises(WorkflowError, match=r"job build: false mkdir made .*: failed: 1"):
        workflows.run_workflow(machine, "try")
    assert [each.result for each in machine.outcomes][-1] == "failed: 1"
    assert {each.job for each in machine.outcomes} == {"build"}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("vars.PIP_EXTRA_INDEX_URL", "secrets.TOKEN", "the expression .* has no meaning on this machine"),
        ("actions/setup-python", "actions/setup-java", "the action actions/setup-java has no meaning"),
        ("needs: build", "if: success()", r"the condition success\(\) has no meaning on this machine"),
        ("needs: build", "needs: upload", "jobs need each other: upload"),
    ],
)
def test_what_is_not_understood_is_named(machine: Machine, old: str, new: str, message: str) -> None:
    write(machine.root, WORKFLOW.replace(old, new))
    with pytest.raises(WorkflowError, match=message):
        workflows.run_workflow(machine, "try")


MATRIX = """\
on: [push, workflow_dispatch]
jobs:
  try:
    strategy: {matrix: {python: ["3.1", "HERE"]}}
    steps:
      - uses: actions/checkout@v1
      - uses: actions/setup-python@v1
        with: {python-version: "${{ matrix.python }}"}
      - run: echo ${{ matrix.python }} >> "$RECORD/tried"
      - if: github.ref_type == 'tag'
        run: echo "$GITHUB_REF_NAME" >> "$RECORD/tried"
  never:
    if: github.event_name == 'workflow_dispatch'
    steps:
      - run: echo by hand >> "$RECORD/tried"
"""


def test_a_job_runs_on_each_python_that_is_here_if_its_condition_holds(machine: Machine, tmp_path: Path) -> None:
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    write(machine.root, MATRIX.replace("HERE", here))
    workflows.run_workflow(machine, "try")
    assert (tmp_path / "record/tried").read_text() == f"{here}\nv1.2.3\n"
    absent = [each.job for each in machine.outcomes if each.result.endswith("python3.1 is not on this machine")]
    assert absent == ["try-3.1"]
    machine.event = "workflow_dispatch"
    machine.place = tmp_path / "by hand"
    machine.place.mkdir()
    workflows.run_workflow(machine, "try")
    assert (tmp_path / "record/tried").read_text() == f"{here}\nv1.2.3\n{here}\nby hand\n"


def test_every_step_of_our_workflows_is_understood() -> None:
    machine = Machine(ROOT, ROOT)
    known = {"checkout", "setup-python", "upload-artifact", "download-artifact", "gh-action-pypi-publish"}
    for path in sorted((ROOT / ".github/workflows").glob("*.yml")):
        found = workflows.workflow(ROOT, path.stem)
        assert workflows.in_order(found["jobs"])
        for block in (found, *found["jobs"].values(), *(s for job in found["jobs"].values() for s in job["steps"])):
            for text in block.get("env", {}).values():
                workflows.filled(text, machine)
            assert workflows.is_wanted(block, machine) in (True, False)
        for job in found["jobs"].values():
            for step in job["steps"]:
                assert "run" in step or workflows.title(step).rpartition("/")[2] in known
