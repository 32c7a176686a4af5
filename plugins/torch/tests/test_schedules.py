"""Schedules: those of rlcore beside their formulas, and those of plugins with the mistakes they may make."""

from __future__ import annotations

import sys
from collections.abc import Callable
from math import cos, inf, nan, pi
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from rlcore import PluginError
from rlcore_torch import Schedule, ScheduleSpec, create_schedule

STEPS = [0, 1, 250, 333, 500, 999, 1000, 2000]
SPEC = ScheduleSpec(name="acme", target="acme_schedule:share")

Acme = Callable[..., Schedule]


@pytest.fixture
def acme(monkeypatch: pytest.MonkeyPatch) -> Acme:
    """``acme(share)``: the schedule of a plugin with this function, from 0.2 to 0.1 in 1000 steps."""
    module = ModuleType("acme_schedule")
    monkeypatch.setitem(sys.modules, "acme_schedule", module)

    def schedule(share: Any, inference: bool = False) -> Schedule:
        module.share = share  # type: ignore[attr-defined]
        run: Any = SimpleNamespace(plugins=SimpleNamespace(record=lambda *_: SPEC), inference=inference)
        return create_schedule("acme", 0.2, 0.1, 1000, run)

    return schedule


def built_in(name: str, initial: float, final: float, max_steps: int = 1000) -> Schedule:
    run: Any = SimpleNamespace(inference=False)  # no plugin is asked
    return create_schedule(name, initial, final, max_steps, run)


@pytest.mark.parametrize("step", STEPS)
def test_a_cosine_is_slow_at_both_ends(step: int) -> None:
    progress = min(step, 1000) / 1000
    assert built_in("cosine", 0.2, 0.1)(step) == pytest.approx(0.1 + 0.1 * 0.5 * (1 + cos(pi * progress)), rel=1e-14)


def test_a_schedule_of_a_plugin_goes_the_share_of_the_way_it_returns(acme: Acme) -> None:
    schedule = acme(lambda progress: progress**2)
    for step in STEPS:
        assert schedule(step) == pytest.approx(0.2 - 0.1 * (min(step, 1000) / 1000) ** 2, rel=1e-14)
    warm_up = acme(lambda progress: max(0.0, 1.0 - 4.0 * progress))
    np.testing.assert_allclose([warm_up(0), warm_up(125), warm_up(250), warm_up(1000)], [0.1, 0.15, 0.2, 0.2])
    assert acme(lambda progress: np.float32(0.5))(7) == pytest.approx(0.15)


@pytest.mark.parametrize(
    ("share", "problem"),
    [
        (lambda progress: nan, "returned nan at progress 0; must be from 0 to 1"),
        (lambda progress: inf if progress == 1.0 else 0.0, "returned inf at progress 1; must be from 0 to 1"),
        (lambda progress: -3.0 * progress, "returned -1.5 at progress 0.5; must be from 0 to 1"),
        (lambda progress: None, "failed at progress 0: TypeError"),
        (lambda: 0.5, "failed at progress 0: TypeError"),
        (lambda progress: 1.0 / (1.0 - progress) - 1.0, "failed at progress 1: ZeroDivisionError"),
        ("linear", "failed at progress 0: TypeError"),
    ],
)
def test_mistakes_are_blamed_on_the_plugin_before_the_training(acme: Acme, share: Any, problem: str) -> None:
    with pytest.raises(PluginError) as refused:
        acme(share)
    assert str(refused.value).startswith(f"schedule 'acme' {problem}".replace("'acme' returned", "'acme': returned"))


def test_a_policy_that_is_measured_needs_no_schedule_of_a_plugin(acme: Acme) -> None:
    assert acme(None, inference=True)(500) == 0.2
