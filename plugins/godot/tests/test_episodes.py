"""Episodes of a game as its agents receive them, compared with what tests/support/godot_player.py says it plays."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from godot_worlds import begun, idle

from rlcore import Actions, Environment, EpisodeSeeds

LENGTHS = (3, 4, 5)  # decisions of an episode of each agent
Make = Callable[..., Environment]


def test_policies_are_behaviors_with_the_observations_and_actions_of_their_agents(make: Make) -> None:
    environment = make(num_envs=2)
    walker = environment.behaviors["walker"]
    flyer = environment.behaviors["flyer"]
    assert [(o.name, o.shape, o.dtype, o.kind) for o in walker.observations] == [
        ("obs", (3,), np.float32, "vector"),
        ("camera_2d", (2, 3, 3), np.uint8, "image"),
        ("lamp", (3,), np.float32, "one_hot"),
    ]
    assert (walker.continuous, walker.discrete) == (3, (3, 2))
    assert walker.low.tolist() == [-1] * 3 and walker.high.tolist() == [1] * 3
    assert walker.env_index.tolist() == [0, 0, 1, 1]
    assert (flyer.continuous, flyer.discrete, flyer.env_index.tolist()) == (0, (4,), [0, 1])


def test_the_only_policy_of_a_game_has_the_name_in_the_file(make: Make) -> None:
    """An old game describes all agents at once, and names no policies."""
    environment = make("--form=old", behaviors=("Bird",))
    assert list(environment.behaviors) == ["Bird"]
    assert environment.behaviors["Bird"].env_index.tolist() == [0, 0, 0]
    assert list(make("--form=old", behaviors=("Bird", "Fish")).behaviors) == ["shared_policy"]


def test_every_key_of_an_action_reaches_its_agent(make: Make) -> None:
    """The reward is the number of the decision, plus all numbers of the action."""
    environment = make(num_envs=2)
    begun(environment)
    actions = {
        "walker": Actions(
            np.array([[0.5, 0, 0], [0, 0.25, 0], [0, 0, 0.125], [-1, -0.5, 0]], np.float32),
            np.array([[0, 0], [1, 0], [2, 1], [0, 1]]),
        ),
        "flyer": Actions(None, np.array([[3], [1]])),
    }
    batches = environment.step(actions)
    assert batches["walker"].reward.tolist() == [1.5, 2.25, 4.125, 0.5]
    assert batches["flyer"].reward.tolist() == [4.0, 2.0]


def test_observations_are_those_of_each_agent_at_each_decision(make: Make) -> None:
    environment = make()
    batches = begun(environment)
    assert batches["walker"].observations["obs"].tolist() == [[0, 0, 0], [1, 0, 0]]
    batches = idle(environment, steps=2)
    walker = batches["walker"]
    assert walker.observations["obs"].tolist() == [[0, 0, 2], [1, 0, 2]]
    assert walker.observations["camera_2d"].tolist() == np.full((2, 2, 3, 3), 2).tolist()
    assert walker.observations["camera_2d"].dtype == np.uint8
    assert walker.observations["lamp"].tolist() == [[0, 0, 1]] * 2
    assert batches["flyer"].observations["obs"].tolist() == [[2, 0, 2]]


@pytest.mark.parametrize("num_envs", [1, 2])
def test_an_agent_ends_alone_with_its_final_observation_and_begins_its_next_episode(make: Make, num_envs: int) -> None:
    environment = make(num_envs=num_envs)
    begun(environment)
    step = [0, 0, 0]
    episode = [0, 0, 0]
    ends = 0
    for _ in range(20):
        batches = idle(environment)
        for agent, (name, row) in enumerate((("walker", 0), ("walker", 1), ("flyer", 0))):
            step[agent] += 1
            over = step[agent] == LENGTHS[agent]
            cut = episode[agent] % 2 == 1
            last = [agent, episode[agent], step[agent]]
            if over:
                episode[agent], step[agent] = episode[agent] + 1, 0
            batch = batches[name]
            slots = [env * (2 if name == "walker" else 1) + row for env in range(num_envs)]
            for slot in slots:
                assert (bool(batch.terminated[slot]), bool(batch.truncated[slot])) == (over and not cut, over and cut)
                assert batch.observations["obs"][slot].tolist() == [agent, episode[agent], step[agent]]
                if over:
                    ends += 1
                    assert batch.final_observations is not None and batch.final_info is not None
                    place = batch.ended.tolist().index(slot)
                    assert batch.final_observations["obs"][place].tolist() == last
                    assert batch.final_info["score"][place] == 10.0 * agent
                    if name == "walker":
                        assert (batch.final_observations["camera_2d"][place] == last[2]).all()
                        assert batch.final_observations["lamp"][place].argmax() == last[2] % 3
    assert ends == num_envs * (20 // 3 + 20 // 4 + 20 // 5)


@pytest.mark.parametrize("means", ["terminated", "truncated"])
def test_a_plain_end_counts_as_the_file_says_and_its_final_observation_is_the_last_one_before(
    make: Make, means: str
) -> None:
    environment = make("--ends=plain", done_means=means)
    begun(environment)
    batches = idle(environment, steps=3)
    walker = batches["walker"]
    flags = {"terminated": walker.terminated.tolist(), "truncated": walker.truncated.tolist()}
    assert flags.pop(means) == [True, False]
    assert list(flags.values()) == [[False, False]]
    assert walker.final_observations is not None
    assert walker.final_observations["obs"].tolist() == [[0, 0, 2]]
    assert walker.observations["obs"].tolist() == [[0, 1, 0], [1, 0, 3]]


def test_an_episode_that_is_cut_without_a_final_observation_says_so_once(
    make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    environment = make("--ends=cut")
    begun(environment)
    truncated = [bool(idle(environment)["walker"].truncated[0]) for _ in range(12)]
    assert [place for place, cut in enumerate(truncated, 1) if cut] == [6, 12]
    assert caplog.text.count("sends no terminal_observation") == 1


def test_a_reset_in_the_middle_begins_episodes_without_rewards_and_ends(make: Make) -> None:
    environment = make()
    begun(environment)
    idle(environment)
    batches = environment.reset(EpisodeSeeds(1), np.array([7]))
    assert environment.episodes.tolist() == [7]
    assert batches["walker"].observations["obs"].tolist() == [[0, 1, 0], [1, 1, 0]]
    assert not batches["walker"].ended.size and not batches["walker"].reward.any()


def test_a_repeatable_game_starts_again_at_a_reset_and_others_do_not(make: Make) -> None:
    """A game that starts again counts its episodes from 0."""
    repeatable = make(repeatable=True)
    begun(repeatable)
    idle(repeatable)
    assert begun(repeatable)["flyer"].observations["obs"].tolist() == [[2, 0, 0]]
    assert not repeatable.resume_limits
    assert make().resume_limits
