"""Notifications of a run: their order, their number, failures in them, and the end of every run that started."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from rlcore import hookimpl
from rlcore.errors import PluginError
from rlcore.run.run import Run


def test_hook_calls_do_not_grow_with_steps(make_run: Any, hook_calls: Counter[str]) -> None:
    counts = []
    for max_steps in (200, 2000):
        hook_calls.clear()
        make_run(
            {"checkpoint_settings.run_id": f"run{max_steps}"},
            max_steps=max_steps, summary_freq=max_steps // 4, checkpoint_interval=max_steps // 2,
        ).train()  # fmt: skip
        counts.append(Counter(hook_calls))
    assert counts[0] == counts[1]
    assert counts[0]["rlcore_summary_written"] == 4 and counts[0]["rlcore_checkpoint_saved"] == 2
    assert counts[0]["rlcore_report_status"] == 2 and counts[0]["rlcore_run_finished"] == 1


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
        def rlcore_run_finished(self, outcome: str, error: Any) -> None:
            heard.append((outcome, error))

    run: Run = make_run(max_steps=100)
    run.plugins.register(Listener(), "listener")
    run.train()
    assert heard == [
        "checked", "started", ("checkpoint", 40), ("summary", "Agent", 50), ("checkpoint", 80),
        ("summary", "Agent", 100), ("checkpoint", 100), ("done", None),
    ]  # fmt: skip


def test_a_failing_notification_does_not_stop_the_run(make_run: Any, files: Any) -> None:
    class Fails:
        @hookimpl
        def rlcore_summary_written(self) -> None:
            raise RuntimeError("no network")

    run = make_run()
    run.plugins.register(Fails(), "fails", "acme-fails", "1")
    run.train()
    assert run.outcome == "done"
    (failure,) = run.plugins.failures
    assert "'fails' (acme-fails 1)" in failure and failure.endswith("(4 times)")


def test_where_plugins_are_strict_those_that_heard_of_a_start_hear_of_its_end(make_run: Any, files: Any) -> None:
    class Tracker:
        def __init__(self, error: Exception | None = None) -> None:
            self.error, self.heard = error, []  # type: ignore[var-annotated]

        @hookimpl
        def rlcore_run_started(self, run: Any) -> None:
            self.heard.append("started")
            if self.error:
                raise self.error

        @hookimpl
        def rlcore_run_finished(self, outcome: str, error: Any) -> None:
            self.heard.append((outcome, str(error)))

    run = make_run()
    run.plugins._manager._strict = True
    trackers = [Tracker(), Tracker(OSError("no network")), Tracker()]
    for number, tracker in enumerate(trackers):
        run.plugins.register(tracker, f"tracker{number}", "acme")
    with pytest.raises(PluginError, match="no network") as caught:
        run.train()
    for tracker in trackers:
        assert tracker.heard[-1] == ("failed", str(caught.value)) and tracker.heard.count(tracker.heard[-1]) == 1
    run.close()
    assert not (files().path / "configuration.yaml").exists()


@pytest.mark.parametrize("resumed", [False, True])
def test_plugins_get_the_end_of_a_run_whose_directory_fails_after_its_start(
    make_run: Any, monkeypatch: pytest.MonkeyPatch, resumed: bool
) -> None:
    got: list[Any] = []

    class Tracker:
        @hookimpl
        def rlcore_run_started(self) -> None:
            got.append("started")

        @hookimpl
        def rlcore_run_finished(self, outcome: str, error: Any) -> None:
            got.append((outcome, str(error)))

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    if resumed:
        make_run(max_steps=100).train()
    run = make_run({"checkpoint_settings.resume": resumed}, max_steps=200)
    run.plugins.register(Tracker(), "tracker")
    monkeypatch.setattr(
        "rlcore.storage.store.RunStore.forget_result" if resumed else "rlcore.storage.directory.RunDirectory.started",
        full,
    )
    with pytest.raises(OSError, match="No space left") as caught:
        run.start()
    assert got == ["started", ("failed", str(caught.value))]
