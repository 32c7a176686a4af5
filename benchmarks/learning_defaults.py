"""The values by default of rlcore beside those of Stable-Baselines3, as a newcomer meets them.

rlcore gets the id of the environment, the trainer and the steps, and nothing else: the presets alone choose, as in a
file with these keys. Stable-Baselines3 gets ``PPO("MlpPolicy", ID)``. The tasks whose names begin with ``zoo`` get the
zoo's file for the id, as ``rlcore run --env ID`` does where rlcore-zoo is installed.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import attrs
from trainings import RlcoreTraining, Training, stable_baselines3_returns


@attrs.frozen(kw_only=True)
class DefaultCase:
    """A task, the trainer, and the mean return that rlcore is to reach with nothing else said."""

    env_id: str
    steps: int
    target: float
    trainer: str = "ppo"
    policy: str = "MlpPolicy"  # of Stable-Baselines3
    zoo: bool = False  # whether rlcore begins with the zoo's file

    def with_steps(self, steps: int) -> DefaultCase:
        return attrs.evolve(self, steps=steps)


POLE_STEPS = 30_000
TASKS = {
    "default-cartpole": DefaultCase(env_id="CartPole-v1", steps=100_000, target=500),
    "default-acrobot": DefaultCase(env_id="Acrobot-v1", steps=100_000, target=-95),
    "default-pendulum": DefaultCase(env_id="Pendulum-v1", steps=100_000, target=-200),
    "default-pendulum-sac": DefaultCase(env_id="Pendulum-v1", steps=10_000, target=-160, trainer="sac"),
    "default-lunarlander": DefaultCase(env_id="LunarLander-v3", steps=300_000, target=180),
    "default-halfcheetah": DefaultCase(env_id="HalfCheetah-v5", steps=100_000, target=2_500),
    # Its observations are a picture of 7 x 7, a direction and a text, which Stable-Baselines3 refuses as they are.
    "default-minigrid": DefaultCase(
        env_id="minigrid:MiniGrid-Empty-5x5-v0", steps=100_000, target=0.95, policy="FlatImage"
    ),
    "default-cartpole-dqn": DefaultCase(env_id="CartPole-v1", steps=50_000, target=475, trainer="dqn"),
    "default-pole-sac": DefaultCase(env_id="InvertedPendulum-v5", steps=POLE_STEPS, target=900, trainer="sac"),
    "default-pole-td3": DefaultCase(env_id="InvertedPendulum-v5", steps=POLE_STEPS, target=900, trainer="td3"),
    # No preset drives the car out of its valley: the first push must be strong.
    "zoo-mountaincar": DefaultCase(env_id="MountainCarContinuous-v0", steps=100_000, target=90, zoo=True),
}


class ZooTraining:
    """A training with a file of the zoo."""

    def __init__(self, case: DefaultCase, seed: int) -> None:
        from rlcore import Run, read_document

        data = read_document(Path(f"zoo:{case.trainer}/{case.env_id}")).data
        self._results = TemporaryDirectory()
        self.run = Run(
            {
                **data,
                "default_settings": {**data["default_settings"], "max_steps": case.steps},
                "env_settings": {"seed": seed},
                "checkpoint_settings": {"run_id": "benchmark", "results_dir": self._results.name},
            }
        )
        self.run.start()

    def train(self) -> int:
        self.run.train()
        return self.run.steps

    def evaluate(self, episodes: int) -> list[float]:
        [behavior] = self.run.evaluate(episodes).behaviors.values()
        return list(behavior.returns)


class PeerTraining:
    """A training of Stable-Baselines3 with the defaults of its classes."""

    def __init__(self, case: DefaultCase, seed: int) -> None:
        import stable_baselines3

        algorithm = getattr(stable_baselines3, case.trainer.upper())
        environment: Any = case.env_id
        if case.policy == "FlatImage":
            environment = flat_image(case.env_id)
        self._case = case
        self._model = algorithm("MlpPolicy", environment, seed=seed, device="cpu", verbose=0)

    def train(self) -> int:
        self._model.learn(self._case.steps)
        return int(self._model.num_timesteps)

    def evaluate(self, episodes: int) -> list[float]:
        return stable_baselines3_returns(self._model, self._model.get_env(), episodes)


def flat_image(env_id: str) -> Any:
    """A world of MiniGrid whose observation is the picture as a vector, as MiniGrid's own documentation trains it."""
    import gymnasium
    from minigrid.wrappers import ImgObsWrapper

    return gymnasium.wrappers.FlattenObservation(ImgObsWrapper(gymnasium.make(env_id)))


def ready_training(task: str, library: str, case: Mapping[str, Any], seed: int) -> Training:
    """A training of ``library`` for one of TASKS, in a process that computes with one thread."""
    import torch

    torch.set_num_threads(1)
    stated = DefaultCase(**case)
    if library.startswith("rlcore"):
        if stated.zoo:
            return ZooTraining(stated, seed)
        behavior = {"trainer_type": stated.trainer, "max_steps": stated.steps}
        return RlcoreTraining(stated.env_id, None, behavior, seed, preset="auto")
    return PeerTraining(stated, seed)
