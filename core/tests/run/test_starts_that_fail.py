"""Plugins hear once of every start: that the run started, or that it failed to start."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rlcore import hookimpl
from rlcore.config.problems import ConfigErrors
from rlcore.errors import ConfigError, EnvironmentFailed, PluginError, RlcoreError, RunStateError
from rlcore.run.run import Run


class Hears:
    def __init__(self, refuse: bool = False, fail: bool = False, fail_at_start: bool = False) -> None:
        self.heard: list[tuple[str, str]] = []
        self.refuse, self.fail, self.fail_at_start = refuse, fail, fail_at_start

    @hookimpl
    def rlcore_check_config(self) -> None:
        if self.refuse:
            raise ConfigError("no budget")

    @hookimpl
    def rlcore_run_started(self) -> None:
        self.heard.append(("started", ""))
        if self.fail_at_start:
            raise SystemExit(3)

    @hookimpl
    def rlcore_run_failed_to_start(self, config: Any, directory: Path, error: BaseException) -> None:
        assert directory.name == config.checkpoint_settings.run_id == "run"
        self.heard.append((type(error).__name__, str(error)))
        if self.fail:
            raise OSError("no network")

    @hookimpl
    def rlcore_run_finished(self, outcome: str) -> None:
        self.heard.append((outcome, ""))


def start(make_run: Any, hears: Hears, changes: Any = None, strict: bool = False, **keywords: Any) -> Run:
    run: Run = make_run(changes, **keywords)
    run.plugins._manager._strict = strict
    run.plugins.register(hears, "hears")
    run.start()
    return run


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"environment.options": {"fault": "raise in reset"}}, EnvironmentFailed),
        ({"environment.type": "pair"}, ConfigErrors),
        ({"checkpoint_settings.resume": True}, RunStateError),
    ],
)
def test_a_start_that_fails_is_reported_once_with_its_error(
    make_run: Any, changes: Any, kind: type[RlcoreError]
) -> None:
    hears = Hears()
    with pytest.raises(kind) as caught:
        start(make_run, hears, changes)
    assert hears.heard == [(kind.__name__, str(caught.value))]


def test_a_refused_configuration_is_reported(make_run: Any, files: Any) -> None:
    hears = Hears(refuse=True)
    with pytest.raises(ConfigError, match=r"^no budget \(refused by plugin 'hears' \(local\)\)$") as refused:
        start(make_run, hears)
    assert hears.heard == [("ConfigError", str(refused.value))] and not files().path.exists()


def test_a_start_that_is_interrupted_is_reported(make_run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    hears = Hears()
    monkeypatch.setattr("rlcore.run.assemble.make_writers", interrupt)
    with pytest.raises(KeyboardInterrupt):
        start(make_run, hears)
    assert hears.heard == [("KeyboardInterrupt", "")]


@pytest.mark.parametrize("strict", [False, True])
def test_a_plugin_that_fails_then_does_not_hide_the_error(make_run: Any, strict: bool) -> None:
    hears = Hears(fail=True)
    with pytest.raises(EnvironmentFailed):
        start(make_run, hears, {"environment.options": {"fault": "raise in reset"}}, strict)
    assert [kind for kind, _ in hears.heard] == ["EnvironmentFailed"]


def test_after_rlcore_run_started_the_end_is_reported_instead(make_run: Any) -> None:
    hears = Hears(fail_at_start=True)
    with pytest.raises(PluginError):
        start(make_run, hears)
    assert hears.heard == [("started", ""), ("failed", "")]


def test_a_run_that_fails_later_did_start(make_run: Any) -> None:
    hears = Hears()
    run = start(make_run, hears, {"environment.options": {"fault": "raise in step", "at": 3}})
    with pytest.raises(EnvironmentFailed):
        run.train()
    assert hears.heard == [("started", ""), ("failed", "")]


def test_the_end_of_a_run_has_its_results(make_run: Any, files: Any) -> None:
    got: list[Any] = []

    class Reports:
        @hookimpl
        def rlcore_run_finished(self, results: Any) -> None:
            got.append(results)

    run: Run = make_run()
    run.plugins.register(Reports(), "reports")
    results = run.train()
    assert got == [results] and results["Agent"].steps == 200
    written = files().result["behaviors"]["Agent"]
    assert (results["Agent"].episodes, results["Agent"].mean_reward) == (written["episodes"], written["mean_reward"])
