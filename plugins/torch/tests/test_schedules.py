"""Schedules: those of rlcore beside their formulas, and those of plugins with the mistakes they may make."""

from __future__ import annotations

import sys
from collections.abc import Callable
from fractions import Fraction
from math import cos, nan, pi
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlcore import PluginError
from rlcore_torch import Schedule, ScheduleSpec, create_schedule
from rlcore_torch.optimization.schedules import UpdateRatio

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
    assert acme(lambda progress: 1.0 + 5e-10)(7) == 0.1, "rounding leaves no bound"


@pytest.mark.parametrize(
    ("share", "problem"),
    [
        (lambda progress: nan, "returned nan at progress 0; must be from 0 to 1"),
        (lambda progress: -3.0 * progress, "returned -1.5 at progress 0.5; must be from 0 to 1"),
        (lambda: 0.5, "failed at progress 0: TypeError"),
        (lambda progress: 1.0 / (1.0 - progress) - 1.0, "failed at progress 1: ZeroDivisionError"),
    ],
)
def test_mistakes_are_blamed_on_the_plugin_before_the_training(acme: Acme, share: Any, problem: str) -> None:
    with pytest.raises(PluginError) as refused:
        acme(share)
    assert str(refused.value).startswith(f"schedule 'acme' {problem}".replace("'acme' returned", "'acme': returned"))


def test_a_policy_that_is_measured_needs_no_schedule_of_a_plugin(acme: Acme) -> None:
    assert acme(None, inference=True)(500) == 0.2


# ---------------------------------------------------------------- updates that are due

# What people write, and what floats cannot hold: tenths, thirds, very many and very few updates.
written = st.one_of(
    st.sampled_from(["0.1", "0.3", "1", "1.0", "2.5", "0.3333333333333333", "1e-05", "1e3", "7"]),
    st.integers(1, 10**6).map(lambda n: f"{n / 1000:.3f}").filter(lambda text: float(text) > 0),
)


def due_in_all(steps: int, start: int, ratio: Fraction) -> int:
    count = Fraction(steps - start) / ratio
    return max(0, count.numerator // count.denominator)


@given(
    text=written,
    start=st.integers(0, 500),
    advances=st.lists(st.integers(0, 1000), max_size=60),
    updated=st.lists(st.booleans(), min_size=60, max_size=60),
)
def test_the_total_is_that_of_the_written_decimal(
    text: str, start: int, advances: list[int], updated: list[bool]
) -> None:
    ratio = UpdateRatio(float(text), start)
    exact = Fraction(text)
    steps = total = 0
    for advance, follow in zip(advances, updated, strict=False):
        steps += advance
        due = ratio.due(steps)
        assert total + due == due_in_all(steps, start, exact), "nothing is lost and nothing comes early"
        if follow:  # updates that wait are made up for later
            ratio.done += due
            total += due
    total += ratio.due(steps)
    assert total == due_in_all(steps, start, exact)


@given(text=written, start=st.integers(0, 500), together=st.integers(1, 50), steps=st.integers(0, 2000))
def test_updates_wait_for_each_other(text: str, start: int, together: int, steps: int) -> None:
    ratio = UpdateRatio(float(text), start, together)
    alone = UpdateRatio(float(text), start)
    assert ratio.due(steps) == alone.due(steps) // together * together
    ratio.done = ratio.due(steps)
    assert ratio.due(steps) == 0 and ratio.next > steps
    assert ratio.due(ratio.next - 1) == 0 and ratio.due(ratio.next) >= together


@given(text=written, start=st.integers(0, 500), steps=st.integers(0, 5000), later=st.integers(0, 5000))
def test_an_equal_ratio_goes_on_where_it_was(text: str, start: int, steps: int, later: int) -> None:
    ratio = UpdateRatio(float(text), start)
    resumed = UpdateRatio(float(text), 0)
    ratio.done += ratio.due(steps)
    resumed.load_state_dict(ratio.state_dict(), steps)
    assert resumed.due(steps + later) == ratio.due(steps + later)
    assert resumed.state_dict() == ratio.state_dict()


@given(before=written, after=written, start=st.integers(0, 500), steps=st.integers(0, 5000), later=st.integers(0, 999))
def test_a_changed_ratio_counts_from_where_it_changed_and_never_before_the_start(
    before: str, after: str, start: int, steps: int, later: int
) -> None:
    if Fraction(str(float(before))) == Fraction(str(float(after))):
        return
    ratio = UpdateRatio(float(before), start)
    resumed = UpdateRatio(float(after), start)
    ratio.done += ratio.due(steps)
    resumed.load_state_dict(ratio.state_dict(), steps)
    assert resumed.due(steps + later) == due_in_all(steps + later, max(steps, start), Fraction(after))
