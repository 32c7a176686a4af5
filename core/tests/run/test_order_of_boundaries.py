"""The order of what a run does between two steps, saves, and restores: an exact resume hangs on it.

The expected orders are in ``data/order_of_boundaries.yaml``. A digest of the states of all generators
stands beside each checkpoint.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from rlcore import hookimpl, load_checkpoint
from rlcore.run.run import Run

HERE = Path(__file__).parent
EXPECTED = yaml.safe_load((HERE / "data/order_of_boundaries.yaml").read_text(encoding="utf-8"))
CONFIG: dict[str, Any] = {
    "plugins.local": [str(HERE / f"{name}.py") for name in ("stub_plugin", "stub_curriculum", "stub_exporter")],
    "plugins.enable": ["curriculum"],
    "environment.type": "paced",
    "environment_parameters.pace": {"curriculum": {"type": "stages", "every": 5}},
    "evaluation": {"interval": 40, "episodes": 2},
    "export": {"weights": {"checkpoints": True}},
}
# Methods that are noted, by module and class of the stubs.
NOTED = {
    ("stub_plugin", "NumpyTrainer"): ("begin", "load_state_dict", "state_dict"),
    ("stub_curriculum", "Stages"): ("load_state_dict", "state_dict", "stats", "status", "summarised"),
    ("stub_curriculum", "Paced"): ("reset",),
    ("stub_exporter", "Weights"): ("export",),
}


class Diary:
    """Notes what happens; an event that repeats at once is noted once."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def note(self, event: str) -> None:
        if not self.events or self.events[-1] != event:
            self.events.append(event)

    def noting(self, original: Callable[..., Any], event: str) -> Callable[..., Any]:
        def call(*arguments: Any, **keywords: Any) -> Any:
            self.note(event)
            return original(*arguments, **keywords)

        return call

    @hookimpl
    def rlcore_run_started(self) -> None:
        self.note("started")

    @hookimpl
    def rlcore_process_summary(self, step: int) -> None:
        self.note(f"process summary {step}")

    @hookimpl
    def rlcore_summary_written(self, step: int) -> None:
        self.note(f"summary {step}")

    @hookimpl
    def rlcore_evaluated(self, step: int) -> None:
        self.note(f"evaluated {step}")

    @hookimpl
    def rlcore_report_status(self) -> None:
        self.note("report status")

    @hookimpl
    def rlcore_restore_status(self) -> None:
        self.note("restore status")

    @hookimpl
    def rlcore_checkpoint_saved(self, step: int, path: Path) -> None:
        state = load_checkpoint(path)
        of_process = [generator["words"].tolist() for generator in state["run"]["generators"].values()]
        states = [state["Agent"]["generator"], of_process]
        digest = hashlib.sha256(json.dumps(states).encode()).hexdigest()[:8]
        self.note(f"checkpoint {step}, generators {digest}")

    @hookimpl
    def rlcore_checkpoint_removed(self, step: int) -> None:
        self.note(f"removed {step}")

    @hookimpl
    def rlcore_lesson_changed(self, step: int) -> None:
        self.note(f"lesson {step}")


@pytest.fixture
def diary(monkeypatch: pytest.MonkeyPatch) -> Diary:
    return Diary()


@pytest.fixture
def noted_run(make_run: Any, diary: Diary, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Run]:
    def make(**changes: Any) -> Run:
        settings = {"max_steps": 100, "summary_freq": 20, "checkpoint_interval": 30, "keep_checkpoints": 2}
        run: Run = make_run({**CONFIG, **changes}, plugins={"diary": diary}, **settings)
        for (module, owner), methods in NOTED.items():
            made = getattr(sys.modules[module], owner)
            for method in methods:
                monkeypatch.setattr(made, method, diary.noting(getattr(made, method), f"{owner}.{method}"))
        return run

    return make


def test_a_run_does_everything_in_its_order(noted_run: Any, diary: Diary, files: Any) -> None:
    noted_run().train()
    assert diary.events == EXPECTED["run"]
    assert list(files().json("checkpoints/100/state.json")["run"]) == EXPECTED["saved"]


def test_a_resumed_run_restores_everything_in_its_order(noted_run: Any, diary: Diary, kill_after: Any) -> None:
    kill_after(noted_run(), 60)
    diary.events.clear()
    noted_run(**{"checkpoint_settings.resume": True}).train()
    assert diary.events == EXPECTED["resumed"]
