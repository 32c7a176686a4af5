"""Presets of rlcore beside the tuned hyperparameters of RL Zoo, which Stable-Baselines3 trains with.

The Zoo's values are read from the installed package ``rl_zoo3``, whose own code also builds the training.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import attrs
from trainings import RlcoreTraining, Training, stable_baselines3_returns


@attrs.frozen(kw_only=True)
class PresetCase:
    """A task, the preset of rlcore for it, and the entry of RL Zoo's file for the same algorithm."""

    env_id: str
    algorithm: str
    preset: str
    steps: int
    zoo_entry: str | None = None  # of another version of the environment; without it, that of env_id

    def with_steps(self, steps: int) -> PresetCase:
        return attrs.evolve(self, steps=steps)


TASKS = {
    "preset-cartpole": PresetCase(env_id="CartPole-v1", algorithm="ppo", preset="ppo-discrete", steps=100_000),
    "preset-pendulum": PresetCase(env_id="Pendulum-v1", algorithm="sac", preset="sac", steps=8_000),
    "preset-lunarlander": PresetCase(env_id="LunarLander-v3", algorithm="ppo", preset="ppo-discrete", steps=300_000),
    "preset-halfcheetah-ppo": PresetCase(
        env_id="HalfCheetah-v5",
        algorithm="ppo",
        preset="ppo-mujoco",
        steps=100_000,
        zoo_entry="HalfCheetah-v4",
    ),
    "preset-halfcheetah-sac": PresetCase(
        env_id="HalfCheetah-v5", algorithm="sac", preset="sac", steps=50_000, zoo_entry="HalfCheetah-v4"
    ),
}


class ZooTraining:
    """A training as ``python -m rl_zoo3.train`` has it, without evaluations and checkpoints."""

    def __init__(self, case: PresetCase, seed: int) -> None:
        import rl_zoo3.import_envs  # registers environments
        import yaml
        from rl_zoo3.exp_manager import ExperimentManager

        values = None
        if case.zoo_entry is not None:
            file = Path(rl_zoo3.__file__).parent / "hyperparams" / f"{case.algorithm}.yml"
            values = yaml.safe_load(file.read_text())[case.zoo_entry]
        self._logs = TemporaryDirectory()
        self._seed = seed
        self._manager: Any = ExperimentManager(
            Namespace(),
            case.algorithm,
            case.env_id,
            self._logs.name,
            n_timesteps=case.steps,
            eval_freq=-1,
            hyperparams=values,
            seed=seed,
            log_interval=-2,
            verbose=0,
            device="cpu",
        )
        self._model, _ = self._manager.setup_experiment()

    def train(self) -> int:
        self._manager.learn(self._model)
        return int(self._model.num_timesteps)

    def evaluate(self, episodes: int) -> list[float]:
        self._manager.seed = self._seed + 10_000
        environment = self._manager.create_envs(min(episodes, 10), eval_env=True, no_log=True)
        normalizer = self._model.get_vec_normalize_env()
        if normalizer is not None:
            environment.obs_rms = normalizer.obs_rms
        return stable_baselines3_returns(self._model, environment, episodes)


def ready_training(task: str, library: str, case: Mapping[str, Any], seed: int) -> Training:
    """A training of ``library`` for one of TASKS, in a process that computes with one thread."""
    import torch

    torch.set_num_threads(1)
    stated = PresetCase(**case)
    if library.startswith("rlcore"):
        return RlcoreTraining(stated.env_id, None, {"max_steps": stated.steps}, seed, preset=stated.preset)
    return ZooTraining(stated, seed)
