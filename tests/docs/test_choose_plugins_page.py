"""The page about choosing plugins: each message in its table is one that a command prints."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import attrs
import pytest
from pages import RunPage
from workspace import ROOT

from rlcore import CONTRACT
from rlcore_devkit.fixtures import InstallPlugin, RunRlcore, installed_plugin, run_rlcore

pytestmark = pytest.mark.documentation

__all__ = ["installed_plugin", "run_rlcore"]

PAGE = "docs/how-to/choose-plugins.md"
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
UNKNOWN = CHECK.replace("check_config(config)", "trainer()")
OLD = "from rlcore.config import setting\n" + CHECK
CONFIG = """
environment: {type: gymnasium, id: CartPole-v1}
behaviors: {Pole: {trainer_type: ppo}}
"""


@attrs.frozen
class Case:
    """A plugin, a command, and the message in the table that the command prints."""

    message: str
    words: tuple[str, ...] = ()
    source: Mapping[str, str] = {}  # of plugins, by NAME or DIST/NAME
    config: str = ""
    requires: str = "rlcore"
    contract: int | None = CONTRACT
    env: Mapping[str, str] = {}


CASES = (
    Case("plugin 'x' (asked for by -p) is not installed", ("-p", "x")),
    Case("warning: plugin 'x' (turned off by -p) is not installed", ("-p", "no:x")),
    Case("acme-ppo 3.2 needs rlcore<0.1, this is rlcore", ("-p", "acme-ppo/x"), {"x": CHECK}, requires="rlcore<0.1"),
    Case("acme-ppo 3.2 is written for contract 1 of rlcore, and this rlcore has contract 3",
         (), {"x": OLD}, contract=1),
    Case("acme-ppo 3.2 declares no contract and is written for an earlier one", (), {"x": OLD}, contract=None),
    Case("2 plugins are named 'ppo': ...", (), {"ppo": CHECK}),
    Case("trainer 'ppo' is provided by plugin ... and plugin ...", (), {"x": TRAINER}),
    Case("the configuration section 'acme' is claimed by plugin ... and plugin ...", (), {"x": SECTION, "y": SECTION}),
    Case("unknown key ...; turned off: plugin 'x' (acme-ppo 3.2)", ("-p", "no:x"), {"x": SECTION}, config="acme: {}"),
    Case("unknown hook 'rlcore_trainer'; did you mean 'rlcore_trainers'?", (), {"x": UNKNOWN}),
    Case("plugin 'x' (acme-ppo 3.2) failed to load: ImportError: ...", ("-p", "x"), {"x": "raise ImportError('y')"}),
    Case("plugin 'x' (acme-ppo 3.2) failed in rlcore_check_config: ...", (), {"x": CHECK}),
    Case("... is rlcore itself and cannot be turned off", ("-p", "no:core")),
    Case("'no:A' is not a plugin: write NAME, DIST/NAME, or module:...", ("-p", "no:A")),
    Case("'x' is in both enable and disable", config="plugins: {enable: [x], disable: [x]}"),
    Case("RLCORE_PLUGIN_AUTOLOAD must be 0 or 1", env={"RLCORE_PLUGIN_AUTOLOAD": "yes"}),
)  # fmt: skip


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


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.message[:40])
def test_a_message_of_the_table_is_printed(
    case: Case,
    installed_plugin: InstallPlugin,
    run_rlcore: RunRlcore,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for number, (name, source) in enumerate(case.source.items()):
        distribution = "acme-other" if number else "acme-ppo"
        installed_plugin(name, distribution, "3.2", source, [case.requires], contract=case.contract)
    for name, text in case.env.items():
        monkeypatch.setenv(name, text)
    (tmp_path / "working/run.yaml").write_text(CONFIG + case.config + "\n")
    answer = run_rlcore("validate", "run.yaml", *case.words)
    pattern = ".*".join(map(re.escape, case.message.split("...")))
    assert re.search(pattern, answer.stdout + answer.stderr), answer


def test_the_table_has_these_messages_and_no_others() -> None:
    text = (ROOT / PAGE).read_text(encoding="utf-8")
    table = text.split("| message | solution |\n|---|---|\n")[1].split("\n\n")[0]
    shown = [re.findall(r"^\| `(.*?)` \|", line)[0] for line in table.splitlines()]
    assert sorted(map(general, shown)) == sorted(general(case.message) for case in CASES)


def test_the_plugin_page_runs(run_page: RunPage) -> None:
    results = run_page("docs/how-to/choose-plugins.md") / "results"
    for name in ("notify", "second"):
        assert (results / name / "outcome.txt").read_text() == "done\n"
