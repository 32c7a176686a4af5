"""The rules of opponents, see :class:`rlcore_ghost.OpponentSpec`, as tests for authors of opponents to inherit.

::

    class TestMyOpponent(OpponentConformance):
        opponent = "acme-chess/minimax"
        spaces = frozenset({"discrete"})
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray

from rlcore import (
    Actions,
    BehaviorSpec,
    ObservationSpec,
    Policy,
    UnsupportedSpace,
)
from rlcore_devkit.conformance.loop import check_actions
from rlcore_devkit.conformance.rules import RecordRules
from rlcore_devkit.conformance.states import assert_equal, copied, global_generators
from rlcore_devkit.playing import random_mask, random_observations
from rlcore_ghost import OpponentSpec, create_opponents

Mask = NDArray[np.bool_] | None
Observations = dict[str, NDArray[Any]]

_BOARD = ObservationSpec("board", (6,), np.float32)
_CAMERA = ObservationSpec("camera", (8, 8, 3), np.uint8, "image")
_SEEN = (_BOARD, _CAMERA)
# Not -1 and 1, and not alike: an opponent must read the bounds.
_LOW = np.array([-2.0, 0.0], np.float32)
_HIGH = np.array([1.0, 5.0], np.float32)

BEHAVIORS: dict[str, BehaviorSpec] = {
    "continuous": BehaviorSpec("Player", _SEEN, 2, (), _LOW, _HIGH),
    "discrete": BehaviorSpec("Player", _SEEN, 0, (3, 4)),
    "hybrid": BehaviorSpec("Player", _SEEN, 2, (3, 4), _LOW, _HIGH),
}


class OpponentConformance(RecordRules):
    """Tests of opponents that do not learn: set ``opponent``.

    Attributes:
        opponent: The opponent, NAME or DIST/NAME, as installed.
        settings: The block of the opponent under ``opponents``, without ``type``.
        spaces: Actions that the opponent can play: any of ``"continuous"``, ``"discrete"`` and ``"hybrid"``. The
            opponent must refuse the others with an UnsupportedSpace.
        behaviors: Behaviors to play, by their kind of actions, for an opponent that reads particular observations.
        skip: Names of tests that cannot hold, with the reason.
    """

    record_class = OpponentSpec
    named = "opponent"
    opponent: ClassVar[str] = ""
    spaces: ClassVar[frozenset[str]] = frozenset(BEHAVIORS)
    behaviors: ClassVar[Mapping[str, BehaviorSpec]] = BEHAVIORS

    def make(self, kind: str, **settings: Any) -> Policy:
        """Create the opponent for the behavior ``kind``; ``settings`` override those of the class."""
        behavior = self.behaviors[kind]
        run = self.context(behavior)
        blocks = {"it": self.block(**settings)}
        opponents = create_opponents(blocks, behavior, run, ("opponents",))
        return opponents["it"]

    def observations(self, kind: str, rows: int, generator: np.random.Generator) -> dict[str, NDArray[Any]]:
        """Draw observations by name, each [rows, *shape]; override it for an opponent that reads positions of a game.

        All rows need an action.
        """
        return random_observations(self.behaviors[kind], rows, generator)

    def act(self, policy: Policy, kind: str, rows: int, seed: int, deterministic: bool = False) -> Actions:
        """Seed the policy, and return its actions for ``rows`` random rows in which an episode begins."""
        observations, mask = self._rows(kind, rows, seed)
        policy.seed(seed)
        return policy.act(observations, mask, deterministic)

    def _rows(self, kind: str, rows: int, seed: int) -> tuple[Observations, Mask]:
        """Draw observations and a mask."""
        generator = np.random.default_rng(seed)
        observations = self.observations(kind, rows, generator)
        mask = random_mask(self.behaviors[kind], rows, generator)
        return observations, mask

    # ------------------------------------------------------------ rules

    def test_declares_what_it_can_play(self) -> None:
        assert self.spaces and self.spaces <= BEHAVIORS.keys(), f"spaces are any of {', '.join(BEHAVIORS)}"

    @pytest.mark.parametrize("kind", list(BEHAVIORS))
    def test_plays_the_actions_it_declares_and_refuses_others(self, kind: str) -> None:
        if kind not in self.spaces:
            with pytest.raises(UnsupportedSpace):
                self.make(kind)
            return
        policy = self.make(kind)
        behavior = self.behaviors[kind]
        cases = product((1, 2, 7), range(20), (True, False))
        for rows, seed, deterministic in cases:
            observations, mask = self._rows(kind, rows, seed)
            before = copied((observations, mask))
            policy.seed(seed)
            actions = policy.act(observations, mask, deterministic)
            check_rows(behavior, rows, mask, actions)
            assert_equal((observations, mask), before, "act changed its arguments")

    def test_a_row_without_an_allowed_option_needs_no_action_and_breaks_nothing(self) -> None:
        """An agent that waits for its turn has a row whose mask may allow nothing."""
        for kind in self.spaces - {"continuous"}:
            behavior = self.behaviors[kind]
            generator = np.random.default_rng(1)
            mask = random_mask(behavior, 3, generator)
            assert mask is not None
            mask[1] = False
            observations = self.observations(kind, 3, generator)
            policy = self.make(kind)
            actions = policy.act(observations, mask, False)
            mask[1] = True  # no option is forbidden where none was allowed
            check_rows(behavior, 3, mask, actions)

    def test_equal_seeds_give_equal_actions_whatever_was_played_before(self) -> None:
        """Every evaluation plays the same games."""
        for kind in self.spaces:
            fresh = self.make(kind)
            used = self.make(kind)
            for seed in range(5):
                self.act(used, kind, 3, 100 + seed)
            for seed, deterministic in product(range(5), (True, False)):
                ours = copied(self.act(fresh, kind, 4, seed, deterministic))
                theirs = self.act(used, kind, 4, seed, deterministic)
                assert_equal(ours, theirs, "actions depend on more than act's arguments and the seed")

    def test_leaves_global_random_numbers_alone(self) -> None:
        for kind in self.spaces:
            policy = self.make(kind)
            before = global_generators()
            for seed in range(3):
                self.act(policy, kind, 4, seed)
                assert global_generators() == before, "draw from a generator of your own that seed() seeds"


def check_rows(behavior: BehaviorSpec, rows: int, mask: Mask, actions: Actions) -> None:
    """Check shapes, types and limits of the actions of ``rows`` rows."""
    slots = np.zeros(rows, np.int64)
    of_rows = behavior.take(slots)
    check_actions(of_rows, mask, actions)
