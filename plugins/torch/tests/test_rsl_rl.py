"""Environments in rsl_rl's form, with a toy that keeps its buffers and changes them in place, as Isaac Lab's do."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from rlcore import Environment, EpisodeSeeds, Run, SavesState
from rlcore_devkit import EnvironmentConformance
from rlcore_torch import TensorActions, UnsavedAsNumpy
from rlcore_torch.tensors.rsl_rl import RslRlTensors

LIMIT = 4


class Toy:
    """N carts on a line that two actions push, one of which is noise for the other.

    An episode terminates from place 3 on, and is cut off after four steps. ``final`` adds the observations before the
    reset; ``apart`` returns both flags, as Isaac Lab itself does.
    """

    def __init__(self, num_envs: int = 3, final: bool = False, apart: bool = False) -> None:
        self.num_envs, self.num_actions, self.device = num_envs, 2, "cpu"
        self.final, self.apart = final, apart
        self.place = torch.zeros(num_envs, 1)
        self.episode_length_buf = torch.zeros(num_envs, dtype=torch.long)
        self.generator = torch.Generator()
        self.closed = False

    def seed(self, seed: int = -1) -> int:
        self.generator.manual_seed(seed)
        return seed

    def reset(self) -> tuple[Mapping[str, Tensor], dict[str, Any]]:
        self._begin(torch.ones(self.num_envs, dtype=torch.bool))
        return self._observations(), {}

    def _begin(self, rows: Tensor) -> None:
        self.place[rows] = torch.rand(int(rows.sum()), 1, generator=self.generator)
        self.episode_length_buf[rows] = 0

    def _observations(self) -> Mapping[str, Tensor]:
        return {"policy": self.place, "critic": torch.cat([self.place, self.place**2], 1)}

    def step(self, actions: Tensor) -> tuple[Any, ...]:
        self.place += actions.sum(1, keepdim=True)
        actions.fill_(0)  # some environments scale their actions in place
        self.episode_length_buf += 1
        reward = self.place[:, 0].clone()
        terminated = self.place[:, 0] >= 3
        time_outs = self.episode_length_buf >= LIMIT
        extras: dict[str, Any] = {"log": {}}
        ended = terminated | time_outs
        if self.final and ended.any():
            extras["final_obs"] = {name: each.clone() for name, each in self._observations().items()}
        self._begin(ended)
        if self.apart:
            return self._observations(), reward, terminated, time_outs, extras
        extras["time_outs"] = time_outs & ~terminated
        return self._observations(), reward[:, None], ended.long(), extras

    def close(self) -> None:
        self.closed = True


class TestRslRl(EnvironmentConformance):
    one_generator = True

    def make(self, num_envs: int) -> Environment:
        return UnsavedAsNumpy(RslRlTensors(Toy(num_envs)))  # type: ignore[return-value]


def begun(**options: bool) -> tuple[RslRlTensors, Any]:
    environment = RslRlTensors(Toy(**options))
    batch = environment.reset(EpisodeSeeds(1), np.zeros(3, np.int64))["Agent"]
    return environment, batch.observations["policy"].clone()


def pushed(environment: RslRlTensors, by: list[float]) -> Any:
    actions = torch.tensor(by)[:, None].repeat(1, 2) / 2
    batch = environment.step({"Agent": TensorActions(continuous=actions)})["Agent"]
    assert actions.sum() == pytest.approx(sum(by)), (
        "an environment that changes its actions must not reach the trainer's"
    )
    return batch


@pytest.mark.parametrize("apart", [False, True])
def test_flags_are_exclusive_and_rows_that_ended_begin_again(apart: bool) -> None:
    environment, place = begun(final=True, apart=apart)
    for _ in range(LIMIT - 1):
        batch = pushed(environment, [0.0, -1.0, 0.0])
        assert not (batch.terminated | batch.truncated).any()
    batch = pushed(environment, [5.0, -1.0, 0.0])  # the first one terminates in the step of its time limit
    assert batch.terminated.tolist() == [True, False, False]
    assert batch.truncated.tolist() == [False, True, True]
    reached = place + torch.tensor([[5.0], [-4.0], [0.0]])
    torch.testing.assert_close(batch.final_observations["policy"], reached)
    torch.testing.assert_close(batch.final_observations["critic"], torch.cat([reached, reached**2], 1))
    torch.testing.assert_close(batch.reward, reached[:, 0])
    assert (batch.observations["policy"] >= 0).all() and (batch.observations["policy"] < 1).all()
    assert environment.episodes.tolist() == [1, 1, 1]


def test_without_final_observations_those_before_the_step_are_taken() -> None:
    environment, place = begun()
    for _ in range(LIMIT):
        batch = pushed(environment, [0.0, -1.0, 0.0])
    assert batch.truncated.all()
    torch.testing.assert_close(batch.final_observations["policy"], place + torch.tensor([[0.0], [-3.0], [0.0]]))


def test_a_batch_holds_until_the_next_step_ends() -> None:
    environment, place = begun()
    first = pushed(environment, [1.0, 0.0, 0.0])
    seen = first.observations["policy"]
    pushed(environment, [1.0, 1.0, 1.0])
    torch.testing.assert_close(seen, place + torch.tensor([[1.0], [0.0], [0.0]]))


def test_an_observation_may_be_a_tensor_alone() -> None:
    toy: Any = Toy()
    toy._observations = lambda: toy.place
    environment = RslRlTensors(toy)
    assert [(each.name, each.shape) for each in environment.behaviors["Agent"].observations] == [("observation", (1,))]


def test_an_object_of_another_form_is_refused() -> None:
    with pytest.raises(
        ValueError, match="dict has no num_envs, num_actions, device, reset, step; expected an environment"
    ):
        RslRlTensors({})


def test_without_seeds_a_resume_promises_less() -> None:
    toy: Any = Toy()
    toy.seed = None
    assert UnsavedAsNumpy(RslRlTensors(toy)).resume_limits == ("Toy takes no seed",)
    assert UnsavedAsNumpy(RslRlTensors(Toy())).resume_limits == ()


def test_ppo_learns_from_tensors_and_a_resumed_run_equals_the_whole_one(tmp_path: Path) -> None:
    def trained(directory: Path, **start: Any) -> list[bytes]:
        environment = RslRlTensors(Toy(16, final=True), "Cart")
        assert not isinstance(UnsavedAsNumpy(environment), SavesState)
        config = {
            "preset": "none",
            "environment": {"num_envs": 16},
            "behaviors": {
                "Cart": {
                    "trainer_type": "ppo",
                    "hyperparameters": {"batch_size": 128, "buffer_size": 512, "learning_rate": 0.003},
                    "network_settings": {"hidden_units": 16, "num_layers": 1, "critic_observations": ["critic"]},
                    "max_steps": 4096, "summary_freq": 1024, "checkpoint_interval": 1024, "keep_checkpoints": 9,
                }
            },
            "checkpoint_settings": {"run_id": "run", "results_dir": str(directory), **start},
            "env_settings": {"seed": 1},
            "stats": {"console": False, "tensorboard": False},
        }  # fmt: skip
        with Run(config, environment=environment) as run:
            run.train()
        last = max((directory / "run/checkpoints").glob("[0-9]*"), key=lambda path: int(path.name))
        return [path.read_bytes() for path in sorted(last.glob("*.safetensors"))]

    whole = trained(tmp_path / "whole")
    shutil.copytree(tmp_path / "whole", tmp_path / "parts")
    assert trained(tmp_path / "parts", resume=True, checkpoint="2048") == whole != []
    lines = [json.loads(line) for line in (tmp_path / "whole/run/metrics.jsonl").read_text().splitlines()]
    rewards = [line["stats"]["Environment/Cumulative Reward"] for line in lines]
    assert rewards[-1] > rewards[0] + 1
