"""A league: who plays in which environments, against whom, and when exploiters start again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest
from resumed_games import difference

from rlcore import EpisodeSeeds, RunStateError
from rlcore_devkit.environments import identity_discrete
from rlcore_devkit.trainings import SmallTrainings
from rlcore_ghost.selfplay.league import League, MainExploiterSampler, shares
from rlcore_ghost.selfplay.open_games import AgentResults
from rlcore_ghost.selfplay.samplers import Candidates, PrioritizedSampler
from rlcore_ghost.settings import LeagueSettings, PrioritizedParameters


def test_each_exploiter_has_its_share_of_the_environments_and_at_least_one() -> None:
    def parts(envs: int, **settings: Any) -> list[list[int]]:
        return [part.tolist() for part in shares(LeagueSettings(**settings), envs) or []]

    assert [len(part) for part in parts(20, share=0.2)] == [12, 4, 4]
    assert parts(4, main_exploiters=2, league_exploiters=1, share=0.01) == [[0], [1], [2], [3]]
    assert parts(2) == [] and parts(3, main_exploiters=0, league_exploiters=0) == [[0, 1, 2]]


def candidates(score: list[float], games: float) -> Candidates:
    count = len(score)
    return Candidates(
        tuple(map(str, range(count))), np.arange(count), np.zeros(count, np.bool_), np.full(count, games),
        np.array(score), np.full(count, 1200.0), 1200.0,
    )  # fmt: skip


@pytest.mark.parametrize(("score", "games", "only_latest"), [(0.5, 0, True), (0.3, 50, True), (0.1, 50, False)])
def test_a_main_exploiter_plays_older_snapshots_only_while_it_nearly_always_loses(
    score: float, games: float, only_latest: bool
) -> None:
    chosen = MainExploiterSampler().sample(candidates([score] * 4, games), 200, np.random.default_rng(1))
    assert (set(chosen.tolist()) == {3}) == only_latest


@pytest.mark.parametrize(
    ("parameters", "weights"),
    [({}, [0.01, 0.25, 0.64]), ({"power": 1.0}, [0.1, 0.5, 0.8]), ({"weighting": "variance"}, [0.09, 0.25, 0.16])],
)
def test_prioritized_fictitious_self_play_weighs_opponents_by_the_results(parameters: Any, weights: Any) -> None:
    sampler = PrioritizedSampler(PrioritizedParameters(**parameters))
    found = sampler.probabilities(candidates([0.9, 0.5, 0.2], 1e9))
    np.testing.assert_allclose(found, np.array(weights) / sum(weights), atol=1e-6)
    few = sampler.probabilities(candidates([1.0, 0.5], 4))  # 4.5 of 5 games, and 2.5
    odds = {"hard": (0.1 / 0.5) ** sampler.settings.power, "variance": 0.09 / 0.25}
    assert few[0] / few[1] == pytest.approx(odds[sampler.settings.weighting])


def made(directory: Path, envs: int = 12, **league: Any) -> tuple[Any, Any, str, Any]:
    """An environment with two teams, whose agents are right or wrong independently, the trainer of its league, the name
    of the behavior, and its first batch."""
    environment = identity_discrete(2 * envs)
    [behavior] = environment.behaviors.values()
    slots = np.arange(behavior.slots)
    environment.behaviors = {behavior.name: attrs.evolve(behavior, env_index=slots // 2, team=slots % 2)}
    self_play = {"save_steps": 60, "swap_steps": 30, "team_change": 90, "window": 3, "league": league}
    settings = SmallTrainings("ppo", directory, {"batch_size": 32, "buffer_size": 64}, {"hidden_units": 8})
    trainer = settings.trainer(environment, block={"self_play": self_play})
    batch = environment.reset(EpisodeSeeds(1), np.zeros(environment.num_envs, np.int64))[behavior.name]
    return environment, trainer, behavior.name, batch


def test_exploiters_play_whom_their_names_say_and_start_again(tmp_path: Path) -> None:
    environment, league, name, batch = made(tmp_path, reset_steps=100)
    assert isinstance(league, League)
    league.begin(batch)
    first = {each: exploiter.first_model for each, exploiter in league.exploiters.items()}
    tags: set[str] = set()
    met: dict[str, set[str]] = {each: set() for each in ("main", *league.exploiters)}
    for _ in range(200):
        for each, trainer in zip(met, league._trainers, strict=True):
            ghosts = trainer.ghosts
            met[each] |= {ghosts.pool.member(place).name for place in ghosts.place[ghosts.slots].tolist()}
        actions = league.act(batch)
        batch = environment.step({name: actions})[name]
        league.observe(actions, batch)
        if league.ready():
            tags |= league.update().keys()
    owners = {each: {player.rpartition("@")[0] for player in players} for each, players in met.items()}
    main = name
    weak = f"{name}.main_exploiter_1"
    strong = f"{name}.league_exploiter_1"
    assert owners == {
        "main": {main, weak, strong}, "main_exploiter_1": {main}, "league_exploiter_1": {main, weak, strong},
    }  # fmt: skip
    assert {"League/main_exploiter_1/ELO", "League/league_exploiter_1/Resets"} <= tags
    for each, exploiter in league.exploiters.items():
        assert exploiter.resets >= 2 and exploiter.first_model == first[each]
    learning = np.flatnonzero(league.learning_slots)
    assert set((learning // 2).tolist()) <= set(range(8)), "steps of exploiters count as those of the run"
    league.stop_learning()
    for _ in range(30):
        batch = environment.step({name: (actions := league.act(batch))})[name]
        league.observe(actions, batch)
    assert [league.steps, *(trainer.steps for trainer in league._trainers)] == [200 * 8, 200 * 8, 200 * 2, 200 * 2]


@pytest.mark.parametrize(
    ("updates", "resets"),
    [
        ([(1.0, 0)] * 12, [0] * 5 + [1] * 6 + [2]),  # the running mean of wins is 1 - 0.8^n: 0.67, and then 0.74
        ([(0.5, 599), (0.5, 600), (0.5, 1199), (0.5, 1200)], [0, 1, 1, 2]),  # ten times save_steps
    ],
)
def test_an_exploiter_starts_again_with_the_first_weights(tmp_path: Path, updates: Any, resets: list[int]) -> None:
    _, league, _, batch = made(tmp_path)
    league.begin(batch)
    first, learned = ({name: array + more for name, array in league.state_dict()["model"].items()} for more in (1, 2))
    league.load_model(first)
    exploiter: Any = league.exploiters["main_exploiter_1"]
    exploiter.trainer.ready = lambda: True
    for number, (result, steps) in enumerate(updates):
        exploiter.trainer.load_model(learned)
        exploiter.trainer.trainer.steps = steps
        exploiter.trainer.update = lambda result=result: {"Self-play/Win Rate": result}
        assert league.update()["League/main_exploiter_1/Resets"] == resets[number]
        weights = first if resets[number] > [0, *resets][number] else learned
        assert difference(exploiter.trainer.state_dict()["model"], weights) is None


def test_a_state_that_does_not_fit_one_exploiter_changes_no_trainer(tmp_path: Path) -> None:
    _, league, _, batch = made(tmp_path)
    other = made(tmp_path)[1]
    for trainer, steps in ((league, 40), (other, 90)):
        trainer.begin(batch)
        for _ in range(steps):
            actions = trainer.act(batch)
            trainer.observe(actions, batch)
            if trainer.ready():
                trainer.update()
    before = league.state_dict()
    state = other.state_dict()
    exploiters = state.pop("league")
    with pytest.raises(RunStateError, match="the checkpoint was saved without a league; remove the block"):
        league.load_state_dict(state)
    last = exploiters["league_exploiter_1"]
    damaged = {**last, "trainer": {**last["trainer"], "steps": "many"}}
    with pytest.raises(RunStateError, match="'steps' is 'many', not"):
        league.load_state_dict({**state, "league": {**exploiters, "league_exploiter_1": damaged}})
    assert difference(before, league.state_dict()) is None
    league.load_state_dict({**state, "league": exploiters})
    assert difference(other.state_dict(), league.state_dict()) is None


def test_results_of_a_leagues_policies_are_told_apart(tmp_path: Path) -> None:
    _, league, main, batch = made(tmp_path)
    league.begin(batch)
    controller = league.trainer.controller
    weak = f"{main}.main_exploiter_1"
    ghost = controller.player(f"{main}@0")
    assert controller.elo.advantages.tolist() == [0.0, 0.0], "one for each team, by default"
    for behavior, value in ((main, 1.0), (weak, 0.0)):  # the main policy wins against its snapshot, the exploiter loses
        trainer = league.trainer if behavior == main else league.exploiters["main_exploiter_1"].trainer
        slots = np.arange(len(trainer.ghosts.place))
        team = slots % 2
        players = np.where(slots % 2, ghost, controller.player(behavior))
        no = np.zeros(len(slots), np.bool_)
        controller.report(behavior, AgentResults(slots, players, np.where(team, 0.5, value), no, no))
    controller.rate_games()
    results = {behavior: controller.results_against(behavior, [ghost]) for behavior in (main, weak)}
    assert {behavior: score.tolist() for behavior, (_, score) in results.items()} == {main: [1.0], weak: [0.0]}
    assert [games.tolist() for games, _ in results.values()] == [[8.0], [2.0]]
    assert league.trainer.ghosts.candidates().score.tolist()[0] == 1.0
