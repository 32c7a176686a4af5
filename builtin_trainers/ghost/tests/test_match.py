"""Episodes against an opponent: who plays which team, what counts, and the results of games with known chances."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
from table_game import Always, Table

from rlcore.contracts.batches import Actions
from rlcore.contracts.behavior_spec import BehaviorSpec
from rlcore.contracts.results import BehaviorEvaluation, EvaluationResult, OpponentEvaluation
from rlcore.run.evaluation.episodes import PlayedEnvironment, play, shares
from rlcore_ghost import Match, RandomPolicy
from rlcore_offline import SlotRecorder

DUEL = {"A": [0, 1]}
# the options that the two policies always take
LEARNED = 1
OTHER = 0


def measure(
    table: Table, episodes: int, learned: Any = None, opponent: Any = None, *, seed: int = 1, **keywords: Any
) -> Any:
    """The result of the learned policy, which always takes option 1, against one that takes option 0."""
    learned = learned or {name: Always(LEARNED) for name in table.behaviors}
    opponent = opponent or {name: Always(OTHER) for name in table.behaviors}
    match = Match("it", opponent, table.behaviors, shares(table.num_envs, episodes))
    result = play(learned, PlayedEnvironment(table), episodes, seed, True, {}, lineup=match, **keywords)
    return EvaluationResult(result.behaviors, {"it": match.result()})


def seats(table: Table) -> dict[tuple[int, int], list[int]]:
    """The teams whose agents took the option of the learned policy, by table and episode, from the table's own log."""
    found: dict[tuple[int, int], set[int]] = {}
    for entry in table.log:
        for env in range(table.num_envs):
            key = (env, int(entry["episodes"][env]))
            for name, chosen in entry["choices"].items():
                teams = {int(team) for team in table.teams[name][chosen[env] == LEARNED]}
                others = {int(team) for team in table.teams[name][chosen[env] == OTHER]}
                assert not teams & others, "a team is played by one policy"
                assert found.setdefault(key, teams) == teams or len(table.teams) > 1, "and by the same all the time"
                found[key] |= teams
    return {key: sorted(teams) for key, teams in found.items()}


