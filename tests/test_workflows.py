"""The workflows run what the pages say, and may upload only what was built and checked, rlcore first."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml
from workspace import ROOT

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
            assert not step.get("uses", "").startswith("actions/checkout@") or step["with"] == {
                "persist-credentials": "false"
            }
        assert job.get("permissions", {}) == ({"id-token": "write"} if upload(job) else {})
        assert "secrets." not in str(job)
    used = re.findall(r"uses: (\S+)(.*)", WORKFLOWS[name].read_text(encoding="utf-8"))
    assert used and all(re.fullmatch(r" # v\d+\.\d+\.\d+", comment) for _, comment in used)


def test_a_release_is_built_checked_installed_and_uploaded_with_the_core_first() -> None:
    workflow = read("release.yml")
    assert workflow["on"] == {"push": {"tags": ["v*"]}}
    jobs = workflow["jobs"]
    own = [command for command in commands(jobs["build"]) if "tools/release.py" in command]
    assert [command.split()[2] for command in own] == ["build", "check", "smoke"]
    assert '--tag "$GITHUB_REF_NAME"' in own[1]
    assert {name for name, job in jobs.items() if upload(job)} == {"core", "plugins"}
    assert (jobs["core"]["needs"], jobs["plugins"]["needs"]) == ("build", "core")
    for name in ("core", "plugins"):
        (step,) = upload(jobs[name])
        assert step["with"]["packages-dir"] == f"dist/{name}"
        assert jobs[name]["environment"] == "release" and commands(jobs[name]) == []
