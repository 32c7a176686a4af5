"""The commands of the skills for coding agents are executed, and what they print with --json is JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from pages import blocks_of, commands_of
from workspace import ROOT

from rlcore_devkit.fixtures import RunRlcore

pytestmark = pytest.mark.documentation

SKILLS = ROOT / "plugins/skills/src/rlcore_skills/files"
SHORT = {"max_steps": 2000, "summary_freq": 1000, "checkpoint_interval": 1000}  # of each behavior


def shortened(text: str) -> str:
    """A configuration of a page that trains for a moment."""
    data = yaml.safe_load(text)
    for block in data.get("behaviors", {}).values():
        block |= SHORT
    if "evaluation" in data:
        data["evaluation"] |= {"interval": 1000, "episodes": 2}
    if "sweep" in data:
        data["sweep"]["trials"] = 2
    return yaml.safe_dump(data)


@pytest.mark.parametrize("skill", sorted(path.name for path in SKILLS.iterdir()))
def test_the_commands_of_a_skill_work_in_their_order(skill: str, run_rlcore: RunRlcore, tmp_path: Path) -> None:
    page = SKILLS / skill / "SKILL.md"
    place = tmp_path / "working"  # where run_rlcore is
    blocks = list(blocks_of(page))
    for block in blocks:
        if block.title:
            text = shortened(block.text) if block.language == "yaml" else block.text
            (place / block.title).write_text(text)
    commands = [words for block in blocks if block.language == "sh" for words in commands_of(block)]
    assert len(commands) > 6
    for words in commands:
        if words[0] == "run":
            words = ["run", *short_run(words[1:])]
        done = run_rlcore(*words)
        assert done.exit_code == 0, f"rlcore {' '.join(words)}: {done.stderr}"
        if "--json" not in words:
            continue
        if words[0] == "run":
            events = [json.loads(line)["event"] for line in done.stdout.splitlines()]
            assert events[-1] == "end", words
        else:
            json.loads(done.stdout)


def short_run(words: list[str]) -> list[str]:
    """The words of a training that ends after a moment, whatever its file says."""
    words = ["2" if word == "1-5" else word for word in words]
    words = [word.replace("=120000", "=3000") for word in words]
    if words[0] == "cartpole.yaml":  # of rlcore init
        words += ["--max-steps", "2000", "--set", "default_settings.checkpoint_interval=1000"]
    return words


def test_files_that_the_skills_show_are_valid_before_they_are_shortened(run_rlcore: RunRlcore, tmp_path: Path) -> None:
    for page in SKILLS.glob("*/SKILL.md"):
        for block in blocks_of(page):
            if block.title:
                (tmp_path / "working" / block.title).write_text(block.text)
    for page in SKILLS.glob("*/SKILL.md"):
        for block in blocks_of(page):
            if block.title and block.language == "yaml":
                checked = run_rlcore("validate", block.title, "--allow-local", "--json")
                assert json.loads(checked.stdout)["valid"], f"{block}: {checked.stdout}"


def test_the_page_about_coding_agents_works(run_rlcore: RunRlcore, tmp_path: Path) -> None:
    place = tmp_path / "working"
    (place / "examples").mkdir(parents=True)
    example = (ROOT / "examples/cartpole.yaml").read_text(encoding="utf-8")
    (place / "examples/cartpole.yaml").write_text(shortened(example))
    for block in blocks_of(ROOT / "docs/how-to/coding-agents.md"):
        for words in commands_of(block) if block.language == "sh" else ():
            done = run_rlcore(*[word.replace("20000", "2000") for word in words])
            assert done.exit_code == 0, f"{block}: rlcore {' '.join(words)}: {done.stderr}"
    assert (place / ".claude/skills/rlcore/SKILL.md").is_file() and (place / ".agents/skills").is_dir()
