"""Foreign code that calls ``sys.exit`` never ends a run as if all were well: exit 3 or 4, and a line names it."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

import rlcore.cli.main
from rlcore.errors import PluginError
from rlcore.run.run import Run
from rlcore_devkit.fixtures import RunRlcore

HERE = Path(__file__).parent
CASES = yaml.safe_load((HERE / "data/sys_exit.yaml").read_text(encoding="utf-8"))
RUNS = CASES["run"]
EVALUATIONS = CASES["evaluate"]


@pytest.fixture
def leaving(configure: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Mapping[str, Any]]:
    """``leaving("environment.step", "0")``: the configuration of a run in which that calls ``sys.exit(0)``."""
    monkeypatch.syspath_prepend(str(HERE))  # for stub_plugin

    def make(fault: str, code: str = "0", **changes: Any) -> Mapping[str, Any]:
        sys.modules.pop("leaving", None)
        for name, value in (("LEAVE_IN", fault), ("LEAVE_WITH", code), ("LEFT", "")):
            monkeypatch.setenv(name, value)
        given = {
            "environment.type": "leaving",
            "plugins.local": [str(HERE / "stub_plugin.py"), str(HERE / "leaving.py")],
            "evaluation": {"interval": 100, "episodes": 2},
            "stats.leaving": {},
        }
        config: Mapping[str, Any] = configure(given | changes, trainer_type="leaving")
        (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
        return config

    return make


@pytest.mark.parametrize("fault", RUNS)
def test_the_run_ends_with_exit_3_or_4_and_a_line_that_names_who_left(
    leaving: Any, run_rlcore: RunRlcore, tmp_path: Path, fault: str
) -> None:
    leaving(fault)
    result = run_rlcore("run", str(tmp_path / "config.yaml"))
    assert os.environ["LEFT"] == fault, "or the test proves nothing"
    assert result.exit_code == RUNS[fault]["exit_code"], result.stderr
    (line,) = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
    assert line.count("SystemExit: 0; raise an exception instead of calling sys.exit") == 1
    assert RUNS[fault]["who"] in line


def test_what_leaves_while_it_is_closed_keeps_nothing_else_open(leaving: Any, files: Any) -> None:
    closed: list[None] = []
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


def test_an_error_of_the_run_is_reported_before_one_of_closing(leaving: Any) -> None:
    run = Run(leaving("environment.close"))
    run.start()
    run.behaviors["Agent"].trainer.update = lambda: 1 / 0  # type: ignore[assignment, return-value]
    with pytest.raises(PluginError, match="failed in update: ZeroDivisionError"):
        run.train()


def test_an_exception_in_close_is_a_warning_as_before(make_run: Any, caplog: pytest.LogCaptureFixture) -> None:
    run = make_run()
    run.start()
    run.environment.close = lambda: 1 / 0
    run.train()
    (line,) = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    who = "environment 'corridor' of plugin 'stub_plugin' (local)"
    assert line == f"{who} failed to close: ZeroDivisionError: division by zero"


@pytest.mark.parametrize("fault", EVALUATIONS)
def test_rlcore_evaluate_says_so_too(leaving: Any, run_rlcore: RunRlcore, tmp_path: Path, fault: str) -> None:
    leaving("")
    assert run_rlcore("run", str(tmp_path / "config.yaml")).exit_code == 0
    leaving(fault)
    result = run_rlcore("evaluate", str(tmp_path / "results" / "run"))
    assert result.exit_code == EVALUATIONS[fault]["exit_code"], result.stderr
    assert EVALUATIONS[fault]["who"] in result.stderr


@pytest.mark.parametrize(
    ("command", "code", "exit_code", "said"),
    [
        ("run", 0, 1, "error: unexpected SystemExit: 0; raise an exception instead"),
        ("sweep", 3, 3, ""),
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
