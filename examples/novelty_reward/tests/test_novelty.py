"""The rules of rewards, the numbers of the paper, exact resumes, and a task that only RND solves."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest
import torch
import yaml
from acme_novelty.reward import NoveltyReward
from numpy.typing import NDArray

from rlcore import Actions, RewardProvider, Run, Transitions, load_checkpoint, read_run
from rlcore_devkit import PluginConformance, RewardProviderConformance

EXAMPLE = Path(__file__).parents[1]
FILES = {"ppo": "deep_sea.yaml", "sac": "deep_sea_sac.yaml"}


class TestPlugin(PluginConformance):
    plugin = "acme-novelty/acme-novelty"


class TestNovelty(RewardProviderConformance):
    reward = "acme-novelty/novelty"
    settings = {"network_settings": {"hidden_units": 16}, "batch_size": 4}

    def test_gamma_of_one_is_refused_because_novelty_has_no_end(self) -> None:
        with pytest.raises(Exception, match=r"gamma.*0\.9999"):
            self.make(gamma=1.0)

    def test_its_value_ends_with_the_episode_if_the_settings_say_so(self) -> None:
        assert self.provider().ignore_done
        assert not self.provider(episodic=True).ignore_done

    def test_before_the_first_update_nothing_is_rewarded_and_then_errors_are_in_units_of_the_returns(self) -> None:
        reward = self.provider()
        first = self.transitions(1)
        second = self.transitions(2)
        with torch.no_grad():
            assert not reward.evaluate(first).any()
        sums = np.zeros(self.slots)
        returns = []
        for given in (first, second):
            predicted = copy.deepcopy(reward)  # the errors of the update are measured before the predictor moves
            predicted.networks.normalizer.update(rows_of(given))
            for row in errors(predicted, given):
                sums = 0.9 * sums + row
                returns.append(sums)
            reward.update(given)
        expected = errors(reward, second) / np.std(returns)
        with torch.no_grad():
            np.testing.assert_allclose(reward.evaluate(second), expected, rtol=1e-4)

    def test_a_minibatch_is_scaled_by_what_was_collected(self) -> None:
        reward = self.provider()
        collected = self.transitions(1)
        drawn = flat(self.transitions(2))
        predicted = copy.deepcopy(reward)
        predicted.networks.normalizer.update(rows_of(collected))
        sums = np.zeros(self.slots)
        returns = []
        for row in errors(predicted, collected):
            sums = 0.9 * sums + row
            returns.append(sums)
        drawn.collecting = lambda: collected
        reward.update(drawn)
        with torch.no_grad():
            np.testing.assert_allclose(reward.evaluate(drawn), errors(reward, drawn) / np.std(returns), rtol=1e-4)

    def test_the_reward_falls_where_the_agents_were_and_not_elsewhere(self) -> None:
        reward = self.provider(learning_rate=1e-3)
        width = sum(each.size for each in self.behavior().observations)
        random = np.random.default_rng(1)
        visited = self.at(random.integers(width // 2, size=(self.rows, self.slots)))
        new = self.at(random.integers(width // 2, width, size=(self.rows, self.slots)))
        rewards = []
        for _ in range(300):
            reward.update(visited)
            with torch.no_grad():
                rewards.append([reward.evaluate(each).mean() for each in (visited, new)])
        assert rewards[-1][0] < 0.02 * rewards[0][0]
        assert rewards[-1][1] > 0.5 * rewards[0][1]

    def at(self, cells: NDArray[np.int64]) -> Transitions:
        """Return transitions that lead to ``cells`` [rows, slots]: the next observation has a 1 in one place."""
        observations = self.behavior().observations
        places = np.split(
            np.eye(sum(o.size for o in observations))[cells], np.cumsum([o.size for o in observations]), -1
        )
        following = {
            o.name: place.reshape(*cells.shape, *o.shape).astype(o.dtype)
            for o, place in zip(observations, places, strict=False)
        }
        return attrs.evolve(self.transitions(1), following=lambda: following)

    def test_the_target_stays_and_depends_on_the_seed_alone(self) -> None:
        torch.manual_seed(1)
        reward = self.provider()
        torch.manual_seed(2)
        other = self.provider()
        for _ in range(3):
            reward.update(self.transitions(1))
        for name, value in other.networks.target.state_dict().items():
            torch.testing.assert_close(reward.networks.target.state_dict()[name], value, rtol=0, atol=0)

    def provider(self, **settings: Any) -> NoveltyReward:
        made: RewardProvider = self.make(gamma=0.9, **settings)
        assert isinstance(made, NoveltyReward)
        return made


def rows_of(given: Transitions) -> torch.Tensor:
    rows = [array.reshape(given.reward.size, -1) for array in given.next_observations.values()]
    return torch.from_numpy(np.concatenate(rows, axis=1).astype(np.float32))


def errors(reward: NoveltyReward, given: Transitions) -> NDArray[np.float64]:
    """Mean squared errors of the predictor, computed with numpy: the shape of the rewards."""
    rows = rows_of(given).numpy().astype(np.float64)
    normalizer = reward.networks.normalizer
    count = float(normalizer.count)
    mean = normalizer.mean.numpy()
    inputs = np.clip((rows - mean) / np.sqrt(normalizer.m2.numpy() / count + 1e-8), -5, 5)
    outputs = []
    for network in (reward.networks.predictor, reward.networks.target):
        x = inputs
        layers = [each for each in network if isinstance(each, torch.nn.Linear)]
        for layer in layers:
            x = x @ layer.weight.detach().numpy().T + layer.bias.detach().numpy()
            x = x if layer is layers[-1] else np.maximum(x, 0)
        outputs.append(x)
    found: NDArray[np.float64] = ((outputs[0] - outputs[1]) ** 2).mean(1).reshape(given.reward.shape)
    return found


def flat(given: Transitions) -> Transitions:
    """Return the transitions in one row, as a replay buffer gives them."""
    size = given.reward.size

    def joined(array: NDArray[Any]) -> NDArray[Any]:
        return array.reshape(size, *array.shape[2:])

    following = {name: joined(array) for name, array in given.next_observations.items()}
    return attrs.evolve(
        given,
        observations={name: joined(array) for name, array in given.observations.items()},
        actions=Actions(None, None),
        reward=joined(given.reward),
        terminated=joined(given.terminated),
        truncated=joined(given.truncated),
        following=lambda: following,
    )


# ---------------------------------------------------------------- whole runs


def deep_sea(directory: Path, trainer: str, run_id: str, seed: int, **block: Any) -> dict[str, Any]:
    """The configuration of the README, with other keys of its behavior."""
    config: dict[str, Any] = yaml.safe_load((EXAMPLE / FILES[trainer]).read_text(encoding="utf-8"))
    config["env_settings"] = {"seed": seed}
    config["checkpoint_settings"] = {"run_id": run_id, "results_dir": str(directory)}
    config["stats"] = {"console": False}
    config["behaviors"]["Diver"].update(block)
    if trainer == "sac":
        config["behaviors"]["Diver"]["hyperparameters"]["save_replay_buffer"] = True
    return config


@pytest.mark.parametrize("seed", [21, 22, 23, 24])
def test_deep_sea_is_solved_by_ppo_with_novelty_and_not_without(tmp_path: Path, seed: int) -> None:
    """No setting was chosen on these seeds. About 13 seconds each."""
    config = deep_sea(tmp_path, "ppo", "novelty", seed)
    assert score(config) > 0.9
    config["checkpoint_settings"]["run_id"] = "extrinsic"
    del config["behaviors"]["Diver"]["reward_signals"]["novelty"]
    assert score(config) < 0.1


@pytest.mark.parametrize("seed", [21, 22, 23, 24])
def test_deep_sea_is_solved_by_sac_with_novelty(tmp_path: Path, seed: int) -> None:
    """No setting was chosen on these seeds. About 18 seconds each. SAC alone solves the lucky ones of them."""
    assert score(deep_sea(tmp_path, "sac", "novelty", seed)) > 0.9


def score(config: dict[str, Any]) -> float:
    with Run(config) as run:
        run.train()
        return run.evaluate(episodes=20).score


@pytest.mark.parametrize("trainer", FILES)
def test_a_stopped_and_resumed_run_equals_one_that_was_never_stopped(tmp_path: Path, trainer: str) -> None:
    often = {"checkpoint_interval": 1024, "summary_freq": 1024}
    Run(deep_sea(tmp_path, trainer, "whole", 1, max_steps=2048, **often)).train()
    Run(deep_sea(tmp_path, trainer, "stopped", 1, max_steps=1024, **often)).train()
    stopped = deep_sea(tmp_path, trainer, "stopped", 1, max_steps=2048, **often)
    stopped["checkpoint_settings"]["resume"] = True
    Run(stopped).train()
    whole, resumed = (load_checkpoint(tmp_path / name / "checkpoints/2048") for name in ("whole", "stopped"))
    ours = leaves(find(resumed, "providers")["novelty"])
    theirs = leaves(find(whole, "providers")["novelty"])
    assert ours.keys() == theirs.keys() and len(ours) > 20
    assert float(ours["/optimizer/step"]) >= 8
    for name, value in theirs.items():
        np.testing.assert_array_equal(ours[name], value, err_msg=name)
    tags = read_run(tmp_path / "stopped").metrics[-1].stats
    assert {"Policy/Novelty Reward", "Losses/Novelty Loss"} <= set(tags)


def find(tree: Any, name: str) -> Any:
    """Return the first mapping ``name`` anywhere in ``tree``."""
    if name in tree:
        return tree[name]
    below = (find(value, name) for value in tree.values() if isinstance(value, dict))
    return next((found for found in below if found is not None), None)


def leaves(tree: Any, path: str = "") -> dict[str, Any]:
    if not isinstance(tree, dict):
        return {path: tree}
    return {key: value for name, below in tree.items() for key, value in leaves(below, f"{path}/{name}").items()}
