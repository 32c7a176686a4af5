"""The workflows run what the pages say, and may upload only what was built and checked, rlcore first."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml
from workspace import MEMBERS, ROOT

pytestmark = pytest.mark.lint

WORKFLOWS = {path.name: path for path in sorted((ROOT / ".github/workflows").glob("*.yml"))}


def read(name: str) -> dict[str, Any]:
    return dict(yaml.load(WORKFLOWS[name].read_text(encoding="utf-8"), yaml.BaseLoader))


def commands(job: dict[str, Any]) -> list[str]:
    return [step["run"] for step in job["steps"] if "run" in step]


def upload(job: dict[str, Any]) -> list[dict[str, Any]]:
    return [step for step in job["steps"] if step.get("uses", "").startswith("pypa/gh-action-pypi-publish@")]


@pytest.mark.parametrize("name", WORKFLOWS)
def test_actions_are_pinned_and_jobs_may_only_read(name: str) -> None:
    """By commit, because a tag can be moved; the comment beside it says which version the commit is."""
    workflow = read(name)
    assert workflow["permissions"] == {"contents": "read"}
    for job in workflow["jobs"].values():
        for step in job["steps"]:
            assert "uses" not in step or re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", step["uses"]), step
            if step.get("uses", "").startswith("actions/checkout@"):
                assert step["with"]["persist-credentials"] == "false"
        assert job.get("permissions", {}) == ({"id-token": "write"} if upload(job) else {})
        assert "secrets." not in str(job)
    used = re.findall(r"uses: (\S+)(.*)", WORKFLOWS[name].read_text(encoding="utf-8"))
    assert used and all(re.fullmatch(r" # v\d+\.\d+\.\d+", comment) for _, comment in used)


def test_a_release_is_built_checked_installed_and_uploaded_with_the_core_first() -> None:
    workflow = read("release.yml")
    assert workflow["on"] == {"push": {"tags": ["v*"]}, "workflow_dispatch": ""}
    jobs = workflow["jobs"]
    own = [command for command in commands(jobs["build"]) if "tools/release.py" in command]
    assert [command.split()[2] for command in own] == ["build", "check", "check", "smoke"]
    assert '--tag "$GITHUB_REF_NAME"' in own[1]
    assert {name for name, job in jobs.items() if upload(job)} == {"core", "plugins", "rehearsal"}
    assert (jobs["core"]["needs"], jobs["plugins"]["needs"]) == ("build", "core")
    for name in ("core", "plugins"):
        (step,) = upload(jobs[name])
        assert step["with"]["packages-dir"] == f"dist/{name}" and "repository-url" not in step["with"]
        assert jobs[name]["environment"] == "release" and commands(jobs[name]) == []
        assert jobs[name]["if"] == "github.ref_type == 'tag'"


def test_a_rehearsal_uploads_the_same_files_elsewhere_and_never_releases() -> None:
    rehearsal = read("release.yml")["jobs"]["rehearsal"]
    assert (rehearsal["if"], rehearsal["needs"]) == ("github.event_name == 'workflow_dispatch'", "build")
    assert rehearsal["environment"] == "rehearsal" and commands(rehearsal) == []
    steps = upload(rehearsal)
    assert [step["with"]["packages-dir"] for step in steps] == ["dist/core", "dist/plugins"]
    assert {step["with"]["repository-url"] for step in steps} == {"${{ vars.REHEARSAL_INDEX }}"}


def test_wheels_are_tried_on_every_python_that_packages_may_name() -> None:
    """A package may name no Python in its classifiers that no job installs it on."""
    job = read("ci.yml")["jobs"]["wheels"]
    tried = job["strategy"]["matrix"]["python"]
    assert tried == [f"3.{minor}" for minor in range(11, 15)]
    named = set()
    for member in MEMBERS:
        assert member.project["requires-python"] == f">={tried[0]}"
        named |= {each.rpartition(" ")[2] for each in member.project.get("classifiers", ()) if ":: 3." in each}
    assert named and named <= set(tried)


def test_the_matrix_of_plugins_has_the_history() -> None:
    steps = read("nightly.yml")["jobs"]["plugins"]["steps"]
    assert steps[0]["with"]["fetch-depth"] == "0"
    assert any("tools/plugin_matrix.py" in step.get("run", "") for step in steps)
