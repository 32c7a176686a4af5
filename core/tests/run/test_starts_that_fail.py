"""Plugins hear once of every start: that the run started, or that it failed to start."""

from __future__ import annotations

from typing import Any

import pytest

from rlcore import hookimpl
from rlcore.config.problems import ConfigErrors
from rlcore.errors import ConfigError, EnvironmentFailed, PluginError, RlcoreError, RunStateError
from rlcore.run.run import Run


class Hears:
    def __init__(self, refuse: bool = False, fail_at_start: bool = False) -> None:
        self.heard: list[str] = []
        self.refuse, self.fail_at_start = refuse, fail_at_start

    @hookimpl
    def rlcore_check_config(self) -> None:
        if self.refuse:
            raise ConfigError("no budget")

    @hookimpl
    def rlcore_run_started(self) -> None:
        self.heard.append("started")
        if self.fail_at_start:
            raise SystemExit(3)

    @hookimpl
    def rlcore_run_finished(self, outcome: str) -> None:
        self.heard.append(outcome)


def start(make_run: Any, hears: Hears, changes: Any = None) -> Run:
    run: Run = make_run(changes)
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
def test_a_run_that_did_not_start_does_not_finish(make_run: Any, changes: Any, kind: type[RlcoreError]) -> None:
    hears = Hears()
    with pytest.raises(kind):
        start(make_run, hears, changes)
    assert hears.heard == []


def test_a_refused_configuration_leaves_no_directory(make_run: Any, files: Any) -> None:
    with pytest.raises(ConfigError, match=r"^no budget \(refused by plugin 'hears' \(local\)\)$"):
        start(make_run, Hears(refuse=True))
    assert not files().path.exists()


def test_after_rlcore_run_started_the_end_is_reported_instead(make_run: Any) -> None:
    hears = Hears(fail_at_start=True)
    with pytest.raises(PluginError):
        start(make_run, hears)
    assert hears.heard == ["started", "failed"]


def test_a_run_that_fails_later_did_start(make_run: Any) -> None:
    hears = Hears()
    run = start(make_run, hears, {"environment.options": {"fault": "raise in step", "at": 3}})
    with pytest.raises(EnvironmentFailed):
        run.train()
    assert hears.heard == ["started", "failed"]


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
