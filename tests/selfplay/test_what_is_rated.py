"""Results and ratings of games: whose number decides, which games are rated, and as whose."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest
import yaml
from worlds_of_games import World, ghost_trainer

from rlcore import AgentBatch
from rlcore_ghost.selfplay.open_games import AgentResults
from rlcore_ghost.selfplay.trainer import GhostTrainer

ONE_OPPONENT = {"save_steps": 10**6, "swap_steps": 10**6, "team_change": 10**6, "play_against_latest_model_ratio": 0.0}
CASES = yaml.safe_load((Path(__file__).parent / "data/games.yaml").read_text(encoding="utf-8"))


def made(envs: int = 1, sizes: tuple[int, ...] = (1, 1), **settings: Any) -> tuple[GhostTrainer, World]:
    """A trainer whose opponents do not change: the snapshot of the start."""
    world = World("together", envs, sizes, seed=1)
    return ghost_trainer(world, **{**ONE_OPPONENT, **settings}), world


def play_one_game(trainer: GhostTrainer, world: World, **end: Any) -> tuple[int, float | None]:
    """All games end after one step, with these parts of the batch. Returns rated games and the learner's result."""
    batch = world.begin()
    trainer.begin(batch)
    return end_games(trainer, world, batch, **end)


def end_games(trainer: GhostTrainer, world: World, batch: AgentBatch, **end: Any) -> tuple[int, float | None]:
    actions = trainer.act(batch)
    slots = np.ones(len(world.env), np.bool_)
    trainer.observe(actions, attrs.evolve(world.batch(slots, ~slots), **end))
    stats = trainer.statistics()
    return trainer.controller.rated, stats.get("Self-play/Win Rate")


@pytest.mark.parametrize(("numbers", "rated", "result"), CASES["numbers"])
def test_agents_without_the_number_that_decides_are_left_out(numbers: Any, rated: int, result: float | None) -> None:
    points = {"points": np.array(numbers, np.float64)}
    assert play_one_game(*made(1, (1, 2), result="info.points"), final_info=points) == (rated, result)


@pytest.mark.parametrize(("rule", "own", "shared", "result"), CASES["rewards"])
def test_rewards_of_the_group_decide_too(rule: str, own: list[int], shared: list[int], result: float) -> None:
    rewards = {"reward": np.array(own, np.float32), "group_reward": np.array(shared, np.float32)}
    assert play_one_game(*made(result=rule), **rewards) == (1, result)


def test_a_game_of_ghosts_alone_is_logged_at_the_step_of_training() -> None:
    trainer, world = made()
    play_one_game(trainer, world)
    trainer.update()
    trainer.stop_learning()
    play_one_game(trainer, world)
    assert trainer.steps == 1 and trainer.controller.log.matches().step.tolist() == [1, 1]
    assert trainer.statistics()["Self-play/Opponent ELO"] == 1200.0


def test_the_seats_of_learners_get_what_the_environment_reports_of_ended_episodes() -> None:
    seen: list[AgentBatch] = []
    trainer, world = made(2)
    inner: Any = trainer.trainer
    inner.observe = lambda actions, batch: seen.append(batch)
    play_one_game(trainer, world, final_info={"points": np.arange(4.0)})
    assert seen[0].final_info is not None and seen[0].final_info["points"].tolist() == [0.0, 2.0]


@pytest.mark.parametrize(("rule", "rated"), [("skip", 0), ("rate", 1)])
@pytest.mark.parametrize("cut", [[True, True], [False, True]])  # one agent only, when another one has ended before
def test_a_time_limit_decides_a_game_only_on_request(rule: str, rated: int, cut: list[bool]) -> None:
    truncated = np.array(cut)
    assert play_one_game(*made(truncated_games=rule), terminated=~truncated, truncated=truncated)[0] == rated


@pytest.mark.parametrize(("rule", "complete", "told"), [("skip", None, 1), ("skip", 20, 0), ("rate", None, 0)])
def test_games_that_all_end_by_a_time_limit_are_named_once(
    rule: str, complete: int | None, told: int, caplog: pytest.LogCaptureFixture
) -> None:
    trainer, world = made(4, truncated_games=rule)
    for number in range(60):  # of 4 games each
        cut = np.full(8, number != complete)
        play_one_game(trainer, world, terminated=~cut, truncated=cut)
    said = [text for text in caplog.messages if "truncated_games: rate" in text]
    assert len(said) == told and all("a time limit ended 100 games" in text for text in said)


@pytest.mark.parametrize(("rewards", "told"), [([1, -1], 0), ([1, 1], 1)])
def test_games_in_which_all_teams_may_win_are_named_once(
    rewards: list[int], told: int, caplog: pytest.LogCaptureFixture
) -> None:
    trainer, world = made(4)
    for _ in range(60):
        play_one_game(trainer, world, reward=np.tile(np.array(rewards, np.float32), 4))
    said = [text for text in caplog.messages if "do not add up to 0" in text]
    assert len(said) == told and all("in 100 of 100 games" in text for text in said)
    assert trainer.controller.log.not_zero_sum == told * 240


def test_returns_of_one_game_do_not_count_in_the_next() -> None:
    trainer, world = made(result="return")
    assert play_one_game(trainer, world, reward=np.array([5, 0], np.float32)) == (1, 1.0)
    batch = world.batch(np.zeros(2, np.bool_), np.zeros(2, np.bool_))
    assert end_games(trainer, world, batch, reward=np.array([0, 1], np.float32)) == (2, 0.0)


def test_games_against_oneself_are_no_results() -> None:
    trainer, world = made(learn_from="all", play_against_latest_model_ratio=1.0)
    assert play_one_game(trainer, world, reward=np.array([5, 0], np.float32)) == (1, None)
    assert trainer.statistics()["Self-play/ELO"] == 1200


def test_a_snapshot_begins_with_the_rating_after_all_games_and_later_games_count_more() -> None:
    trainer, world = made()
    trainer.begin(world.begin())
    controller = trainer.controller
    both = np.arange(2)
    learner, ghost = players = [controller.player("Agent"), controller.player("Agent@0")]
    for number, value in enumerate((1.0, -1.0, -1.0)):
        controller.report("Agent", AgentResults(both, np.array(players), np.array([value, -value]), both > 1, both > 1))
        if not number:
            snapshot = controller.player("Agent@100", learner)
            assert [controller.elo.rating(each) for each in (learner, snapshot, ghost)] == [1208, 1208, 1192]
        controller.rate_games()
    games, score = controller.results_against("Agent", [ghost])
    np.testing.assert_allclose(games, [1 + 0.99 + 0.99**2])
    np.testing.assert_allclose(score, 0.99**2 / games)
