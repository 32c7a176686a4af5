"""``rlcore skills``: files of skills have the form that agents read, and an installation loses no change of a user."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from rlcore_devkit.fixtures import RunRlcore
from rlcore_skills.skills import Skill, install, skills

NAMES = ["rlcore", "rlcore-plugins"]


@pytest.mark.parametrize("name", NAMES)
def test_the_front_matter_has_what_agents_read(name: str) -> None:
    """The limits are those of the format of agent skills; a body of over 500 lines would fill an agent's context."""
    skill = skills()[name]
    for text in (skill.text, skill.stamped):
        _, head, body = text.split("---\n", 2)
        front = yaml.safe_load(head)
        assert front["name"] == name and len(name) <= 64
        assert front["description"] == skill.description and 100 < len(skill.description) <= 1024
        assert len(body.splitlines()) < 500 and body == skill.text.split("---\n", 2)[2]


def test_an_installation_says_what_it_wrote_and_again_what_is_there(run_rlcore: RunRlcore, tmp_path: Path) -> None:
    first = run_rlcore("skills", "install")
    files = [f".claude/skills/{name}/SKILL.md" for name in NAMES]
    assert first.stdout.splitlines() == [f"wrote: {file}" for file in files]
    again = run_rlcore("skills", "install", "--json")
    assert json.loads(again.stdout)["files"] == [{"file": file, "state": "up to date"} for file in files]
    only = run_rlcore("skills", "install", "rlcore", "--folder", tmp_path / "agents")
    assert only.stdout == f"wrote: {tmp_path}/agents/rlcore/SKILL.md\n"
    assert [path.name for path in (tmp_path / "agents").iterdir()] == ["rlcore"]


@pytest.mark.parametrize("change", ["a line of mine\n", "metadata:\n"])
def test_a_changed_file_stays_unless_forced_and_prevents_the_others(
    run_rlcore: RunRlcore, tmp_path: Path, change: str
) -> None:
    folder = tmp_path / "agents"
    run_rlcore("skills", "install", "rlcore-plugins", "--folder", folder)
    file = folder / "rlcore-plugins/SKILL.md"
    mine = file.read_text() + change
    file.write_text(mine)
    refused = run_rlcore("skills", "install", "--folder", folder)
    assert refused.exit_code == 2 and str(file) in refused.stderr and "--force" in refused.stderr
    assert file.read_text() == mine and not (folder / "rlcore").exists()
    forced = run_rlcore("skills", "install", "--folder", folder, "--force")
    assert f"replaced: {file}" in forced.stdout and change not in file.read_text().splitlines(keepends=True)[-1]


def test_a_file_that_no_installation_wrote_is_a_file_of_the_user(run_rlcore: RunRlcore, tmp_path: Path) -> None:
    file = tmp_path / "agents/rlcore/SKILL.md"
    file.parent.mkdir(parents=True)
    file.write_text(skills()["rlcore"].text)
    assert run_rlcore("skills", "install", "--folder", tmp_path / "agents").exit_code == 2


def test_an_unchanged_file_of_an_older_version_is_replaced(tmp_path: Path) -> None:
    skill = skills()["rlcore"]
    older = Skill(skill.name, skill.text + "An old line.\n")
    assert set(install([older], tmp_path, force=False).values()) == {"wrote"}
    assert set(install([skill], tmp_path, force=False).values()) == {"replaced"}
    assert (tmp_path / "rlcore/SKILL.md").read_text() == skill.stamped


def test_list_and_show_print_the_skills(run_rlcore: RunRlcore) -> None:
    listed = json.loads(run_rlcore("skills", "list", "--json").stdout)["skills"]
    assert [each["name"] for each in listed] == NAMES
    assert all(each["description"] in run_rlcore("skills", "list").stdout for each in listed)
    assert run_rlcore("skills", "show", "rlcore").stdout == skills()["rlcore"].text
    assert json.loads(run_rlcore("skills", "show", "rlcore", "--json").stdout)["text"] == skills()["rlcore"].text
    unknown = run_rlcore("skills", "show", "rlcor")
    assert unknown.exit_code == 2 and "did you mean 'rlcore'?" in unknown.stderr
