"""Who learns and who plays as which ghost, in games that end in every way; what the inner trainer sees of them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from fault_cases import DUELS
from worlds_of_games import KINDS, Numbered, Recorder, World, ghost_trainer, ghost_trainers

from rlcore import Actions, AgentBatch, BehaviorSpec, PluginError, Run
from rlcore_ghost.selfplay.seats import Seats
from rlcore_ghost.selfplay.trainer import GhostTrainer
from rlcore_ghost.settings import SelfPlaySettings

SETTINGS = {"save_steps": 40, "swap_steps": 25, "team_change": 60, "window": 3}


def made(world: World, fixed: dict[str, Any] | None = None, **settings: Any) -> GhostTrainer:
    return ghost_trainer(world, fixed, **{**SETTINGS, **settings})


def play(world: World, trainer: GhostTrainer, steps: int) -> list[tuple[Any, ...]]:
    """Play, and return what each slot did: slot, episode, game, observation, action, learned from, reward, ended."""
    batch = world.begin()
    trainer.begin(batch)
    held: dict[int, list[Any]] = {}
    done = []
    for step in range(steps):
        learning = trainer.learning_slots
        actions = trainer.act(batch)
        acts = np.ones(len(world.env), np.bool_) if batch.needs_action is None else batch.needs_action
        for slot in np.flatnonzero(acts):
            place = (int(world.episode[slot]), int(world.game[world.env[slot]]))
            held[slot] = [
                slot, *place, float(batch.observations["seen"][slot, 0]), int(actions.discrete[slot, 0]),
                bool(learning[slot]),
            ]  # fmt: skip
        if step % 97 == 96:  # a checkpoint that cuts all episodes
            held.clear()
            batch = world.begin()
            trainer.begin(batch)
            continue
        batch = world.step()
        closed = batch.transition_closed
        for slot in range(len(world.env)):
            if batch.aborted is not None and batch.aborted[slot]:
                held.pop(slot, None)
            elif slot in held and (closed is None or closed[slot]):
                done.append((*held.pop(slot), float(batch.reward[slot]), bool(batch.terminated[slot])))
        trainer.observe(actions, batch)
        if step % 11 == 0:
            trainer.update()
    return done


def test_the_first_snapshot_normalizes_by_the_first_observations(tmp_path: Path) -> None:
    """Cues are indicators: the mean of a column is the share of the learning team that sees the cue."""
    self_play = {"save_steps": 1000, "swap_steps": 1000, "team_change": 1000}
    block = {"trainer_type": "ppo", "network_settings": {"normalize": True, "hidden_units": 4}, "self_play": self_play}
    with Run({
        "plugins": DUELS, "environment": {"type": "duel", "num_envs": 16}, "behaviors": {"Player": block},
        "checkpoint_settings": {"results_dir": str(tmp_path)}, "stats": {"console": False},
    }) as run:  # fmt: skip
        run.start()
        behavior = run.behaviors["Player"]
        first = behavior.batch.observations["seen"][np.flatnonzero(behavior.spec.team == 0)]
        snapshot: Any = behavior.trainer.ghosts.pool.member(behavior.trainer.ghosts.pool.window[0]).policy  # type: ignore[attr-defined]
        assert snapshot.model.inputs.normalizer.count > 0
        np.testing.assert_allclose(snapshot.model.inputs.normalizer.mean, first.mean(0), atol=1e-9)


SHAPES = [(1, 1), (2, 1), (3, 1, 2)]


def games() -> list[Any]:
    """All combinations; by default those in which each two values of different columns meet."""
    columns: list[Sequence[Any]] = [KINDS, SHAPES, ("env", "run"), ("learning_team", "all"), (False, True)]
    made = []
    for k, s, *others in product(*(range(len(column)) for column in columns)):
        daily = others == [(k + s) % 2, (k // 2 + s) % 2, (k + k // 2 + s // 2) % 2]
        values = [column[at] for column, at in zip(columns, (k, s, *others), strict=True)]
        made.append(pytest.param(*values, marks=() if daily else pytest.mark.deep))
    return made


@pytest.mark.parametrize(("kind", "sizes", "per", "learn_from", "aborts"), games())
def test_the_inner_trainer_sees_exactly_what_its_agents_did(
    kind: str, sizes: tuple[int, ...], per: str, learn_from: str, aborts: bool
) -> None:
    world = World(kind, 4, sizes, seed=sum(sizes), aborts=aborts)
    trainer = made(world, opponents_per=per, learn_from=learn_from)
    done = play(world, trainer, 400)
    learned = [(seen, action, reward, ended) for _, _, _, seen, action, learns, reward, ended in done if learns]
    assert sorted(learned) == sorted(trainer.trainer.transitions)  # type: ignore[attr-defined]
    assert len(learned) > 100

    policies = defaultdict(set)  # of each episode: the ghost's number, or 1000 and up for the one that learns
    for slot, episode, _, seen, action, learns, _, _ in done:
        policies[slot, episode].add("learner" if action - Recorder.LEARNS == seen else action)
        assert learns == (action - Recorder.LEARNS == seen)
    assert all(len(each) == 1 for each in policies.values()), "an episode was played by two policies"
    assert len(set.union(*policies.values())) > 4


@pytest.mark.parametrize("sizes", SHAPES)
@pytest.mark.parametrize("kind", ["together", "turns", "deaths"])
def test_in_a_game_one_team_learns_and_every_team_plays_one_policy(kind: str, sizes: tuple[int, ...]) -> None:
    world = World(kind, 4, sizes, seed=2)
    trainer = made(world)
    of_team = defaultdict(set)
    for slot, _, game, seen, action, _, _, _ in play(world, trainer, 500):
        played = "learner" if action - Recorder.LEARNS == seen else action
        of_team[world.env[slot], game, world.team[slot]].add(played)
    assert all(len(each) == 1 for each in of_team.values()), "a team played with two policies"
    learners = defaultdict(set)
    for (env, game, team), each in of_team.items():
        if "learner" in each:
            learners[env, game].add(team)
    assert all(len(each) == 1 for each in learners.values())
    games = {team: sum(team in each for each in learners.values()) for team in range(len(sizes))}
    assert min(games.values()) > 10, "a team has hardly learned"


@pytest.mark.parametrize(("per", "different"), [("run", 1), ("env", 5)])
def test_opponents_differ_between_environments_or_not(per: str, different: int) -> None:
    world = World("together", 40, (1, 1), seed=4)
    trainer = made(world, opponents_per=per, window=8, save_steps=40, swap_steps=400, team_change=10_000)
    play(world, trainer, 90)
    found = len(set(trainer.ghosts.assigned[1].tolist()))
    assert found == 1 if different == 1 else found >= different


def test_swaps_count_the_steps_of_ghosts_and_snapshots_those_of_the_trainer() -> None:
    world = World("together", 4, (1, 3), seed=5)  # one agent learns against three
    trainer = made(world, save_steps=100, swap_steps=120, team_change=10_000, play_against_latest_model_ratio=0.0)
    play(world, trainer, 90)  # 360 steps learned, 1,080 by ghosts
    assert trainer.trainer.steps == 360 and trainer.ghosts.ghost_steps == 1_080
    assert trainer.ghosts.swaps == 1 + 1_080 // 120
    assert [trainer.ghosts.pool.member(place).step for place in trainer.ghosts.pool.window] == [100, 200, 300]


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (lambda candidates, count: np.full(count, len(candidates.names)), "an index outside -1 to 0"),
        (lambda candidates, count: np.full(count, -2), "an index outside -1 to 0"),
        (lambda candidates, count: np.zeros(count), r"float64 of shape \(8,\), not 8 indices"),
        (lambda candidates, count: np.zeros(count + 1, np.int64), r"int64 of shape \(9,\), not 8 indices"),
    ],
)
def test_a_wrong_answer_of_a_sampler_of_opponents_is_refused(answer: Any, problem: str) -> None:
    world = World("together", 4, (1, 1), seed=5)
    sampler = SimpleNamespace(sample=lambda candidates, count, generator: answer(candidates, count))
    block = SelfPlaySettings(play_against_latest_model_ratio=0.0)
    trainer = ghost_trainers(world, block, {"Agent": [0, 1]}, sampler=sampler)["Agent"][1]
    with pytest.raises(PluginError, match=rf"self_play.opponents 'uniform': SimpleNamespace.sample returned {problem}"):
        trainer.begin(world.begin())


def test_snapshots_stay_while_anyone_plays_as_them_and_places_are_used_again() -> None:
    world = World("independent", 8, (1, 1), seed=6)
    trainer = made(world, save_steps=20, swap_steps=16, window=2)
    play(world, trainer, 800)
    for place in np.unique(np.concatenate([trainer.ghosts.assigned.ravel(), trainer.ghosts.place])):
        assert place == -1 or trainer.ghosts.pool.members[place] is not None
    assert len(trainer.ghosts.pool.members) <= 12, "places are not used again"


class Counting(Numbered):
    """Remembers how often it has acted in an episode, and chooses this number above 500,000."""

    memory_size = 1

    def act(
        self, observations: Any, action_mask: Any = None, deterministic: bool = True, memory: Any = None
    ) -> Actions:
        memory[:, 0] += 1
        return Actions(discrete=(500_000 + memory[:, :1]).astype(np.int64))


@pytest.mark.parametrize("kind", KINDS)
def test_ghosts_remember_an_episode_and_no_more(kind: str) -> None:
    world = World(kind, 20, (1, 1), seed=7)
    acted = Counter[tuple[int, int]]()
    ghosts = 0
    trainer = made(world, {"rock": Counting(0)}, play_against_latest_model_ratio=0.0, window=1, save_steps=10**6)
    for slot, episode, _, _, action, *_ in play(world, trainer, 90):
        acted[slot, episode] += 1
        if action > 500_000:
            assert action - 500_000 == acted[slot, episode]
            ghosts += 1
    assert ghosts > 50


def test_whoever_has_stopped_learning_plays_on_as_a_ghost() -> None:
    world = World("turns", 4, (1, 1), seed=8)
    trainer = made(world)
    play(world, trainer, 50)
    steps = trainer.steps
    trainer.stop_learning()
    trainer.stop_learning()
    played = play(world, trainer, 200)
    assert trainer.steps == steps and not any(learns for *_, learns, _, _ in played)
    assert len({action for *_, action, _, _, _ in played}) > 2
    assert trainer.controller.learning.current == -1


def test_what_is_due_where_the_trainer_learns_takes_the_policy_after_its_update() -> None:
    world = World("together", 4, (1, 1), seed=8)
    trainer = made(world, save_steps=40, team_change=40, swap_steps=10_000, play_against_latest_model_ratio=1.0)
    rows: Any = trainer.trainer
    rows.ready = lambda: rows.steps >= 40
    batch = world.begin()
    trainer.begin(batch)
    while not rows.ready():
        actions = trainer.act(batch)
        batch = world.step()
        trainer.observe(actions, batch)
    assert len(trainer.ghosts.pool.window) == 1 and trainer.controller.learning.changes == 0
    trainer.update()
    assert [trainer.ghosts.pool.member(place).version for place in trainer.ghosts.pool.window] == [0, 1]
    assert trainer.controller.learning.changes == 1
    assert {trainer.ghosts.pool.member(place).version for place in trainer.ghosts.assigned.ravel()} == {1}
    trainer.update()
    trainer.ghosts.swap()
    assert {trainer.ghosts.pool.member(place).version for place in trainer.ghosts.assigned.ravel()} == {2}
    trainer.ghosts.save()
    assert [each.name for each in trainer.snapshots] == ["Agent@0", "Agent@40", "Agent@40.2"]


@pytest.mark.parametrize(("sitting", "expected"), [([0, 3], [0, 3]), ([1, 2], [1]), ([3], [3]), ([2], None)])
def test_a_seat_gets_the_reward_and_the_final_mask_of_who_sat_there(sitting: list[int], expected: Any) -> None:
    """Two environments of two teams; agent k may choose option k alone where its episode ends."""
    env = np.array([0, 0, 1, 1])
    team = np.array([0, 1, 0, 1])
    seats = Seats(BehaviorSpec("Agent", (), discrete=(4,), env_index=env, team=team), for_all=False)
    over = np.array([True, True, False, True])
    masks = np.eye(4, dtype=np.bool_)
    batch = AgentBatch(
        {}, np.ones(4, np.float32), over, np.zeros(4, np.bool_), final_observations={}, final_action_mask=masks[over]
    )

    def found(before: Any) -> Any:
        rows = seats.batch(batch, before)
        assert rows.reward.tolist() == [env in [slot // 2 for slot in sitting] for env in (0, 1)]
        return None if rows.final_action_mask is None else rows.final_action_mask.argmax(axis=1).tolist()

    seats.sit(np.array(sitting))
    before = seats.copy()
    assert found(None) == found(before) == expected
    seats.leave(np.array(sitting))
    seats.sit(np.array([0, 2]))
    assert found(before) == expected
