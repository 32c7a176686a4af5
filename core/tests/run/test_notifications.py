"""Notifications of a run: their order, failures in them, and one end of every run that started."""

from __future__ import annotations

from typing import Any

import pytest

from rlcore import hookimpl
from rlcore.config.problems import ConfigErrors
from rlcore.errors import ConfigError, EnvironmentFailed, PluginError, RlcoreError, RunStateError
from rlcore.run.run import Run

STARTED = ["started", "failed"]


class Tracker:
    """Notes the start and the end of a run; ``refuses`` the configuration, or raises ``at_start``."""

    def __init__(self, refuses: bool = False, at_start: BaseException | None = None) -> None:
        self.refuses, self.at_start = refuses, at_start
        self.heard: list[Any] = []

    @hookimpl
    def rlcore_check_config(self) -> None:
        if self.refuses:
            raise ConfigError("no budget")

    @hookimpl
    def rlcore_run_started(self) -> None:
        self.heard.append("started")
        if self.at_start is not None:
            raise self.at_start

    @hookimpl
    def rlcore_run_finished(self, outcome: str, error: Any) -> None:
        self.heard.append((outcome, str(error)))


def tracked(run: Run, *trackers: Tracker) -> Run:
    for number, tracker in enumerate(trackers):
        run.plugins.register(tracker, f"tracker{number}")
    return run


def test_notifications_come_in_order_with_what_they_promise(make_run: Any, files: Any) -> None:
    heard: list[Any] = []

    class Listener:
        @hookimpl
        def rlcore_check_config(self, config: Any) -> None:
            heard.append("checked")

        @hookimpl
        def rlcore_run_started(self, run: Any) -> None:
            assert run.seed == 5 and run.directory == files().path and (run.directory / "configuration.yaml").is_file()
            heard.append("started")

        @hookimpl
        def rlcore_summary_written(self, behavior: str, step: int, stats: Any) -> None:
            heard.append(("summary", behavior, step))

        @hookimpl
        def rlcore_checkpoint_saved(self, step: int, path: Any) -> None:
            assert (path / "manifest.json").is_file()
            heard.append(("checkpoint", step))

        @hookimpl
        def rlcore_run_finished(self, outcome: str, error: Any, results: Any) -> None:
            heard.append((outcome, error, results))

    run: Run = make_run(max_steps=100, plugins={"listener": Listener()})
    results = run.train()
    assert heard == [
        "checked", "started", ("checkpoint", 40), ("summary", "Agent", 50), ("checkpoint", 80),
        ("summary", "Agent", 100), ("checkpoint", 100), ("done", None, results),
    ]  # fmt: skip
    written = files().result["behaviors"]["Agent"]
    assert (results["Agent"].episodes, results["Agent"].mean_reward) == (written["episodes"], written["mean_reward"])


@pytest.mark.parametrize(
    ("changes", "tracker", "kind", "heard"),
    [
        ({"environment.options": {"fault": "raise in reset"}}, Tracker(), EnvironmentFailed, []),
        ({"environment.type": "pair"}, Tracker(), ConfigErrors, []),
        ({"checkpoint_settings.resume": True}, Tracker(), RunStateError, []),
        ({}, Tracker(refuses=True), ConfigError, []),
        ({}, Tracker(at_start=SystemExit(3)), PluginError, STARTED),
        ({"environment.options": {"fault": "raise in step", "at": 3}}, Tracker(), EnvironmentFailed, STARTED),
    ],
)
def test_a_run_that_started_finishes_and_no_other_one(
    make_run: Any, files: Any, changes: Any, tracker: Tracker, kind: type[RlcoreError], heard: list[str]
) -> None:
    with pytest.raises(kind) as caught:
        tracked(make_run(changes), tracker).train()
    assert [each if isinstance(each, str) else each[0] for each in tracker.heard] == heard
    if tracker.refuses:
        assert str(caught.value) == "no budget (refused by plugin 'tracker0' (local))" and not files().path.exists()


def test_where_plugins_are_strict_those_that_heard_of_a_start_hear_of_its_end(make_run: Any, files: Any) -> None:
    trackers = [Tracker(), Tracker(at_start=OSError("no network")), Tracker()]
    run = tracked(make_run(), *trackers)
    run.plugins._manager._strict = True
    with pytest.raises(PluginError, match="no network") as caught:
        run.train()
    for tracker in trackers:
        assert tracker.heard[-1] == ("failed", str(caught.value)) and tracker.heard.count(tracker.heard[-1]) == 1
    run.close()
    assert not (files().path / "configuration.yaml").exists()
