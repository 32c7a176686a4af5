"""Self-play that is saved at any step of any game and continued from the checkpoint plays on bit for bit."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from resumed_games import Play, Rules, difference
from worlds_of_games import KINDS

from rlcore import IdleGroups

TEAMS = {
    (1, 1): [{"Agent": (0, 1)}, {"Agent": (0,), "Other": (1,)}, {"Other": (0,), "Agent": (1,)}],
    (2, 1): [{"Agent": (0, 1)}, {"Other": (0,), "Agent": (1,)}],
    (1, 2, 1): [{"Agent": (0, 1, 2)}, {"Agent": (0, 2), "Other": (1,)}],
}


@st.composite
def rules(draw: st.DrawFn) -> Rules:
    sizes = draw(st.sampled_from(list(TEAMS)))
    return Rules(
        kind=draw(st.sampled_from(KINDS)),
        envs=draw(st.integers(1, 4)),
        sizes=sizes,
        behaviors=draw(st.sampled_from(TEAMS[sizes])),
        sampler=draw(st.sampled_from(["uniform", "pfsp"])),
        aborts=draw(st.booleans()),
        seed=draw(st.integers(0, 1000)),
        fixed=draw(st.sampled_from([(), ("rock",), ("paper", "rock")])),
        settings={
            "opponents_per": draw(st.sampled_from(["env", "run"])),
            "learn_from": draw(st.sampled_from(["learning_team", "all"])),
            "window": draw(st.integers(1, 4)),
            "play_against_latest_model_ratio": draw(st.sampled_from([0.0, 0.5, 1.0])),
            "result": draw(st.sampled_from(["reward", "return"])),
        },
    )


# A snapshot left the pool, and its place is free at the checkpoint.
FREE_PLACE = Rules(envs=2, fixed=("rock",), seed=0, settings={"window": 1, "play_against_latest_model_ratio": 0.0})


@example(FREE_PLACE, 18, 10, None, False)
@given(rules(), st.integers(1, 80), st.integers(1, 40), st.one_of(st.none(), st.integers(0, 60)), st.booleans())
def test_a_play_continued_from_a_checkpoint_equals_the_play_never_stopped(
    made: Rules, before: int, after: int, stops: int | None, cuts: bool
) -> None:
    whole = Play(made)
    play = Play(made)
    for each in (whole, play):
        each.begin()
        for step in range(before):
            if step == stops:
                each.stop(sorted(made.behaviors)[-1])
            each.step()
        if cuts:
            each.begin()
    with tempfile.TemporaryDirectory() as directory:
        resumed = play.resumed(Path(directory))
    assert difference(play.state(), resumed.state()) is None
    for _ in range(after):
        assert whole.step() == resumed.step()
    assert difference(whole.state(), resumed.state()) is None


@pytest.mark.parametrize("behaviors", TEAMS[1, 1])
def test_a_team_that_never_acts_does_not_learn_until_it_acts(
    behaviors: dict[str, tuple[int, ...]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    monkeypatch.setattr(IdleGroups, "window", 40)
    made = Rules("asleep", envs=4, behaviors=behaviors, settings={"team_change": 60, "swap_steps": 10})
    whole = Play(made)
    play = Play(made)
    names = {team: name for name, teams in behaviors.items() for team in teams}

    def learned() -> int:
        return whole.trainers[names[0]].steps

    for each in (whole, play):
        each.begin()
        each.run(35)
    before = learned()
    assert whole.controller.learning.current == 1 and 60 <= before < 35 * 4  # nothing has been learned from then on
    done = whole.run(300)
    play = play.resumed(tmp_path / "1")
    assert done == play.run(300)
    # Noticed after 40 steps: team 0 learns in the games that begin then, with 4 agents.
    assert learned() - before >= 4 * (300 - 5 - 20)
    assert [record.getMessage() for record in caplog.records if "have not acted" in record.getMessage()] == 2 * [
        f"self-play: the agents of team 1, behavior {names[1]!r}, have not acted for 40 steps of the environments; "
        "other teams learn until they act (reported once)"
    ]  # of both plays
    whole.world.asleep = play.world.asleep = False
    assert whole.run(60) == play.resumed(tmp_path / "2").run(60)
    teams = []
    for _ in range(100):
        whole.step()
        teams.append(whole.controller.learning.current)
    assert set(teams) == {0, 1}
