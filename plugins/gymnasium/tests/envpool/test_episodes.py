"""Each environment plays what EnvPool plays in a pool of one environment, with the ends of episodes in their place."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from one_behavior import act, begin

from rlcore import Actions, EpisodeSeeds

envpool = pytest.importorskip("envpool", reason="EnvPool has no wheel for this platform")

SEEDS = EpisodeSeeds(7)
NUM_ENVS = 3


def of_envpool(env_id: str, seed: int, actions: np.ndarray, **options: Any) -> list[tuple[Any, ...]]:
    """Play ``actions`` [T] in a pool of one environment, as EnvPool does it: one more step after each episode."""
    pool = envpool.make_gymnasium(env_id, num_envs=1, env_seed=[seed], **options)
    before = pool.reset()[0][0].copy()
    steps = []
    for action in actions:
        after, reward, terminated, truncated, _ = pool.step(action[None])
        final = None
        after = after[0].copy()
        if terminated[0] or truncated[0]:
            final = after
            after = pool.step(action[None])[0][0].copy()
        steps.append((before, reward[0], terminated[0], truncated[0], final))
        before = after
    return steps


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    ("env_id", "options", "ends"),
    [
        ("CartPole-v1", {"max_episode_steps": 25}, {"terminated", "truncated"}),
        ("LunarLander-v3", {"max_episode_steps": 75}, {"terminated", "truncated"}),
        ("HalfCheetah-v5", {"max_episode_steps": 20}, {"truncated"}),
    ],
)
def test_batches_are_the_steps_of_single_environments(make, env_id, options, ends, threads) -> None:
    environment = make(env_id, NUM_ENVS, num_threads=threads, **options)
    spec = environment.behaviors["Agent"]
    rng = np.random.default_rng(0)
    if spec.discrete:
        script = rng.integers(0, spec.discrete[0], (240, NUM_ENVS))
    else:
        script = rng.uniform(-1, 1, (240, NUM_ENVS, spec.continuous)).astype(np.float32)
    episodes = np.array([0, 4, 9])
    batch = begin(environment, SEEDS, episodes)
    seen: list[list[tuple[Any, ...]]] = [[] for _ in range(NUM_ENVS)]
    for actions in script:
        before = batch.observations["observation"].copy()
        chosen = Actions(discrete=actions[:, None]) if spec.discrete else Actions(continuous=actions)
        batch = environment.step({"Agent": chosen})["Agent"]
        finals = dict(zip(batch.ended.tolist(), (batch.final_observations or {}).get("observation", ()), strict=True))
        for env in range(NUM_ENVS):
            seen[env].append(
                (before[env], batch.reward[env], batch.terminated[env], batch.truncated[env], finals.get(env))
            )
    found: Counter[str] = Counter()
    for env in range(NUM_ENVS):
        theirs = of_envpool(env_id, SEEDS(env, int(episodes[env])), script[:, env], **options)
        for (before, *rest, final), (plain, *plain_rest, plain_final) in zip(seen[env], theirs, strict=True):
            np.testing.assert_array_equal(before, plain.astype(np.float32))
            assert rest == plain_rest
            assert (final is None) == (plain_final is None)
            if final is not None:
                np.testing.assert_array_equal(final, plain_final.astype(np.float32))
                found["terminated" if rest[1] else "truncated"] += 1
        assert environment.episodes[env] == episodes[env] + sum(final is not None for *_, final in theirs)
    assert set(found) == ends


def test_an_episode_depends_on_its_environment_alone(make) -> None:
    """The third environment plays the same beside two others, and alone as the third of a run."""
    together = make("CartPole-v1", 3)
    alone = make("CartPole-v1", 1)
    first = begin(together, SEEDS, [5, 6, 7]).observations["observation"]
    other = begin(alone, EpisodeSeeds(7, first_env=2), [7]).observations["observation"]
    assert len({row.tobytes() for row in first}) == 3
    ends = 0
    for _ in range(100):
        np.testing.assert_array_equal(first[2], other[0])
        ours = act(together, 1)
        theirs = act(alone, 1)
        first = ours.observations["observation"]
        other = theirs.observations["observation"]
        ends += len(theirs.ended)
    assert ends >= 5


def test_other_episode_numbers_have_other_episodes(make) -> None:
    environment = make("CartPole-v1", 1)
    starts = [begin(environment, SEEDS, [n]).observations["observation"].copy() for n in (0, 1, 0)]
    assert (starts[0] != starts[1]).any()
    np.testing.assert_array_equal(starts[0], starts[2])


def test_a_masked_choice_is_one_that_the_game_allows(make) -> None:
    """In 2048 a move is allowed if it changes the board. The board tells that, without the game's own mask."""

    def changes(board: np.ndarray, move: int) -> bool:
        turned = np.rot90(board, {0: 1, 1: 2, 2: 3, 3: 0}[move])  # up, right, down, left: as a move to the left
        for row in turned:
            tiles = row[row > 0]
            if (row[: len(tiles)] != tiles).any() or (tiles[1:] == tiles[:-1]).any():
                return True
        return False

    environment = make("Game2048-v1", 2)
    assert [each.name for each in environment.behaviors["Agent"].observations] == ["board"]
    batch = begin(environment, SEEDS)
    rng = np.random.default_rng(0)
    forbidden = 0
    finals = 0
    for _ in range(400):
        for board, mask in zip(batch.observations["board"], batch.action_mask, strict=True):
            assert [changes(board, move) for move in range(4)] == mask.tolist()
            forbidden += int((~mask).sum())
        move = np.array([[rng.choice(np.flatnonzero(mask))] for mask in batch.action_mask])
        batch = act(environment, move)
        for board in (batch.final_observations or {}).get("board", ()):
            assert not any(changes(board, move) for move in range(4))
            finals += 1
        if batch.ended.size:  # nothing is allowed at the end of a game; rlcore wants some option in every mask
            assert batch.final_action_mask.all()
    assert forbidden > 20 and finals >= 2
