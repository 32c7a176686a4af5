"""Batches of an environment are checked before anything learns from them."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest
import yaml

from rlcore.contracts.batches import AgentBatch
from rlcore.contracts.behavior_spec import BehaviorSpec, ObservationSpec
from rlcore.errors import EnvironmentFailed, NonFiniteError
from rlcore.run.behaviors.checks import FEW_NUMBERS, FIRST_BATCHES, BatchCheck

SLOTS = 3
SPEC = BehaviorSpec(
    "Agent",
    (
        ObservationSpec("place", (4,), np.float32, low=-1.0, high=np.array([1.0, 1.0, 2.0, np.inf])),
        ObservationSpec("camera", (2, 2, 3), np.uint8, "image"),
        ObservationSpec("option", (5,), np.float32, "one_hot"),
    ),
    discrete=(2, 3),
    env_index=np.array([0, 0, 1]),
)


def batch(*ended: int, everything: bool = False) -> AgentBatch:
    """A sound batch in which the episodes of the slots ``ended`` terminated; with the arrays that may be left out."""

    def seen(rows: int) -> dict[str, Any]:
        return {
            "place": np.full((rows, 4), 0.5, np.float32),
            "camera": np.full((rows, 2, 2, 3), 7, np.uint8),
            "option": np.eye(5, dtype=np.float32)[:rows],
        }

    terminated = np.zeros(SLOTS, np.bool_)
    terminated[list(ended)] = True
    sound = AgentBatch(
        seen(SLOTS),
        np.ones(SLOTS, np.float32),
        terminated,
        np.zeros(SLOTS, np.bool_),
        final_observations=seen(len(ended)) if ended else None,
    )
    if everything:
        sound.group_reward = np.ones(SLOTS, np.float32)
        sound.needs_action, sound.aborted = np.ones(SLOTS, np.bool_), np.zeros(SLOTS, np.bool_)
        sound.action_mask = np.ones((SLOTS, 5), np.bool_)
        sound.final_info = {"result": np.full(len(ended), np.nan)}
        sound.final_action_mask = np.ones((len(ended), 5), np.bool_) if ended else None
    return sound


def replaced(what: str, value: Any, *ended: int) -> AgentBatch:
    """A batch whose attribute, or observation ``place``, ``camera`` or ``final place``, is ``value``."""
    wrong = batch(*ended, everything=True)
    if what.startswith("final "):
        assert wrong.final_observations is not None
        wrong.final_observations[what.removeprefix("final ")] = value
    elif what in wrong.observations:
        wrong.observations[what] = value
    else:
        setattr(wrong, what, value)
    return wrong


def check_after(batches: int) -> BatchCheck:
    """A check that has seen so many sound batches."""
    check = BatchCheck(SPEC, lambda: "at step 60")
    for _ in range(batches):
        check.check(batch())
    return check


WRONG = yaml.safe_load((Path(__file__).parent / "data/wrong_batches.yaml").read_text(encoding="utf-8"))


def value_of(told: Any) -> Any:
    """A value of ``wrong_batches.yaml``."""
    if not isinstance(told, dict):
        return told
    dtype = told.get("dtype", "float32")
    if "values" in told:
        return np.array(told["values"], dtype)
    if "shape" in told:
        return np.full(told["shape"], told.get("fill", 0), dtype)
    return {name: value_of(value) for name, value in told.items()}


@pytest.mark.parametrize("before", [0, FIRST_BATCHES + 1])
@pytest.mark.parametrize("case", WRONG)
def test_a_batch_of_another_shape_or_kind_is_refused_whenever_it_comes(case: str, before: int) -> None:
    told = WRONG[case]
    wrong = replaced(told["of"], value_of(told.get("value")), *told.get("ended", ()))
    if "value" not in told:
        del wrong.observations[told["of"]]
    with pytest.raises(EnvironmentFailed, match=re.escape(told["says"])) as caught:
        check_after(before).check(wrong)
    assert str(caught.value).startswith("behavior 'Agent': ") and "(at step 60); fix" in str(caught.value)
    assert caught.value.exit_code == 3


def test_an_agent_that_waits_needs_no_allowed_option() -> None:
    waiting = batch(everything=True)
    assert waiting.action_mask is not None
    waiting.action_mask[1] = False
    waiting.needs_action = np.array([True, False, True])
    check_after(0).check(waiting)
    waiting.needs_action[1] = True
    with pytest.raises(EnvironmentFailed, match="action_mask allows no option of branch 0 in the row of slot 1"):
        check_after(0).check(waiting)


@pytest.mark.parametrize("what", ["reward", "terminated", "truncated"])
def test_one_wrong_array_beside_those_of_the_batch_before_is_refused(what: str) -> None:
    check, latest = BatchCheck(SPEC, lambda: "at step 60"), batch()
    check.check(latest)
    setattr(latest, what, np.zeros(SLOTS, np.complex64))
    with pytest.raises(EnvironmentFailed, match=f"{what} is an array of complex64"):
        check.check(latest)


def test_what_is_no_batch_is_refused() -> None:
    with pytest.raises(EnvironmentFailed, match="its entry in the batches is a tuple, not an AgentBatch"):
        check_after(1).check((1, 2, 3))  # type: ignore[arg-type]


@pytest.mark.parametrize("before", [0, FIRST_BATCHES + 1])
def test_a_sound_batch_is_accepted_with_and_without_what_may_be_left_out(before: int) -> None:
    check = check_after(before)
    for everything in (False, True, False, True):
        for ended in ((), (1,), (0, 1, 2)):
            check.check(batch(*ended, everything=everything))


@pytest.mark.parametrize("before", [0, FIRST_BATCHES + 1])
def test_real_numbers_of_another_precision_and_smaller_integers_are_accepted(before: int) -> None:
    check = check_after(before)
    for dtype in (np.float64, np.float16, np.float32):
        check.check(replaced("place", np.zeros((SLOTS, 4), dtype)))
        check.check(replaced("reward", np.zeros(SLOTS, dtype)))
    check.check(replaced("camera", np.zeros((SLOTS, 2, 2, 3), np.bool_)))


@pytest.mark.parametrize("every", [1, 2])  # whether the array is contiguous
@pytest.mark.parametrize("before", [0, FIRST_BATCHES + 1])
@pytest.mark.parametrize("what", ["reward", "group_reward", "place", "final place"])
def test_a_value_that_is_not_finite_is_refused_whenever_it_comes(what: str, before: int, every: int) -> None:
    values = np.ones((1 if what.startswith("final") else SLOTS, 4 * every), np.float32)[:, ::every]
    values[-1] = np.nan
    values = values[:, 0] if "reward" in what else values
    check = check_after(before)
    check.began = lambda env, latest: f"{env} {latest}"
    with pytest.raises(NonFiniteError, match=r"of slot \d \(environment 1\) is .*nan.* at step 60; .*") as caught:
        check.check(replaced(what, values, 2))
    assert str(caught.value).endswith(f" (its episode began with 1 {what == 'place'})")


# ---------------------------------------------------------------- bounds


def placed(value: float) -> AgentBatch:
    wrong = batch()
    wrong.observations["place"][2, 1] = value
    return wrong


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


def test_a_value_outside_its_bounds_is_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    check = check_after(5)
    for value in (1.0 + 1e-7, 1e6, -7.0, 1e6):  # the first is rounded to its bound
        check.check(placed(value))
    assert warnings_of(caplog) == [
        "behavior 'Agent': observation 'place' of slot 2 (environment 1) is 1e+06 at [1] at step 60, outside its "
        "bounds -1 to 1; it is used as it is: correct the environment or what it declares (reported once)"
    ]


def test_bounds_are_those_of_each_value_and_of_final_observations_too(caplog: pytest.LogCaptureFixture) -> None:
    check = check_after(0)
    sound = batch()
    sound.observations["place"][:] = [1.0, -1.0, 2.0, 1e15]
    check.check(sound)
    assert warnings_of(caplog) == []
    check.check(replaced("final place", np.array([[0.0, 0.0, 2.5, 0.0]], np.float32), 2))
    (line,) = warnings_of(caplog)
    assert "final observation 'place' of slot 2 (environment 1) is 2.5 at [2]" in line and "-1 to 2;" in line


def test_an_indicator_other_than_0_and_1_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    wrong = batch()
    wrong.observations["option"][0, 3] = 0.5
    check_after(0).check(wrong)
    (line,) = warnings_of(caplog)
    assert "'option' of slot 0 (environment 0) is 0.5 at [3]" in line and "only values of an indicator" in line


@pytest.mark.parametrize("what", ["reward", "group_reward"])
def test_a_reward_that_no_transition_takes_is_warned_of_once(caplog: pytest.LogCaptureFixture, what: str) -> None:
    """Slot 0 acts; the episode of slot 1 ended, so that its transition closes; slot 2 waits."""
    check = check_after(FIRST_BATCHES)
    for value, aborted in ((0.0, False), (1.0, True), (0.25, False), (0.5, False)):  # dropped where it was aborted
        told = batch(1, everything=True)
        told.needs_action, told.aborted = np.array([True, False, False]), np.array([False, False, aborted])
        told.reward[2] = told.group_reward[2] = 0.0  # type: ignore[index]
        getattr(told, what)[2] = value
        check.check(told)
    (line,) = warnings_of(caplog)
    assert line.startswith(
        f"behavior 'Agent': {what} of slot 2 (environment 1) is 0.25 at step 60, although needs_action"
    )


@pytest.mark.parametrize("what", ["reward", "seen"])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, ">f4"])
@pytest.mark.parametrize("numbers", [1, FEW_NUMBERS, FEW_NUMBERS + 1])
@pytest.mark.parametrize("apart", [False, True])
def test_a_number_that_is_not_finite_is_found_among_few_and_many_of_any_kind(
    what: str, dtype: Any, numbers: int, apart: bool
) -> None:
    """``apart``: the numbers are not side by side in memory."""
    told = AgentBatch({}, *(np.zeros(numbers, kind) for kind in (np.float32, np.bool_, np.bool_)))
    values = np.full((numbers, 2), 1.5, dtype)
    values = values[:, :1] if apart else np.ascontiguousarray(values[:, :1])
    told.observations["seen"] = values if what == "seen" else np.zeros((numbers, 1), np.float32)
    if what == "reward":
        told.reward = values[:, 0]
    spec = BehaviorSpec("Agent", (ObservationSpec("seen", (1,), np.float32),), env_index=np.arange(numbers))
    check = BatchCheck(spec, lambda: "at step 60")
    values[:] = np.finfo(values.dtype).max if values.dtype.itemsize <= 4 else 3e38
    for row in (0, numbers // 2, numbers - 1):
        for wrong in (np.nan, np.inf, -np.inf):
            check.check(told)  # the largest numbers are finite
            kept, values[row] = values[row].copy(), wrong
            with pytest.raises(NonFiniteError, match=rf"of slot {row} \(environment {row}\) is .* at step 60"):
                check.check(told)
            values[row] = kept


def test_bounds_that_do_not_fit_their_observation_are_refused() -> None:
    for bound in (np.zeros(3), np.zeros((2, 4))):
        with pytest.raises(ValueError, match=r"observation 'place': high has shape .* does not broadcast to \[4\]"):
            attrs.evolve(SPEC.observations[0], high=bound)
    plain = ObservationSpec("place", (4,), np.float32)
    assert plain.low is plain.high is None and plain == SPEC.observations[0]  # what agents see is alike


def test_an_absent_entity_is_within_all_bounds(caplog: pytest.LogCaptureFixture) -> None:
    others = ObservationSpec("others", (2, 3), np.float32, "entities", low=0.5, high=2.0)
    check = BatchCheck(attrs.evolve(SPEC, observations=(others,)), lambda: "at step 60")
    rows = np.ones((3, 2, 3), np.float32)
    rows[1, 0] = 0.0
    told = AgentBatch({"others": rows}, np.zeros(3, np.float32), *(np.zeros(3, np.bool_) for _ in range(2)))
    check.check(told)
    assert warnings_of(caplog) == []
    rows[2, 1] = [1.0, 0.0, 1.0]
    check.check(told)
    (line,) = warnings_of(caplog)
    assert "observation 'others' of slot 2" in line and "is 0 at [1, 1]" in line


@pytest.mark.parametrize(
    ("shape", "goal", "problem"),
    [
        ((3,), False, r"entities have shape \[3\], not \[entities, numbers\]"),
        ((3, 2), True, "entities cannot be a goal"),
    ],
)
def test_entities_are_a_matrix_and_no_goal(shape: tuple[int, ...], goal: bool, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        ObservationSpec("others", shape, np.float32, "entities", goal=goal)
