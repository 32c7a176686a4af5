"""skrl, resumed with ``agent.load`` of the newest checkpoint and the steps that are left.

An agent writes ``checkpoints/agent_STEP.pt`` after every tenth of its trainer's timesteps, the default. A trainer
counts from 0, so each start gets an experiment directory that is named after the step it began at. A checkpoint has no
memory; a memory can export itself, but only when it is full. The lines that a user adds to resume end with a comment;
the checkpoints need none.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import torch
from measured import Instrument, command_line
from skrl import config
from skrl.agents.torch.ppo import PPO
from skrl.agents.torch.sac import SAC
from skrl.envs.wrappers.torch import wrap_env
from skrl.memories.torch import RandomMemory
from skrl.models.torch import CategoricalMixin, DeterministicMixin, GaussianMixin, Model
from skrl.resources.preprocessors.torch import RunningStandardScaler
from skrl.resources.schedulers.torch import KLAdaptiveLR
from skrl.trainers.torch import SequentialTrainer
from skrl.utils import set_seed
from torch import nn

ROLLOUT = 256


def network(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, outputs))


class Choice(CategoricalMixin, Model):
    def __init__(self, **spaces: Any) -> None:
        Model.__init__(self, **spaces)
        CategoricalMixin.__init__(self)
        self.net = network(self.num_observations, self.num_actions)

    def compute(self, inputs: dict[str, Any], role: str = "") -> Any:
        return self.net(inputs["observations"]), {}


class Gaussian(GaussianMixin, Model):
    def __init__(self, **spaces: Any) -> None:
        Model.__init__(self, **spaces)
        GaussianMixin.__init__(self, clip_actions=True)
        self.net = network(self.num_observations, self.num_actions)
        self.spread = nn.Parameter(torch.zeros(self.num_actions))

    def compute(self, inputs: dict[str, Any], role: str = "") -> Any:
        return 2 * torch.tanh(self.net(inputs["observations"])), {"log_std": self.spread}


class Value(DeterministicMixin, Model):
    def __init__(self, actions: bool = False, **spaces: Any) -> None:
        Model.__init__(self, **spaces)
        DeterministicMixin.__init__(self)
        self.net = network(self.num_observations + (self.num_actions if actions else 0), 1)
        self.actions = actions

    def compute(self, inputs: dict[str, Any], role: str = "") -> Any:
        seen = inputs["observations"]
        return self.net(torch.cat([seen, inputs["taken_actions"]], 1) if self.actions else seen), {}


def newest(place: Path) -> tuple[int, Path | None]:
    """The step of the newest checkpoint, and its file."""
    files = place.glob("*/checkpoints/agent_[0-9]*.pt")  # resume
    found = [(int(file.parts[-3]) + int(file.stem.split("_")[1]), file) for file in files]  # resume
    return max(found, default=(0, None))  # resume


def ppo(place: Path, steps: int, instrument: Instrument) -> None:
    """PPO on CartPole-v1 with the scaler and the schedule of skrl's examples."""
    env = wrap_env(gym.make("CartPole-v1"))
    spaces = {"observation_space": env.observation_space, "action_space": env.action_space, "device": env.device}
    models = {"policy": Choice(**spaces), "value": Value(**spaces)}
    began, checkpoint = newest(place)  # resume
    agent = PPO(
        models=models,
        memory=RandomMemory(memory_size=ROLLOUT, num_envs=1, device=env.device),
        **spaces,
        cfg={
            "rollouts": ROLLOUT,
            "mini_batches": 4,
            "learning_rate_scheduler": KLAdaptiveLR,
            "learning_rate_scheduler_kwargs": {"kl_threshold": 0.008},
            "observation_preprocessor": RunningStandardScaler,
            "observation_preprocessor_kwargs": {"size": env.observation_space, "device": env.device},
            "value_preprocessor": RunningStandardScaler,
            "value_preprocessor_kwargs": {"size": 1, "device": env.device},
            "experiment": {"directory": str(place), "experiment_name": str(began)},
        },
    )
    train(env, agent, began, checkpoint, steps, instrument)


def sac(place: Path, steps: int, instrument: Instrument) -> None:
    """SAC on Pendulum-v1 with the library's values."""
    env = wrap_env(gym.make("Pendulum-v1"))
    env.action_space.seed(config.torch.key)  # its first actions are drawn from the space, which set_seed does not seed
    spaces = {"observation_space": env.observation_space, "action_space": env.action_space, "device": env.device}
    models: dict[str, Any] = {"policy": Gaussian(**spaces)}
    for name in ("critic_1", "critic_2", "target_critic_1", "target_critic_2"):
        models[name] = Value(actions=True, **spaces)
    began, checkpoint = newest(place)  # resume
    agent = SAC(
        models=models,
        memory=RandomMemory(memory_size=20_000, num_envs=1, device=env.device),
        **spaces,
        cfg={
            "random_timesteps": 100,
            "learning_starts": 100,
            "observation_preprocessor": RunningStandardScaler,
            "observation_preprocessor_kwargs": {"size": env.observation_space, "device": env.device},
            "experiment": {"directory": str(place), "experiment_name": str(began)},
        },
    )
    train(env, agent, began, checkpoint, steps, instrument)


def train(env: Any, agent: Any, began: int, checkpoint: Path | None, steps: int, instrument: Instrument) -> None:
    left = steps - began  # resume
    trainer = SequentialTrainer(
        env=env,
        agents=agent,
        cfg={"timesteps": left, "headless": True, "disable_progressbar": True, "close_environment_at_exit": False},
    )
    if checkpoint:  # resume
        agent.load(str(checkpoint))  # resume
    instrument.began(began)
    trainer.train()
    modules = {name: module.state_dict() for name, module in agent.checkpoint_modules.items()}
    optimizers = {name: state for name, state in modules.items() if "optimizer" in name}
    groups = [state["param_groups"] for state in optimizers.values()]
    held = len(agent.memory)
    off_policy = isinstance(agent, SAC)
    temperature = {"log_entropy_coefficient": agent.log_entropy_coefficient} if off_policy else {}
    rows = {name: agent.memory.get_tensor_by_name(name)[:held] for name in agent.memory.get_tensor_names()}
    networks = {name: s for name, s in modules.items() if "optimizer" not in name and "preprocessor" not in name}
    instrument.end(
        weights={**networks, **temperature},
        optimizer={name: state["state"] for name, state in optimizers.items()},
        steps=left,
        updates=None,
        normalizer={name: state for name, state in modules.items() if "preprocessor" in name},
        replay=rows if off_policy else None,
        rate=[group["lr"] for found in groups for group in found],
    )


if __name__ == "__main__":
    task, place, steps, seed = command_line()
    set_seed(seed)
    {"ppo": ppo, "sac": sac}[task](place, steps, Instrument(place))