@pytest.mark.parametrize(
    ("agents", "num_envs", "episodes"),
    [
        ({"A": [0, 1]}, 1, 7),  # teams do not divide the episodes
        ({"A": [0, 1]}, 3, 10),  # uneven shares
        ({"A": [0, 1]}, 16, 16),  # a single episode at each table
        ({"A": [1, 0, 1, 1]}, 5, 12),  # teams of unequal size
        ({"A": [4, 2, 9]}, 4, 12),
        ({"Striker": [0, 1], "Goalie": [1, 0]}, 3, 8),
    ],
)
def test_every_team_plays_the_learned_policy_equally_often_and_alone(
    agents: dict[str, list[int]], num_envs: int, episodes: int
) -> None:
    table = Table(num_envs, agents, rule=lambda choices: np.zeros(choices.shape))
    found = Counter(measure(table, episodes).opponents["it"].teams)
    teams = sorted({team for each in agents.values() for team in each})
    assert sorted(found) == teams and sum(found.values()) == episodes
    assert max(found.values()) - min(found.values()) == (episodes % len(teams) > 0)
    share = [episodes // num_envs + (env < episodes % num_envs) for env in range(num_envs)]
    played = seats(table)
    counted = [played[env, episode] for env in range(num_envs) for episode in range(share[env])]
    assert all(len(each) == 1 for each in counted) and Counter(team for [team] in counted) == found


def test_wins_draws_and_losses_are_told_by_the_sign_of_the_return() -> None:
    for option, expected in ((1, (1.0, 0.0, 0.0)), (0, (0.0, 1.0, 0.0)), (2, (0.0, 0.0, 1.0))):
        result = measure(Table(4, DUEL), 12, {"A": Always(option)}).opponents["it"]
        assert (result.win_rate, result.draw_rate, result.loss_rate) == expected
        assert result.mean_reward == expected[0] - expected[2] and result.episodes == 12 and result.std_reward == 0.0


def behavior(returns: list[float], group: float | None) -> BehaviorEvaluation:
    mean = float(np.mean(returns))
    lengths = tuple(range(1, len(returns) + 1))
    return BehaviorEvaluation(mean, 0.0, len(returns), float(np.mean(lengths)), tuple(returns), group, lengths, 1)


def test_the_score_is_the_mean_over_opponents_whatever_single_agents_got() -> None:
    opponents = {"x": OpponentEvaluation.of([1.0, 0.0], [0, 1]), "y": OpponentEvaluation.of([-1.0] * 8, [0, 1] * 4)}
    measured = EvaluationResult({"A": behavior([7.0], None)}, opponents)
    assert opponents["x"].std_reward == 0.5 and opponents["x"].win_rate == opponents["x"].draw_rate == 0.5
    assert measured.score == -0.25 and EvaluationResult(measured.behaviors).score == 7.0
    assert EvaluationResult(measured.behaviors, opponents, "x").score == 0.5


def test_results_of_behaviors_against_several_opponents_are_joined() -> None:
    joined = BehaviorEvaluation.joined([behavior([1.0, 3.0, 5.0], 2.0), behavior([7.0], 6.0), behavior([9.0], None)])
    assert joined == BehaviorEvaluation(
        5.0, float(np.std([1, 3, 5, 7, 9])), 5, 8 / 5, (1.0, 3.0, 5.0, 7.0, 9.0), 3.0, (1, 2, 3, 1, 1), 3
    )


def within(measured: float, chance: float, episodes: int) -> bool:
    return abs(measured - chance) <= 3 * math.sqrt(chance * (1 - chance) / episodes)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("extra", [{}, {"dies": 0}, {"turns": True}, {"dies": 2}])
def test_the_return_of_a_team_is_the_mean_over_its_agents_of_all_their_rewards(shared: bool, extra: Any) -> None:
    table = Table(3, {"A": [0, 1, 1]}, lengths=(2, 4, 3), shaping=0.25, shared=shared, **extra)
    given: dict[tuple[int, int], Any] = {}
    step = table.step

    def stepped(actions: Any) -> Any:
        before = table.episodes.copy()
        batches = step(actions)
        batch = batches["A"]
        rewards = batch.reward + (0.0 if batch.group_reward is None else batch.group_reward)
        for env, episode in enumerate(before.tolist()):
            given[env, episode] = given.get((env, episode), 0.0) + rewards.reshape(3, 3)[env]
        return batches

    table.step = stepped  # type: ignore[method-assign]
    result = measure(table, 9).opponents["it"]
    expected = []
    for (env, episode), rewards in given.items():
        if episode < 3:
            seat = (3 * env + episode) % 2  # the episodes of table 0 are the first three, and so on
            expected.append((round(float(rewards[table.teams["A"] == seat].mean()), 6), seat))
    found = [(round(value, 6), seat) for value, seat in zip(result.returns, result.teams, strict=True)]
    assert sorted(found) == sorted(expected)


def test_only_the_episodes_of_learned_agents_are_recorded() -> None:
    table = Table(2, DUEL)
    written = []
    recorder = SlotRecorder(table.behaviors["A"], written.append)
    match = Match("it", {"A": Always(0)}, table.behaviors, shares(2, 6))
    play({"A": Always(1)}, PlayedEnvironment(table), 6, 0, True, {"A": recorder}, lineup=match)
    assert len(written) == 6 and all((recording.actions.discrete == 1).all() for recording in written)


@pytest.mark.parametrize(
    ("lengths", "limit", "returns"),
    [
        ((0, 2), 5, {5.0: 4, 3.0: 4}),  # every second episode is endless: five steps of reward 1, or two and a win
        ((4, 1), 3, {3.0: 4, 2.0: 4}),  # one table plays on while the other one waits for an end
    ],
)
def test_a_long_episode_is_cut_and_counted_once_and_the_team_still_changes(
    lengths: Any, limit: int, returns: Any
) -> None:
    played = measure(Table(2, DUEL, lengths=lengths, shaping=1.0), 8, max_episode_steps=limit)
    result = played.opponents["it"]
    agents = played.behaviors["A"]
    assert (agents.episodes, agents.cut) == (8, 4), "of the measured policy alone"
    assert result.episodes == 8 and result.cut == 4 and Counter(result.teams) == {0: 4, 1: 4}
    assert Counter(result.returns) == returns


def test_an_episode_whose_environment_was_lost_is_played_again_with_the_same_team() -> None:
    table = Table(2, DUEL, lengths=(3,), shaping=1.0, lost=(1, 2))
    result = measure(table, 4).opponents["it"]
    assert result.returns == (4.0,) * 4 and Counter(result.teams) == {0: 2, 1: 2}
    played = seats(table)
    assert played[1, 0] == played[1, 1] != played[1, 2]


class Remembers(Always):
    """Remembers how many steps of an episode it has acted in, and takes option 2 if it is not what it sees."""

    memory_size = 3

    def act(self, observations: Any, action_mask: Any = None, deterministic: bool = True, memory: Any = None) -> Any:
        wrong = memory[:, 2] != observations["step"][:, 0]
        memory[:, 2] += 1
        actions = super().act(observations)
        actions.discrete[wrong] = 2
        return actions


@pytest.mark.parametrize("learned", [Remembers(1), Always(1)])
@pytest.mark.parametrize("opponent", [Remembers(0), Always(0)])
@pytest.mark.parametrize("extra", [{}, {"lost": (1, 2)}, {"agents": {"A": [1, 0, 1]}}])
def test_policies_with_memory_remember_an_episode_and_no_more(learned: Any, opponent: Any, extra: Any) -> None:
    table = Table(3, **{"agents": DUEL, **extra})
    measure(table, 12, {"A": learned}, {"A": opponent})
    assert len(seats(table)) >= 12 and all((e["choices"]["A"] < 2).all() for e in table.log), "none was wrong"


# ---------------------------------------------------------------- the opponent random


def drawn(rows: int, mask: Any = None, **keywords: Any) -> Actions:
    policy = RandomPolicy(BehaviorSpec("A", Table(1, DUEL).behaviors["A"].observations, **keywords))
    policy.seed(3)
    return policy.act({"step": np.zeros((rows, 1), np.float32)}, mask, True)


def test_random_draws_every_allowed_option_equally_often() -> None:
    rows = 6000
    mask = np.tile(np.array([True, True, True, False, True, False]), (rows, 1))
    chosen = drawn(rows, mask, discrete=(2, 4)).discrete
    assert chosen is not None and chosen.dtype == np.int64 and chosen.shape == (rows, 2)
    first, second = (np.bincount(chosen[:, branch], minlength=4) / rows for branch in (0, 1))
    assert within(first[0], 1 / 2, rows) and within(second[0], 1 / 2, rows) and second[1] == second[3] == 0.0
    joint = np.mean((chosen[:, 0] == 0) & (chosen[:, 1] == 0))
    assert within(joint, 1 / 4, rows), "branches are drawn independently"


def test_random_draws_real_parts_within_bounds() -> None:
    inf = np.inf
    low = np.array([-3, -inf, 5, -inf], np.float32)
    high = np.array([1, inf, inf, -7], np.float32)
    parts = drawn(4000, continuous=4, low=low, high=high).continuous
    assert parts is not None and parts.dtype == np.float32
    for column, (first, last) in enumerate([(-3, 1), (-1, 1), (5, 7), (-9, -7)]):
        values = parts[:, column]
        assert values.min() >= first and values.max() <= last
        assert abs(values.mean() - (first + last) / 2) <= 3 * (last - first) / math.sqrt(12 * 4000)
