"""Batches of an environment are checked before anything learns from them."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from typing import Any

import attrs
import numpy as np
import pytest

from rlcore.contracts.environment import AgentBatch, BehaviorSpec, ObservationSpec
from rlcore.errors import EnvironmentFailed, NonFiniteError
from rlcore.run.behaviors.checks import FIRST_BATCHES, BatchCheck

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


def without(name: str) -> Callable[[], AgentBatch]:
    def make() -> AgentBatch:
        wrong = batch()
        del wrong.observations[name]
        return wrong

    return make


F32, U8 = np.float32, np.uint8
WRONG: dict[str, tuple[Callable[[], Any], str]] = {
    "fewer values": (
        lambda: replaced("place", np.zeros((3, 1), F32)),
        "'place' is an array of float32 of shape [3, 1], not of shape [3, 4]: [4] for each slot",
    ),
    "no slots": (lambda: replaced("place", np.zeros(4, F32)), "'place' is an array of float32 of shape [4], not"),
    "a slot too few": (
        lambda: replaced("place", np.zeros((2, 4), F32)),
        "'place' is an array of float32 of shape [2, 4], not",
    ),
    "one channel": (
        lambda: replaced("camera", np.zeros((3, 2, 2, 1), U8)),
        "'camera' is an array of uint8 of shape [3, 2, 2, 1], not",
    ),
    "pixels as floats": (
        lambda: replaced("camera", np.zeros((3, 2, 2, 3), F32)),
        "'camera' is of dtype float32, which its behavior declares as uint8",
    ),
    "pixels as int64": (
        lambda: replaced("camera", np.full((3, 2, 2, 3), 300)),
        "'camera' is of dtype int64, which its",
    ),
    "integers for reals": (
        lambda: replaced("place", np.zeros((3, 4), np.int64)),
        "'place' is of dtype int64, which its",
    ),
    "complex": (lambda: replaced("place", np.zeros((3, 4), np.complex64)), "'place' is of dtype complex64, which its"),
    "texts": (lambda: replaced("place", np.full((3, 4), "0.5")), "'place' is of dtype <U3, which its"),
    "a list": (lambda: replaced("place", [[0.0] * 4] * 3), "'place' is a list, not of shape [3, 4]"),
    "an observation missing": (without("camera"), "observation 'camera' is missing; there are 'place', 'option'"),
    "observations without names": (lambda: replaced("observations", np.zeros((3, 4))), "observations is an array"),
    "one reward for all": (
        lambda: replaced("reward", np.ones(1, F32)),
        "reward is an array of float32 of shape [1], not an array of real numbers of shape [3]",
    ),
    "a number as reward": (lambda: replaced("reward", 1.0), "reward is a float, not an array"),
    "a column of rewards": (
        lambda: replaced("reward", np.ones((3, 1), F32)),
        "reward is an array of float32 of shape [3, 1]",
    ),
    "texts as reward": (lambda: replaced("reward", np.full(3, "1")), "reward is an array of <U1"),
    "integers as reward": (lambda: replaced("reward", np.ones(3, np.int64)), "reward is an array of int64"),
    "terminated as text": (
        lambda: replaced("terminated", np.full(3, "False")),
        "terminated is an array of <U5 of shape [3], not an array of booleans",
    ),
    "truncated as integers": (lambda: replaced("truncated", np.zeros(3, np.int64)), "truncated is an array of int64"),
    "one flag for all": (
        lambda: replaced("terminated", np.zeros(1, np.bool_)),
        "terminated is an array of bool of shape [1]",
    ),
    "a mask of a branch": (
        lambda: replaced("action_mask", np.ones((3, 2), np.bool_)),
        "action_mask is an array of bool of shape [3, 2], not an array of booleans of shape [3, 5]",
    ),
    "a mask of integers": (
        lambda: replaced("action_mask", np.ones((3, 5), np.int8)),
        "action_mask is an array of int8",
    ),
    "a final mask of all slots": (
        lambda: replaced("final_action_mask", np.ones((3, 5), np.bool_), 1),
        "final_action_mask is an array of bool of shape [3, 5], not an array of booleans of shape [1, 5]",
    ),
    "a final mask of integers": (
        lambda: replaced("final_action_mask", np.ones((1, 5), np.int8), 1),
        "final_action_mask is an array of int8",
    ),
    "a final mask that allows nothing of a branch": (
        lambda: replaced("final_action_mask", np.array([[True] * 5, [True, True, False, False, False]]), 0, 2),
        "final_action_mask allows no option of branch 1 in the row of slot 2 (environment 1)",
    ),
    "one group reward": (
        lambda: replaced("group_reward", np.ones(1, F32)),
        "group_reward is an array of float32 of shape [1]",
    ),
    "needs_action as integers": (
        lambda: replaced("needs_action", np.ones(3, np.int64)),
        "needs_action is an array of int64",
    ),
    "aborted for one": (lambda: replaced("aborted", np.zeros(1, np.bool_)), "aborted is an array of bool of shape [1]"),
    "ended forgotten": (
        lambda: replaced("ended", np.empty(0, np.intp), 1),
        "ended is empty where terminated or truncated are set in [1]",
    ),
    "ended elsewhere": (
        lambda: replaced("ended", np.array([2]), 1),
        "ended is [2] where terminated or truncated are set in [1]",
    ),
    "ended as flags": (lambda: replaced("ended", np.array([False, True, False]), 1), "ended is "),
    "no final observations": (
        lambda: replaced("final_observations", None, 1),
        "final_observations is None although episodes ended in slots [1]",
    ),
    "final of all slots": (
        lambda: replaced("final place", np.zeros((3, 4), F32), 1),
        "final observation 'place' is an array of float32 of shape [3, 4], not of shape [1, 4]: [4] for each",
    ),
    "final pixels as floats": (
        lambda: replaced("final camera", np.zeros((1, 2, 2, 3), F32), 1),
        "final observation 'camera' is of dtype float32",
    ),
    "a number for all ends": (
        lambda: replaced("final_info", {"result": np.ones(1)}, 0, 2),
        "final_info 'result' is an array of float64 of shape [1], not an array of real numbers of shape [2]: one for",
    ),
    "final numbers of all slots": (
        lambda: replaced("final_info", {"won": np.ones(1), "moves": np.ones(SLOTS)}, 2),
        "final_info 'moves' is an array of float64 of shape [3], not an array of real numbers of shape [1]",
    ),
    "final numbers as integers": (
        lambda: replaced("final_info", {"result": np.ones(1, np.int64)}, 2),
        "final_info 'result' is an array of int64",
    ),
    "final numbers in a list": (
        lambda: replaced("final_info", {"result": [1.0]}, 2),
        "final_info 'result' is a list, not an array",
    ),
    "final numbers without names": (
        lambda: replaced("final_info", np.ones(1), 2),
        "final_info is an array of float64 of shape [1], not a mapping of arrays by name",
    ),
    "a tuple": (lambda: (1, 2, 3), "its entry in the batches is a tuple, not an AgentBatch"),
}


@pytest.mark.parametrize("before", [0, 1, FIRST_BATCHES + 1])
@pytest.mark.parametrize("case", WRONG)
def test_a_batch_of_another_shape_or_kind_is_refused_whenever_it_comes(case: str, before: int) -> None:
    make, message = WRONG[case]
    check = check_after(before)
    with pytest.raises(EnvironmentFailed, match=re.escape(message)) as caught:
        check.check(make())
    assert str(caught.value).startswith("behavior 'Agent': ") and "(at step 60); fix" in str(caught.value)
    assert caught.value.exit_code == 3


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


@pytest.mark.parametrize("before", [0, FIRST_BATCHES + 1])
@pytest.mark.parametrize("what", ["reward", "group_reward", "place", "final place"])
def test_a_value_that_is_not_finite_is_refused_whenever_it_comes(what: str, before: int) -> None:
    values = np.ones((1 if what.startswith("final") else SLOTS, 4), F32)
    values[-1] = np.nan
    values = values[:, 0].copy() if "reward" in what else values
    with pytest.raises(NonFiniteError, match=r"of slot \d \(environment 1\) is .*nan.* at step 60") as caught:
        check_after(before).check(replaced(what, values, 2))
    assert caught.value.latest == (what == "place") and caught.value.env == 1


# ---------------------------------------------------------------- bounds


def placed(value: float) -> AgentBatch:
    wrong = batch()
    wrong.observations["place"][2, 1] = value
    return wrong


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


def test_a_value_outside_its_bounds_is_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    check = check_after(5)
    for value in (1e6, -7.0, 1e6):
        check.check(placed(value))
    assert warnings_of(caplog) == [
        "behavior 'Agent': observation 'place' of slot 2 (environment 1) is 1e+06 at [1] at step 60, outside its "
        "bounds -1 to 1; it is used as it is: correct the environment or what it declares (reported once)"
    ]


def test_bounds_are_those_of_each_value_and_of_final_observations_too(caplog: pytest.LogCaptureFixture) -> None:
    check, sound = check_after(0), batch()
    sound.observations["place"][:] = [1.0, -1.0, 2.0, 1e15]
    check.check(sound)
    assert warnings_of(caplog) == []
    wrong = batch(2)
    assert wrong.final_observations is not None
    wrong.final_observations["place"][0, 2] = 2.5
    check.check(wrong)
    (line,) = warnings_of(caplog)
    assert "final observation 'place' of slot 2 (environment 1) is 2.5 at [2]" in line and "-1 to 2;" in line


def test_a_value_that_is_rounded_to_its_bound_is_within_it(caplog: pytest.LogCaptureFixture) -> None:
    check_after(0).check(placed(1.0 + 1e-7))
    assert warnings_of(caplog) == []


def test_an_indicator_other_than_0_and_1_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    wrong = batch()
    wrong.observations["option"][0, 3] = 0.5
    check_after(0).check(wrong)
    (line,) = warnings_of(caplog)
    assert "'option' of slot 0 (environment 0) is 0.5 at [3]" in line and "only values of an indicator" in line


def test_values_are_compared_with_bounds_in_the_first_batches_only(caplog: pytest.LogCaptureFixture) -> None:
    check_after(FIRST_BATCHES - 1).check(placed(1e6))
    assert len(warnings_of(caplog)) == 1
    caplog.clear()
    check_after(FIRST_BATCHES).check(placed(1e6))
    assert warnings_of(caplog) == []


@pytest.mark.parametrize("what", ["reward", "group_reward"])
def test_a_reward_that_no_transition_takes_is_warned_of_once(caplog: pytest.LogCaptureFixture, what: str) -> None:
    check = check_after(FIRST_BATCHES)
    sound = batch(1, everything=True)
    assert sound.needs_action is not None and sound.aborted is not None and sound.group_reward is not None
    sound.needs_action[:] = [True, False, False]  # slot 1 does not act and its episode ended: its transition closes
    sound.reward[2] = sound.group_reward[2] = 0.0
    check.check(sound)
    sound.aborted[2] = True
    sound.reward[2] = 1.0  # dropped with its episode
    check.check(sound)
    assert caplog.records == []
    for value in (0.25, 0.5):
        lost = batch(1, everything=True)
        lost.needs_action = np.array([True, False, False])
        lost.reward[2] = lost.group_reward[2] = 0.0  # type: ignore[index]
        getattr(lost, what)[2] = value
        check.check(lost)
    assert [record.getMessage() for record in caplog.records] == [
        f"behavior 'Agent': {what} of slot 2 (environment 1) is 0.25 at step 60, although needs_action is False and no "
        "episode ended there; it is ignored: add up what the agent gets until it acts next, and give the sum then "
        "(reported once)"
    ]


def test_bounds_that_do_not_fit_their_observation_are_refused() -> None:
    for bound in (np.zeros(3), np.zeros((2, 4))):
        with pytest.raises(ValueError, match=r"observation 'place': high has shape .* does not broadcast to \[4\]"):
            attrs.evolve(SPEC.observations[0], high=bound)
    plain = ObservationSpec("place", (4,), np.float32)
    assert plain.low is plain.high is None and plain == SPEC.observations[0]  # what agents see is alike
