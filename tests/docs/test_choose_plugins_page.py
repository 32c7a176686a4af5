"""The pages about choosing plugins and their problems: each message in the table is one that a command prints."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from pages import RunPage
from workspace import ROOT

from rlcore import CONTRACT
from rlcore_devkit.fixtures import InstallPlugin, RunRlcore, installed_plugin, run_rlcore

pytestmark = pytest.mark.documentation

__all__ = ["installed_plugin", "run_rlcore"]

PROBLEMS = "docs/how-to/plugin-problems.md"
SECTION = """
from rlcore import ConfigSection, hookimpl
@hookimpl
def rlcore_config_sections(): return [ConfigSection(name="acme", target="a:B", summary="x")]
"""
TRAINER = """
from rlcore import TrainerSpec, hookimpl
@hookimpl
def rlcore_trainers(): return [TrainerSpec(name="ppo", target="a:B", settings="a:C", spaces={"discrete"}, summary="x")]
"""
CHECK = """
from rlcore import hookimpl
@hookimpl
def rlcore_check_config(config): raise ZeroDivisionError
"""
SOURCES = {
    "section": SECTION, "trainer": TRAINER, "check": CHECK, "broken": "raise ImportError('y')",
    "unknown hook": CHECK.replace("check_config(config)", "trainer()"),
    "old": "from rlcore.config import setting\n" + CHECK,
}  # fmt: skip
CONFIG = """
environment: {type: gymnasium, id: CartPole-v1}
behaviors: {Pole: {trainer_type: ppo}}
preset: none
"""
CASES = yaml.safe_load((Path(__file__).parent / "data/plugin_messages.yaml").read_text("utf-8"))


def general(message: str) -> str:
    """The message without the names and versions that differ between the page and a test."""
    message = re.sub(r"rlcore[<>=][^ ]+, this is rlcore.*", "BOUNDS", message)
    for pattern, word in (
        (r"'(x|acme|no:\w+)'", "NAME"),
        (r"\((acme-\w+ [\d.]+)\)", "OWNER"),
        (r"rlcore_\w+:", "HOOK:"),
    ):
        message = re.sub(pattern, word, message)
    return message


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["message"][:40])
def test_a_message_of_the_table_is_printed(
    case: dict[str, Any],
    installed_plugin: InstallPlugin,
    run_rlcore: RunRlcore,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for distribution, (name, source) in zip(("acme-ppo", "acme-other"), case.get("plugins", {}).items(), strict=False):
        requires = [case.get("requires", "rlcore")]
        contract = case.get("contract", CONTRACT)
        installed_plugin(name, distribution, "3.2", SOURCES[source], requires, contract=contract)
    for name, text in case.get("env", {}).items():
        monkeypatch.setenv(name, text)
    (tmp_path / "working/run.yaml").write_text(CONFIG + case.get("config", "") + "\n")
    answer = run_rlcore("validate", "run.yaml", *case.get("words", "").split())
    pattern = ".*".join(map(re.escape, case["message"].split("...")))
    assert re.search(pattern, answer.stdout + answer.stderr), answer


def test_the_table_has_these_messages_and_no_others() -> None:
    text = (ROOT / PROBLEMS).read_text(encoding="utf-8")
    table = text.split("| message | solution |\n|---|---|\n")[1].split("\n\n")[0]
    shown = [re.findall(r"^\| `(.*?)` \|", line)[0] for line in table.splitlines()]
    assert sorted(map(general, shown)) == sorted(general(case["message"]) for case in CASES)


def test_the_plugin_page_runs(run_page: RunPage) -> None:
    results = run_page("docs/how-to/choose-plugins.md") / "results"
    for name in ("notify", "second"):
        assert (results / name / "outcome.txt").read_text() == "done\n"
