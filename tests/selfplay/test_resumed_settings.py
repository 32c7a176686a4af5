"""Self-play that is resumed with other settings, and states that do not fit."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest
from resumed_games import Play, played

TWO = {"Agent": (0,), "Other": (1,)}


def resumed_with(tmp_path: Path, play: Play, **settings: object) -> Play:
    return play.resumed(tmp_path, attrs.evolve(play.rules, settings={**play.rules.settings, **settings}))


def saved_steps(play: Play) -> list[int]:
    pool = play.trainers["Agent"].ghosts.pool
    return [pool.member(place).step for place in pool.window]


@pytest.mark.parametrize(("save_steps", "expected"), [(30, [240, 270, 300, 330]), (100, [300]), (7, [324, 330, 336])])
def test_snapshots_are_taken_at_multiples_of_the_new_save_steps(
    tmp_path: Path, save_steps: int, expected: list[int]
) -> None:
    rarely = {"swap_steps": 10_000, "team_change": 10_000}
    play = played(72, update_every=1, settings={"window": 100, **rarely})  # 3 environments
    assert play.trainers["Agent"].trainer.steps == 216 and saved_steps(play)[-1] == 210
    resumed = resumed_with(tmp_path, play, save_steps=save_steps)
    resumed.run(40)
    assert resumed.trainers["Agent"].trainer.steps == 336
    assert saved_steps(resumed)[-len(expected) :] == expected
    more = len(saved_steps(resumed)) - len(saved_steps(play))
    assert more == 336 // save_steps - 216 // save_steps


def test_the_newest_snapshots_stay_in_a_smaller_window_and_a_larger_one_fills(tmp_path: Path) -> None:
    play = played(80, settings={"window": 6})
    small = resumed_with(tmp_path / "small", play, window=2)
    assert saved_steps(small) == saved_steps(play)[-2:]
    small.run(100)
    assert len(saved_steps(small)) == 2
    large = resumed_with(tmp_path / "large", play, window=9)
    assert saved_steps(large) == saved_steps(play)
    large.run(100)
    assert len(saved_steps(large)) == 9 and saved_steps(large)[0] > saved_steps(play)[0]


@pytest.mark.parametrize("stops", [("Agent",), ("Other",), ("Agent", "Other")])
def test_behaviors_that_had_stopped_learn_on_if_their_max_steps_are_raised(
    tmp_path: Path, stops: tuple[str, ...]
) -> None:
    play = played(40, behaviors=TWO)
    for name in stops:
        play.stop(name)
        play.run(20)
    assert (play.controller.learning.current == -1) == (len(stops) == 2)
    play.stopped.clear()  # the resumed run does not call stop_learning
    resumed = play.resumed(tmp_path)
    resumed.run(200)
    assert all(resumed.trainers[name].steps > play.trainers[name].steps + 50 for name in stops)
    assert resumed.controller.learning.changes > play.controller.learning.changes
