"""Final numbers, agents that wait, masks of several branches, and arrays that a game reuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from rlcore import Actions, EpisodeSeeds
from rlcore_devkit.environments import IdentityEnvironment
from rlcore_devkit.playing import play, played
from rlcore_pettingzoo.adapters import aec_env, parallel_env

Make = Callable[..., Any]


@pytest.mark.parametrize("backwards", [False, True])
def test_players_that_leave_in_another_order_than_their_slots_have_their_own_numbers(
    make: Make, backwards: bool
) -> None:
    arguments = {"players": 2, "backwards": backwards}
    environment = make("zoo_games:circle", 2, arguments=arguments, final_info=["place", "height"])
    orders = set()
    for batches in play(environment, 200):
        batch = batches["Agent"]
        assert (np.diff(batch.ended) > 0).all()
        assert (batch.final_info is None) == (not batch.ended.size)
        for env in np.unique(batch.ended // 2):
            rows = np.flatnonzero(batch.ended // 2 == env)
            assert batch.final_info is not None and batch.final_observations is not None
            seats = batch.final_observations["observation"][rows, 1] - 1
            np.testing.assert_array_equal(seats, batch.ended[rows] % 2)
            lost = batch.reward[batch.ended[rows]] < 0
            np.testing.assert_array_equal(batch.final_info["place"][rows], np.where(lost, 2, 1))
            assert np.isnan(batch.final_info["height"]).all()
            orders.add(tuple(lost))
    assert {(True, False), (False, True)} <= orders


class MaskedBranches(IdentityEnvironment):
    """Two branches; the mask forbids what the step before showed in the first branch."""

    def __init__(self) -> None:
        super().__init__(1, "Agent", discrete=(3, 2))

    def action_mask(self) -> Any:
        mask = np.ones((1, 5), np.bool_)
        mask[0, (int(self._steps[0]) + int(self.episodes[0])) % 3] = False
        return mask


@pytest.mark.parametrize("form", [parallel_env, aec_env])
def test_masks_of_several_branches_survive_the_way_there_and_back(make: Make, zoo_games: Any, form: Any) -> None:
    zoo_games.branches = lambda: form(MaskedBranches())
    environment = make("zoo_games:branches", 1)
    direct = MaskedBranches()
    theirs = direct.reset(EpisodeSeeds(EpisodeSeeds(1)(0, 0)), np.zeros(1, np.int64))["Agent"]
    for step, (batches, actions) in enumerate(played(environment, 8)):
        batch = batches["Agent"]
        if actions is not None:
            theirs = direct.step({"Agent": Actions(discrete=actions["Agent"].discrete)})["Agent"]
        if step == 8:  # the last one of the episode
            assert batch.ended.tolist() == [0]
            assert batch.final_action_mask[0].tolist() == [True, True, False, True, True]
            break
        assert batch.final_action_mask is None
        np.testing.assert_array_equal(batch.action_mask, theirs.action_mask)
        np.testing.assert_array_equal(batch.observations["observation"], theirs.observations["choices"])
        assert not batch.action_mask[0, step % 3]


def test_a_game_that_reuses_its_array_does_not_change_what_was_seen_last(make: Make, zoo_games: Any) -> None:
    class Reusing(zoo_games.fading):  # type: ignore[misc, name-defined]
        array = np.zeros(2, np.float32)

        def _look(self) -> Any:
            self.array[:] = super()._look()
            return self.array

    zoo_games.reusing = Reusing
    environment, fresh = (make(f"zoo_games:{name}", 1, arguments={"agents": 1}) for name in ("reusing", "fading"))
    for ours, theirs in zip(play(environment, 30), play(fresh, 30), strict=True):
        for name in ("observations", "final_observations"):
            mine = getattr(ours["Agent"], name)
            other = getattr(theirs["Agent"], name)
            assert (mine is None) == (other is None)
            if mine is not None:
                np.testing.assert_array_equal(mine["observation"], other["observation"])


@pytest.mark.parametrize(("info", "names"), [(["height"], {"place", "height"}), ("all", {"place"}), (None, {"place"})])
def test_environment_info_names_numbers_of_last_infos_or_all(make: Make, info: Any, names: set[str]) -> None:
    environment = make("zoo_games:circle", 1, final_info=["place"], info=info)
    ended = [batches["Agent"] for batches in play(environment, 100) if batches["Agent"].ended.size]
    assert ended
    for batch in ended:
        assert batch.final_info is not None and batch.final_info.keys() == names
        assert np.isfinite(batch.final_info["place"]).all()
