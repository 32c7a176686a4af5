"""The ratio of gradient steps to agent steps, exactly, however the steps arrive."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from rlcore_torch import UpdateRatio

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
    ratio, exact = UpdateRatio(float(text), start), Fraction(text)
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


@given(text=written, start=st.integers(0, 500), steps=st.integers(0, 5000), later=st.integers(0, 5000))
def test_an_equal_ratio_goes_on_where_it_was(text: str, start: int, steps: int, later: int) -> None:
    ratio, resumed = UpdateRatio(float(text), start), UpdateRatio(float(text), 0)
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
    ratio, resumed = UpdateRatio(float(before), start), UpdateRatio(float(after), start)
    ratio.done += ratio.due(steps)
    resumed.load_state_dict(ratio.state_dict(), steps)
    assert resumed.due(steps + later) == due_in_all(steps + later, max(steps, start), Fraction(after))
