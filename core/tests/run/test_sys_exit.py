"""Foreign code that calls ``sys.exit`` never ends a run as if all were well: exit 3 or 4, and a line names it."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

import rlcore.cli.main
from rlcore.errors import EnvironmentFailed, PluginError
from rlcore.run.run import Run
from rlcore_devkit.fixtures import RunRlcore

PLUGIN = """
import sys
from pathlib import Path

import attrs
import numpy as np
import stub_plugin
from rlcore import EnvironmentSpec, StatsWriterSpec, TrainerSpec, hookimpl
from rlcore.settings import setting

FAULT = Path(__file__).with_name("fault").read_text()
CODE = Path(__file__).with_name("code").read_text()

def leave(where):
    if where == FAULT:
        Path(__file__).with_name("left").touch()
        sys.exit(eval(CODE))

def leaving(prefix, *names):
    class Leaving:
        def __getattribute__(self, name):
            found = super().__getattribute__(name)
            return call(f"{prefix}.{name}", found) if name in names else found
    return Leaving

def call(where, method):
    def called(*given, **named):
        leave(where)
        return method(*given, **named)
    return called

@hookimpl
def rlcore_environments():
    return [EnvironmentSpec(name="leaving", target="leaving:Corridor")]

@hookimpl
def rlcore_trainers():
    return [TrainerSpec(name="leaving", target="leaving:Trainer", settings="leaving:Settings")]

@hookimpl
def rlcore_stats_writers():
    return [StatsWriterSpec(name="leaving", target="leaving:Writer", settings="leaving:WriterSettings")]

STEPS = ("reset", "step", "close", "state_dict", "load_state_dict", "set_parameters")

class Corridor(leaving("environment", *STEPS), stub_plugin.FaultyCorridor):
    def __init__(self, settings, run):
        leave("environment")
        super().__init__(run)

class Policy(leaving("policy", "seed", "act"), stub_plugin.NumpyPolicy):
    pass

LEARNING = ("begin", "act", "observe", "ready", "update", "state_dict", "load_state_dict", "load_model")

class Trainer(leaving("trainer", *LEARNING), stub_plugin.NumpyTrainer):
    def __init__(self, settings, behavior, run):
        leave("trainer")
        super().__init__(settings, behavior, run)
        self._policy = Policy(self)

    policy = property(lambda self: leave("trainer.policy") or self._policy, lambda self, policy: None)

@attrs.frozen(kw_only=True)
class Settings(stub_plugin.NumpySettings):
    def __attrs_post_init__(self):
        leave("settings")

@attrs.frozen(kw_only=True)
class WriterSettings:
    def __attrs_post_init__(self):
        leave("writer settings")

class Writer(leaving("writer", "write", "close")):
    def __init__(self, settings, run):
        leave("writer")

    def write(self, *given): pass
    def close(self): pass

