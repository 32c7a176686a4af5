"""Plugins add statistics to summaries, and change them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rlcore import CurriculumSpec, hookimpl
from rlcore.contracts.stats import StatSummary, Tag
from rlcore.plugins.call import Plugins

RUN: Any = SimpleNamespace()
LENGTH = StatSummary.of([2.0, 4.0])


class Processes:
    def __init__(self, answer: Any) -> None:
        self.answer = answer

    @hookimpl
    def rlcore_process_summary(self, stats: Any) -> Any:
        return self.answer(stats) if callable(self.answer) else self.answer


def test_a_run_writes_and_reports_what_plugins_make_of_a_summary(make_run: Any, files: Any) -> None:
    heard: list[Any] = []

    class Meters:
        @hookimpl
        def rlcore_process_summary(self, run: Any, behavior: str, step: int, stats: Any) -> Any:
            return {"Acme/Meters": stats[Tag.EPISODE_LENGTH].mean * 0.5, "Losses/Policy Loss": float(step)}

        @hookimpl
        def rlcore_summary_written(self, stats: Any) -> None:
            heard.append(stats["Acme/Meters"])

    run = make_run(plugins={"meters": Meters()})
    epochs = [epoch.behaviors["Agent"].stats for epoch in run]
    for epoch, line, summary in zip(epochs, files().metrics, heard, strict=True):
        length = line["stats"][Tag.EPISODE_LENGTH]
        assert line["stats"]["Acme/Meters"] == pytest.approx(0.5 * length) == summary.mean
        assert epoch["Acme/Meters"] == summary == StatSummary.of([summary.mean])
        assert line["stats"]["Losses/Policy Loss"] == line["step"]
    assert len(heard) == 4


def test_plugins_see_the_changes_of_those_before_them(plugins: Plugins) -> None:
    plugins.register(Processes(lambda stats: {"a": stats["b"].mean + 1}), "called second")
    plugins.register(Processes({"b": 2}), "called first")
    stats = plugins.process_summary(RUN, "Agent", 5, {"b": StatSummary.of([0.0]), Tag.EPISODE_LENGTH: LENGTH})
    assert {tag: summary.mean for tag, summary in stats.items()} == {"a": 3, "b": 2, Tag.EPISODE_LENGTH: 3}
    assert stats[Tag.EPISODE_LENGTH] is LENGTH


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ([1], "returned a list, not a mapping or None"),
        ({"a": "many"}, "returned 'a': 'many'; a tag is text, and its value a number or a StatSummary"),
        (lambda stats: stats["none"], "failed in rlcore_process_summary: KeyError: 'none'"),
    ],
)
def test_a_plugin_that_fails_changes_nothing_and_is_reported(plugins: Plugins, answer: Any, problem: str) -> None:
    plugins.register(Processes({"mine": 1.0}), "works")
    plugins.register(Processes(answer), "bad", "acme-bad", "1")
    stats = plugins.process_summary(RUN, "Agent", 5, {Tag.EPISODE_LENGTH: LENGTH})
    assert set(stats) == {"mine", Tag.EPISODE_LENGTH}
    (failure,) = plugins.failures
    assert failure.startswith("plugin 'bad' (acme-bad 1)") and problem in failure


def test_curricula_get_what_was_measured(make_run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    got: list[Any] = []
    create = CurriculumSpec.create

    def watched(self: CurriculumSpec, settings: Any, run: Any) -> Any:
        curriculum: Any = create(self, settings=settings, run=run)
        curriculum.summarised = lambda behavior, stats: got.append(dict(stats))
        return curriculum

    monkeypatch.setattr(CurriculumSpec, "create", watched)

    stubs = [str(Path(__file__).parent / name) for name in ("stub_plugin.py", "stub_curriculum.py")]
    run = make_run(
        {
            "environment.type": "paced",
            "plugins.local": stubs,
            "environment_parameters": {"pace": {"curriculum": {"type": "stages"}}},
        }
    )
    run.plugins.register(Processes({Tag.CUMULATIVE_REWARD: 1e9, "Acme/New": 1.0}), "boasts")
    shown = [epoch.behaviors["Agent"].stats for epoch in run]
    assert len(got) == len(shown) == 4
    assert all(stats[Tag.CUMULATIVE_REWARD].mean == 1e9 for stats in shown)
    assert all("Acme/New" not in stats and stats[Tag.CUMULATIVE_REWARD].mean < 1e6 for stats in got)
