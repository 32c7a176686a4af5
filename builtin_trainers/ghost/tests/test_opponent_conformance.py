"""The built-in opponent keeps the rules of every one; a broken rule is noticed."""

from __future__ import annotations

import random
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
    """``how`` changes what it is asked and what it answers; ``seeds`` is how often it was seeded."""

    def __init__(self, behavior: BehaviorSpec, how: str) -> None:
        super().__init__(behavior)
        self.how, self.seeds = how, 0

    def act(self, observations: Any, action_mask: Any = None, deterministic: bool = True) -> Actions:
        if self.how == "needs an option" and action_mask is not None and not action_mask.any(axis=1).all():
            raise ValueError("no option")
        actions = super().act(observations, None if self.how == "ignores masks" else action_mask, deterministic)
        if self.how == "writes its mask" and action_mask is not None:
            action_mask[:] = True
        if self.how == "leaves its bounds" and actions.continuous is not None:
            actions.continuous += 10
        return actions

    def seed(self, seed: int) -> None:
        self.seeds += 1
        if self.how != "seeds once" or self.seeds == 1:
            super().seed(seed)
        if self.how == "shares global generators":
            random.seed(seed)


DECLARES = "test_plays_the_actions_it_declares_and_refuses_others"


@pytest.mark.parametrize(
    ("how", "rule"),
    [
        ("ignores masks", DECLARES),
        ("writes its mask", DECLARES),
        ("leaves its bounds", DECLARES),
        ("needs an option", "test_a_row_without_an_allowed_option_needs_no_action_and_breaks_nothing"),
        ("seeds once", "test_equal_seeds_give_equal_actions_whatever_was_played_before"),
        ("shares global generators", "test_leaves_global_random_numbers_alone"),
    ],
)
def test_a_broken_opponent_is_noticed(tmp_path: Path, how: str, rule: str) -> None:
    class Conformance(OpponentConformance):
        opponent = "rlcore-ghost/random"

        def make(self, kind: str, **settings: Any) -> Policy:
            return Broken(self.behaviors[kind], how)

    conformance = Conformance()
    conformance.directory = tmp_path
    with pytest.raises((AssertionError, ValueError)):
        getattr(conformance, rule)(*(("hybrid",) if rule == DECLARES else ()))
