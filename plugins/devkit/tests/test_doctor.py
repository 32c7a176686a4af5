"""``rlcore plugins doctor``: each rule has a plugin that breaks it, and nothing is said of one that breaks none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from rlcore import CONTRACT
from rlcore_devkit.fixtures import InstallPlugin, RunRlcore

TRAINER = """
from rlcore import TrainerSpec, hookimpl
@hookimpl
def rlcore_trainers():
    return [TrainerSpec(name="tiny", target="{target}", settings="rlcore.settings:RewardSettings", summary="tiny one")]
"""
FINDINGS = yaml.safe_load((Path(__file__).parent / "data/doctor.yaml").read_text(encoding="utf-8"))
Diagnosis = tuple[int, list[tuple[str, str, str]]]


def diagnosis(run_rlcore: RunRlcore, *arguments: str) -> Diagnosis:
    """The exit code, and the level, rule and message of each finding."""
    result = run_rlcore("plugins", "doctor", "--json", *arguments)
    findings = json.loads(result.stdout)["findings"]
    return result.exit_code, [(finding["level"], finding["rule"], finding["message"]) for finding in findings]


@pytest.mark.parametrize("case", FINDINGS, ids=lambda case: case["said"])
def test_one_thing_that_is_wrong_is_found(
    installed_plugin: InstallPlugin, run_rlcore: RunRlcore, case: dict[str, Any]
) -> None:
    level = "error" if "error" in case else "warning"
    source = f"{case.get('before', '')}\n{TRAINER.format(target=case.get('target', 'json:loads'))}"
    requires = case.get("requires", ["rlcore>=0.1"])
    installed_plugin(
        "tiny", "acme-tiny", "1.2", case.get("module", source), requires, contract=case.get("contract", CONTRACT)
    )
    code, [(found, rule, message)] = diagnosis(run_rlcore, "tiny")
    assert (code, found, rule) == (int(level == "error"), level, case[level])
    assert case["said"] in message and "rlcore plugins doctor" not in message
    assert run_rlcore("plugins", "doctor", "tiny").stdout == f"acme-tiny/tiny:\n  {level}: {message}\n"


def test_nothing_is_wrong_with_a_sound_plugin_and_an_unknown_one_is_refused(
    installed_plugin: InstallPlugin, run_rlcore: RunRlcore
) -> None:
    installed_plugin("tiny", "acme-tiny", "1.2", TRAINER.format(target="json:loads"))
    assert run_rlcore("plugins", "doctor", "tiny").stdout == "acme-tiny/tiny: ok\n"
    unknown = run_rlcore("plugins", "doctor", "tinny")
    assert unknown.exit_code == 4 and "did you mean 'tiny'?" in unknown.stderr


def test_clashes_are_reported_for_the_plugins_that_clash_only(
    installed_plugin: InstallPlugin, run_rlcore: RunRlcore
) -> None:
    for name, distribution in (("ab", "my-acme"), ("ab", "other"), ("a", "acme")):  # acme/a is part of my-acme/ab
        installed_plugin(name, distribution, "1", TRAINER.format(target="json:loads").replace("tiny", distribution))
    assert diagnosis(run_rlcore, "acme/a") == (0, [])
    code, [(level, rule, message)] = diagnosis(run_rlcore, "my-acme/ab")
    assert (code, level, rule) == (0, "warning", "clash") and message.startswith("2 plugins are named 'ab': ")


SECTION = "ConfigSection(name='acme', target='json:loads')"
STORE = """
@hookimpl
def rlcore_read_status(): return None
@hookimpl{wrapper}
def rlcore_write_status(status): {answer}
"""
TWO = {
    "records": (TRAINER.format(target="json:loads"), "warning", "trainer 'tiny' is provided by plugin 'one'"),
    "sections": (
        f"from rlcore import ConfigSection, hookimpl\n@hookimpl\ndef rlcore_config_sections(): return [{SECTION}]\n",
        "error",
        "configuration section 'acme' is provided by plugin 'one'",
    ),
    "stores": (
        f"from rlcore import hookimpl\n{STORE.format(wrapper='', answer='return True')}",
        "error",
        "rlcore_write_status is answered by acme-two/two, acme-one/one and only one can win",
    ),
    "wrappers": (
        f"from rlcore import hookimpl\n{STORE.format(wrapper='(wrapper=True)', answer='return (yield)')}",
        "",
        "",
    ),
}


@pytest.mark.parametrize("what", TWO)
def test_two_plugins_may_clash(installed_plugin: InstallPlugin, run_rlcore: RunRlcore, what: str) -> None:
    source, level, said = TWO[what]
    for name in ("one", "two"):
        installed_plugin(name, f"acme-{name}", "1", source)
    code, findings = diagnosis(run_rlcore, "two")
    assert code == int(level == "error") and [(found, rule) for found, rule, _ in findings] == (
        [(level, "clash")] if level else []
    )
    assert all(message.startswith(said) for *_, message in findings)


def test_commands_of_the_core_cannot_be_replaced(installed_plugin: InstallPlugin, run_rlcore: RunRlcore) -> None:
    records = "CommandSpec(name='run', target='json:loads'), CommandSpec(name='plugins list', target='json:loads')"
    source = f"from rlcore import CommandSpec, hookimpl\n@hookimpl\ndef rlcore_commands(): return [{records}]\n"
    installed_plugin("taker", "acme-taker", "1", source)
    code, findings = diagnosis(run_rlcore, "taker")
    said = "the command '{}' is core's own and would never be called"
    assert code == 1 and [message for *_, message in findings] == [said.format("plugins list"), said.format("run")]


def test_entry_points_that_were_not_reinstalled_are_found(
    installed_plugin: InstallPlugin, run_rlcore: RunRlcore, tmp_path: Path
) -> None:
    installed = installed_plugin("tiny", "acme-tiny", "1.2", TRAINER.format(target="json:loads"))
    source = tmp_path / "source"
    source.mkdir()
    points = f"tiny = '{installed.module}'\nnewer = '{installed.module}'\n"
    (source / "pyproject.toml").write_text(f"[project.entry-points.rlcore]\n{points}")
    url = {"url": source.as_uri(), "dir_info": {"editable": True}}
    (next(installed.directory.glob("*.dist-info")) / "direct_url.json").write_text(json.dumps(url))
    code, [(level, _, message)] = diagnosis(run_rlcore, "tiny")
    assert (code, level) == (0, "warning") and message.endswith(f"run pip install -e {source}")
    assert "(editable)" in run_rlcore("plugins", "list").stdout


def test_a_slow_import_is_a_warning(installed_plugin: InstallPlugin, run_rlcore: RunRlcore) -> None:
    source = f"import time; time.sleep(.06)\n{TRAINER.format(target='json:loads')}"
    installed_plugin("tiny", "acme-tiny", "1.2", source)
    code, [(level, rule, message)] = diagnosis(run_rlcore, "tiny")
    assert (code, level, rule) == (0, "warning", "fast") and message.endswith(" to import (over 50 ms)")


# ------------------------------------------------------------ what only reading or ending shows


@pytest.mark.parametrize(
    ("added", "level", "rule", "said"),
    [
        ("from rlcore.records import Record", "warning", "private", "imports rlcore.records.Record"),
        ("import rlcore.hookspecs", "warning", "private", "imports rlcore.hookspecs"),
        (
            "if False:\n    import rlcore_torch.backend", "warning", "private",
            "imports rlcore_torch.backend, which is not public and may move at any time; import from rlcore_torch what",
        ),
        (
            "if False:\n    from rlcore import EXIT_DONE", "warning", "private",
            "imports rlcore.EXIT_DONE, which is not there; docs/how-to/porting.md has the names that moved",
        ),
        ("if False:\n    import rlcore_torch.batches", "warning", "private", "batches, which is not there"),
        ("if False:\n    from rlcore_ppo.trainer import T", "warning", "private", "imports rlcore_ppo.trainer.T"),
        ("if False:\n    from rlcore_ppo import _x", "warning", "private", "imports rlcore_ppo._x"),
        (
            "import atexit, time\natexit.register(time.sleep, 100)", "error", "alone",
            "does not end within 3 s: a thread or exit handler hangs",
        ),
        (
            "import sys, time\nif 'rlcore.cli' not in sys.modules:\n    time.sleep(100)", "error", "alone",
            "does not return within 3 s",
        ),
    ],
)  # fmt: skip
def test_private_imports_and_hangs_are_found(
    installed_plugin: InstallPlugin, run_rlcore: RunRlcore, monkeypatch: pytest.MonkeyPatch, added: str, level: str,
    rule: str, said: str,
) -> None:  # fmt: skip
    monkeypatch.setattr("rlcore_devkit.doctor.IMPORT_SECONDS", 3.0)
    monkeypatch.setattr("atexit.register", lambda *_: None)  # in this process
    installed_plugin("tiny", "acme-tiny", "1.2", f"{added}\n{TRAINER.format(target='json:loads')}")
    code, findings = diagnosis(run_rlcore, "tiny")
    assert [each[:2] for each in findings] == [(level, rule)] and code == int(level == "error")
    assert said in findings[0][2]


def test_public_names_of_rlcores_plugins_are_no_finding(installed_plugin: InstallPlugin, run_rlcore: RunRlcore) -> None:
    public = (
        "    from rlcore_torch import OptimizerSpec\n    from rlcore_ppo import trainer\n"
        "    from rlcore_ppo.trainer import PPOTrainer\n    import rlcore_ppo.trainer\n"
        "    from rlcore_unity.mlagents_messages import Writer\n"
    )
    installed_plugin("tiny", "acme-tiny", "1.2", f"if False:\n{public}{TRAINER.format(target='json:loads')}")
    assert diagnosis(run_rlcore, "tiny") == (0, [])


def test_an_async_hook_is_refused(installed_plugin: InstallPlugin, run_rlcore: RunRlcore) -> None:
    source = "from rlcore import hookimpl\n@hookimpl\nasync def rlcore_run_started(run):\n    pass\n"
    installed_plugin("tiny", "acme-tiny", "1.2", source)
    code, [(level, rule, message)] = diagnosis(run_rlcore, "tiny")
    assert (code, level, rule) == (1, "error", "loads")
    assert "rlcore_run_started is `async def`, and its answer would never be awaited; write `def`" in message
