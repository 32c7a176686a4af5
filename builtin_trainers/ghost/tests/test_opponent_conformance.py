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
    def __init__(self, behavior: BehaviorSpec) -> None:
        super().__init__(behavior)
        self.behavior = behavior


class IgnoresMasks(Broken):
    def act(self, observations: Any, action_mask: Any = None, deterministic: bool = True) -> Actions:
        return super().act(observations, None, deterministic)


class WritesItsMask(Broken):
    def act(self, observations: Any, action_mask: Any = None, deterministic: bool = True) -> Actions:
        actions = super().act(observations, action_mask, deterministic)
        if action_mask is not None:
            action_mask[:] = True
        return actions


class LeavesItsBounds(Broken):
    def act(self, observations: Any, action_mask: Any = None, deterministic: bool = True) -> Actions:
        actions = super().act(observations, action_mask, deterministic)
        return Actions(None if actions.continuous is None else actions.continuous + 10, actions.discrete)


class NeedsAnOption(Broken):
    def act(self, observations: Any, action_mask: Any = None, deterministic: bool = True) -> Actions:
        if action_mask is not None and not action_mask.any(axis=1).all():
            raise ValueError("no option")
        return super().act(observations, action_mask, deterministic)


class SeedsOnce(Broken):
    seeded = False

    def seed(self, seed: int) -> None:
        if not self.seeded:
            super().seed(seed)
        self.seeded = True


class SharesGlobalGenerators(Broken):
    def seed(self, seed: int) -> None:
        super().seed(seed)
        random.seed(seed)


@pytest.mark.parametrize(
    ("broken", "rule"),
    [
        (IgnoresMasks, "test_plays_the_actions_it_declares_and_refuses_others"),
        (WritesItsMask, "test_plays_the_actions_it_declares_and_refuses_others"),
        (LeavesItsBounds, "test_plays_the_actions_it_declares_and_refuses_others"),
        (NeedsAnOption, "test_a_row_without_an_allowed_option_needs_no_action_and_breaks_nothing"),
        (SeedsOnce, "test_equal_seeds_give_equal_actions_whatever_was_played_before"),
        (SharesGlobalGenerators, "test_leaves_global_random_numbers_alone"),
    ],
)
def test_a_broken_opponent_is_noticed(tmp_path: Path, broken: type[Broken], rule: str) -> None:
    class Conformance(OpponentConformance):
        opponent = "rlcore-ghost/random"

        def make(self, kind: str, **settings: Any) -> Policy:
            return broken(self.behaviors[kind])

    conformance = Conformance()
    conformance.directory = tmp_path
    with pytest.raises((AssertionError, ValueError)):
        getattr(conformance, rule)(*(("hybrid",) if "declares" in rule else ()))


def test_an_opponent_that_plays_what_it_does_not_declare_is_noticed(tmp_path: Path) -> None:
    class Conformance(OpponentConformance):
        opponent = "rlcore-ghost/random"
        spaces = frozenset({"discrete"})

    conformance = Conformance()
    conformance.directory = tmp_path
    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        conformance.test_plays_the_actions_it_declares_and_refuses_others("continuous")
