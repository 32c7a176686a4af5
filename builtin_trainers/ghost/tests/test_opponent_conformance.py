"""The built-in opponent keeps the rules of every one; a broken rule is noticed."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rlcore import Actions, BehaviorSpec, Policy
from rlcore_devkit import OpponentConformance
from rlcore_ghost import RandomPolicy


@pytest.mark.smoke
class TestRandom(OpponentConformance):
    opponent = "rlcore-ghost/random"


# ---------------------------------------------------------------- broken on purpose


class Broken(RandomPolicy):
    def __init__(self, behavior: BehaviorSpec, change: Callable[..., Any]) -> None:
        super().__init__(behavior)
        self.change, self.seeds = change, 0

    def act(self, observations: Any, action_mask: Any = None, deterministic: bool = True) -> Actions:
        actions: Actions = self.change(super().act, observations, action_mask)
        return actions


def ignores_masks(act: Any, observations: Any, mask: Any) -> Any:
    return act(observations, None)


def writes_its_mask(act: Any, observations: Any, mask: Any) -> Any:
    actions = act(observations, mask)
    if mask is not None:
        mask[:] = True
    return actions


def leaves_its_bounds(act: Any, observations: Any, mask: Any) -> Any:
    actions = act(observations, mask)
    return Actions(None if actions.continuous is None else actions.continuous + 10, actions.discrete)


def needs_an_option(act: Any, observations: Any, mask: Any) -> Any:
    if mask is not None and not mask.any(axis=1).all():
        raise ValueError("no option")
    return act(observations, mask)


def plain(act: Any, observations: Any, mask: Any) -> Any:
    return act(observations, mask)


class SeedsOnce(Broken):
    def seed(self, seed: int) -> None:
        self.seeds += 1
        if self.seeds == 1:
            super().seed(seed)


class SharesGlobalGenerators(Broken):
    def seed(self, seed: int) -> None:
        super().seed(seed)
        random.seed(seed)


DECLARES = "test_plays_the_actions_it_declares_and_refuses_others"


@pytest.mark.parametrize(
    ("broken", "change", "rule"),
    [
        (Broken, ignores_masks, DECLARES),
        (Broken, writes_its_mask, DECLARES),
        (Broken, leaves_its_bounds, DECLARES),
        (Broken, needs_an_option, "test_a_row_without_an_allowed_option_needs_no_action_and_breaks_nothing"),
        (SeedsOnce, plain, "test_equal_seeds_give_equal_actions_whatever_was_played_before"),
        (SharesGlobalGenerators, plain, "test_leaves_global_random_numbers_alone"),
    ],
)
def test_a_broken_opponent_is_noticed(tmp_path: Path, broken: type[Broken], change: Any, rule: str) -> None:
    class Conformance(OpponentConformance):
        opponent = "rlcore-ghost/random"

        def make(self, kind: str, **settings: Any) -> Policy:
            return broken(self.behaviors[kind], change)

    conformance = Conformance()
    conformance.directory = tmp_path
    with pytest.raises((AssertionError, ValueError)):
        getattr(conformance, rule)(*(("hybrid",) if rule == DECLARES else ()))


def test_an_opponent_that_plays_what_it_does_not_declare_is_noticed(tmp_path: Path) -> None:
    class Conformance(OpponentConformance):
        opponent = "rlcore-ghost/random"
        spaces = frozenset({"discrete"})

    conformance = Conformance()
    conformance.directory = tmp_path
    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        conformance.test_plays_the_actions_it_declares_and_refuses_others("continuous")