leave("import")
"""
WHO = r"plugin 'leaving' \(local\)"
TRAINER = r"behavior 'Agent': trainer 'leaving' failed in"
FAULTS = {
    "import": (4, rf"{WHO} failed to load"),
    "settings": (4, rf"trainer 'leaving' of {WHO} failed in its settings class Settings"),
    "environment": (4, rf"{WHO} failed in rlcore_create_environment"),
    "environment.reset": (3, "environment 'leaving' of plugin 'leaving' .local. failed in reset"),
    "environment.step": (3, "environment 'leaving' of plugin 'leaving' .local. failed in step"),
    "environment.state_dict": (3, "environment 'leaving' of plugin 'leaving' .local. failed in state_dict"),
    "environment.close": (3, "environment 'leaving' of plugin 'leaving' .local. failed in close"),
    "trainer": (4, rf"{WHO} failed in rlcore_create_trainer"),
    "trainer.begin": (4, f"{TRAINER} begin"),
    "trainer.act": (4, f"{TRAINER} act"),
    "trainer.observe": (4, f"{TRAINER} observe"),
    "trainer.ready": (4, f"{TRAINER} ready"),
    "trainer.update": (4, f"{TRAINER} update"),
    "trainer.state_dict": (4, f"{TRAINER} state_dict"),
    "policy.seed": (4, "behavior 'Agent': policy Policy failed in seed"),
    "policy.act": (4, "behavior 'Agent': policy Policy failed in act"),
    "writer settings": (4, rf"writer 'leaving' of {WHO} failed in its settings class WriterSettings"),
    "writer": (4, rf"{WHO} failed in rlcore_create_stats_writer"),
    "writer.write": (4, "writer 'leaving' of plugin 'leaving' .local. failed at step 50"),
    "writer.close": (4, "writer 'leaving' of plugin 'leaving' .local. failed to close"),
}


@pytest.fixture
def leaving(configure: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Mapping[str, Any]]:
    """``leaving("environment.step", "0")``: the configuration of a run in which that calls ``sys.exit(0)``."""

    monkeypatch.syspath_prepend(str(Path(__file__).parent))  # for stub_plugin

    def make(fault: str, code: str = "0", **changes: Any) -> Mapping[str, Any]:
        sys.modules.pop("leaving", None)
        (tmp_path / "leaving.py").write_text(PLUGIN)
        (tmp_path / "fault").write_text(fault)
        (tmp_path / "code").write_text(code)
        given = {
            "environment.type": "leaving",
            "plugins.local": [str(Path(__file__).with_name("stub_plugin.py")), str(tmp_path / "leaving.py")],
            "evaluation": {"interval": 100, "episodes": 2},
            "stats.leaving": {},
        }
        config: Mapping[str, Any] = configure(given | changes, trainer_type="leaving")
        (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
        return config

    return make


@pytest.mark.parametrize("code", ["None", "7", "'bye'"])
@pytest.mark.parametrize("fault", ["environment.step", "writer.close"])
def test_whatever_the_code_is_the_exit_code_is_rlcores_own(
    leaving: Any, run_rlcore: RunRlcore, tmp_path: Path, fault: str, code: str
) -> None:
    leaving(fault, code)
    assert run_rlcore("run", str(tmp_path / "config.yaml")).exit_code == FAULTS[fault][0]


def test_an_environment_whose_generator_is_closed_failed(leaving: Any, run_rlcore: RunRlcore, tmp_path: Path) -> None:
    leaving("environment.step", "(_ for _ in ()).throw(GeneratorExit())")
    result = run_rlcore("run", str(tmp_path / "config.yaml"))
    assert result.exit_code == 3 and "failed in step: GeneratorExit" in result.stderr


@pytest.mark.parametrize("fault", FAULTS)
def test_the_run_ends_with_exit_3_or_4_and_a_line_that_names_who_left(
    leaving: Any, run_rlcore: RunRlcore, tmp_path: Path, fault: str
) -> None:
    leaving(fault)
    result, (exit_code, who) = run_rlcore("run", str(tmp_path / "config.yaml")), FAULTS[fault]
    assert (tmp_path / "left").exists(), "or the test proves nothing"
    assert result.exit_code == exit_code, result.stderr
    (line,) = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
    assert line.count("SystemExit: 0; raise an exception instead of calling sys.exit") == 1
    assert re.search(who, line), line


def test_an_error_of_a_run_is_one_in_python_too(leaving: Any, make_run: Any) -> None:
    with pytest.raises(EnvironmentFailed, match="failed in step: SystemExit: 0"):
        Run(leaving("environment.step")).train()
    with pytest.raises(PluginError, match="failed at step 50: SystemExit: 0"):
        Run(leaving("writer.write", **{"checkpoint_settings.run_id": "two"})).train()


def test_what_leaves_while_it_is_closed_keeps_nothing_else_open(leaving: Any, files: Any) -> None:
    closed = []
    run = Run(leaving("writer.close"))
    run.start()
    environment = run.environment
    assert environment is not None
    close = type(environment).close
    type(environment).close = lambda self: closed.append(close(self))  # type: ignore[method-assign]
    with pytest.raises(PluginError, match="failed to close: SystemExit: 0"):
        run.train()
    assert closed and run.outcome == "done"
    assert files().result["outcome"] == "done" and files().steps[-1] == 200  # nothing that was learned is lost
    with Run(leaving("", **{"checkpoint_settings.force": True})) as again:  # the lock is free
        next(again)


def test_an_error_of_the_run_is_reported_before_one_of_closing(leaving: Any, caplog: pytest.LogCaptureFixture) -> None:
    run = Run(leaving("environment.close"))
    run.start()
    run.behaviors["Agent"].trainer.update = lambda: 1 / 0  # type: ignore[assignment, return-value]
    with caplog.at_level(logging.DEBUG), pytest.raises(PluginError, match="failed in update: ZeroDivisionError"):
        run.train()


def test_an_exception_in_close_is_a_warning_as_before(make_run: Any, caplog: pytest.LogCaptureFixture) -> None:
    run = make_run()
    run.start()
    run.environment.close = lambda: 1 / 0
    run.train()
    (line,) = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert (
        line
        == "environment 'corridor' of plugin 'stub_plugin' (local) failed to close: ZeroDivisionError: division by zero"
    )


@pytest.mark.parametrize(
    ("fault", "exit_code", "who"),
    [
        ("environment.step", 3, "environment 'leaving' of plugin 'leaving' (local) failed in step"),
        ("environment.close", 3, "environment 'leaving' of plugin 'leaving' (local) failed in close"),
        ("policy.act", 4, "behavior 'Agent': policy Policy failed in act"),
        ("trainer.load_model", 4, "behavior 'Agent': trainer 'leaving' failed in load_model"),
        ("trainer.policy", 4, "trainer 'leaving' of plugin 'leaving' (local) returned a Trainer that failed"),
    ],
)
def test_rlcore_evaluate_says_so_too(
    leaving: Any, run_rlcore: RunRlcore, tmp_path: Path, fault: str, exit_code: int, who: str
) -> None:
    leaving("")
    assert run_rlcore("run", str(tmp_path / "config.yaml")).exit_code == 0
    leaving(fault)
    result = run_rlcore("evaluate", str(tmp_path / "results" / "run"))
    assert result.exit_code == exit_code and who in result.stderr, result.stderr


def test_rlcore_validate_says_so_too(leaving: Any, run_rlcore: RunRlcore, tmp_path: Path) -> None:
    leaving("settings")
    result = run_rlcore("validate", str(tmp_path / "config.yaml"))
    assert result.exit_code == 4 and "failed in its settings class Settings: SystemExit: 0" in result.stderr


@pytest.mark.parametrize(
    ("command", "code", "exit_code", "said"),
    [
        ("run", 0, 1, "error: unexpected SystemExit: 0; raise an exception instead"),
        ("--debug status x", 0, 1, "error: unexpected SystemExit: 0; raise an exception instead"),
        *[("sweep", code, code or 0, "") for code in (0, None, 3)],
        ("sweep", "no such file", 1, "no such file\n"),
    ],
)
def test_a_system_exit_that_nothing_caught_is_an_error_unless_it_is_of_a_plugins_own_command(
    run_rlcore: RunRlcore, monkeypatch: pytest.MonkeyPatch, command: str, code: Any, exit_code: int, said: str
) -> None:
    def leave(*given: Any, **named: Any) -> None:
        raise SystemExit(code)

    monkeypatch.setattr(rlcore.cli.main.rlcore, "main", leave)
    result = run_rlcore(*command.split())
    assert result.exit_code == exit_code
    assert result.stderr == said if command == "sweep" else said in result.stderr
