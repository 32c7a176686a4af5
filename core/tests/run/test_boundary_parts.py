"""A part that a plugin adds to a boundary: its place in the order, what it is told, and what is saved of it."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Any

import pytest

from rlcore.errors import PluginError

STUBS = [str(Path(__file__).parent / name) for name in ("stub_plugin.py", "stub_part.py")]
TICKING: dict[str, Any] = {"plugins.local": STUBS, "environment.type": "identity"}
RESUME = {"checkpoint_settings.resume": True}
LENGTHS = {"max_steps": 120, "summary_freq": 60, "checkpoint_interval": 70}


def part_of(run: Any) -> Any:
    return next(part for part in run._training.state.parts if part.name == "stub_part/ticks")


def place(monkeypatch: pytest.MonkeyPatch, key: str, value: str) -> None:
    monkeypatch.setitem(sys.modules["stub_part"].PLACE, key, value)


def test_a_part_is_told_of_everything_in_its_order(make_run: Any, files: Any) -> None:
    run = make_run(TICKING, **LENGTHS)
    run.train()
    reset = ["before a reset", "after a reset"]
    first = [*reset, "do 36", "Agent 1", "do 70", *reset, "saved 70"]
    second = ["do 106", "Agent 3", *reset, "saved 120", "finish 120"]
    assert part_of(run).told == [*first, *second]
    state = files().json("checkpoints/70/state.json")
    assert len(state["run"]["stub_part/ticks"]["drawn"]) == 2  # done before the checkpoint, and saved in it
    assert files().status["ticks"] == {"drawn": 3}


def test_a_killed_and_resumed_run_has_a_part_like_one_that_is_never_stopped(
    make_run: Any, files: Any, kill_after: Any
) -> None:
    make_run({**TICKING, "checkpoint_settings.run_id": "whole"}, **LENGTHS).train()
    kill_after(make_run(TICKING, **LENGTHS), 70)
    make_run({**TICKING, **RESUME}, **LENGTHS).train()
    assert files().checkpoint(120) == files("whole").checkpoint(120)


def test_an_order_that_is_impossible_names_the_plugin(make_run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    make_run(TICKING)  # imports the plugin
    place(monkeypatch, "before", "lunch")
    with pytest.raises(PluginError, match=r"part 'ticks' of plugin 'stub_part'.*there is no part 'lunch'"):
        make_run(TICKING).train()


def test_an_error_names_the_plugin_and_the_method(make_run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    run = make_run(TICKING)
    place(monkeypatch, "fails", "yes")
    with pytest.raises(PluginError, match=r"part 'ticks' of plugin 'stub_part'.* in do: ZeroDivisionError: no tick"):
        run.train()


def test_a_resume_without_a_part_is_not_exact_and_says_so(
    make_run: Any, kill_after: Any, caplog: pytest.LogCaptureFixture
) -> None:
    kill_after(make_run(TICKING, **LENGTHS), 70)
    with caplog.at_level(logging.WARNING, "rlcore"):
        run = make_run({**TICKING, **RESUME, "plugins.local": STUBS[:1]}, **LENGTHS)
        run.start()
    assert "no part stub_part/ticks" in caplog.text and run.describe().resume.kind == "statistical"
    run.close()
