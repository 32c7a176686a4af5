"""Tianshou, resumed as its tests do (``test/discrete/test_c51.py``, ``test/continuous/test_ppo.py``).

``save_checkpoint_fn`` saves ``algorithm.state_dict()`` after every epoch, SAC also pickles the replay buffer; a resume
loads them and trains with ``resume_from_log=True``. An epoch is a tenth of the training. The lines that a user adds to
save and to resume end with a comment.
"""

from __future__ import annotations

import pickle
import random
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from measured import Instrument, command_line
from tianshou.algorithm import PPO, SAC
from tianshou.algorithm.modelfree.reinforce import DiscreteActorPolicy
from tianshou.algorithm.modelfree.sac import AutoAlpha, SACPolicy
from tianshou.algorithm.optim import AdamOptimizerFactory, LRSchedulerFactoryLinear
from tianshou.data import Collector, CollectStats, VectorReplayBuffer
from tianshou.env import DummyVectorEnv
from tianshou.trainer import OffPolicyTrainerParams, OnPolicyTrainerParams
from tianshou.utils import TensorboardLogger
from tianshou.utils.net.common import Net
from tianshou.utils.net.continuous import ContinuousActorProbabilistic, ContinuousCritic
from tianshou.utils.net.discrete import DiscreteActor, DiscreteCritic
from tianshou.utils.space_info import SpaceInfo
from torch.utils.tensorboard import SummaryWriter

EPOCHS = 10
BUFFER_SIZE = 20_000


def ppo(place: Path, steps: int, seed: int, instrument: Instrument) -> None:
    """PPO on CartPole-v1 with the values of Tianshou's test, and its linear schedule."""
    envs = environments("CartPole-v1", seed)
    space = envs.get_env_attr("action_space")[0]
    info = SpaceInfo.from_env(gym.make("CartPole-v1"))
    net = Net(state_shape=info.observation_info.obs_shape, hidden_sizes=[64, 64])
    actor = DiscreteActor(preprocess_net=net, action_shape=info.action_info.action_shape)
    critic = DiscreteCritic(preprocess_net=net)
    epoch = steps // EPOCHS
    rate = LRSchedulerFactoryLinear(EPOCHS, epoch, epoch)
    policy = DiscreteActorPolicy(actor=actor, dist_fn=torch.distributions.Categorical, action_space=space)
    optimizer = AdamOptimizerFactory(lr=3e-4).with_lr_scheduler_factory(rate)
    algorithm = PPO(policy=policy, critic=critic, optim=optimizer, max_grad_norm=0.5, ent_coef=0.0)
    collector = Collector[CollectStats](algorithm, envs, VectorReplayBuffer(BUFFER_SIZE, 1))
    logger = TensorboardLogger(SummaryWriter(str(place)), save_interval=1)  # save
    checkpoint = place / "checkpoint.pth"

    def save(epoch: int, env_step: int, gradient_step: int) -> str:  # save
        torch.save(algorithm.state_dict(), checkpoint)  # save
        return str(checkpoint)  # save

    resume = checkpoint.exists()  # resume
    if resume:  # resume
        algorithm.load_state_dict(torch.load(checkpoint, weights_only=False))  # resume
    settings = OnPolicyTrainerParams(
        training_collector=collector,
        max_epochs=EPOCHS,
        epoch_num_steps=epoch,
        collection_step_num_env_steps=epoch,
        update_step_num_repetitions=10,
        batch_size=64,
        logger=logger,
        show_progress=False,
        save_checkpoint_fn=save,  # save
        resume_from_log=resume,  # resume
    )
    run(algorithm, settings, instrument, logger if resume else None)


def sac(place: Path, steps: int, seed: int, instrument: Instrument) -> None:
    """SAC on Pendulum-v1 with the values of Tianshou's test, one gradient step for each step of the environment."""
    envs = environments("Pendulum-v1", seed)
    space = envs.get_env_attr("action_space")[0]
    info = SpaceInfo.from_env(gym.make("Pendulum-v1"))
    shapes: dict[str, Any] = {"state_shape": info.observation_info.obs_shape, "hidden_sizes": [128, 128]}
    action = info.action_info.action_shape
    actor = ContinuousActorProbabilistic(preprocess_net=Net(**shapes), action_shape=action, unbounded=True)
    critics = [ContinuousCritic(preprocess_net=Net(**shapes, action_shape=action, concat=True)) for _ in range(2)]
    algorithm = SAC(
        policy=SACPolicy(actor=actor, action_space=space),
        policy_optim=AdamOptimizerFactory(lr=1e-3),
        critic=critics[0],
        critic_optim=AdamOptimizerFactory(lr=1e-3),
        critic2=critics[1],
        critic2_optim=AdamOptimizerFactory(lr=1e-3),
        alpha=AutoAlpha(-1.0, 0.0, AdamOptimizerFactory(lr=3e-4)),
    )
    collector = Collector[CollectStats](algorithm, envs, VectorReplayBuffer(BUFFER_SIZE, 1), exploration_noise=True)
    logger = TensorboardLogger(SummaryWriter(str(place)), save_interval=1)  # save
    checkpoint = place / "checkpoint.pth"
    buffer = place / "train_buffer.pkl"

    def save(epoch: int, env_step: int, gradient_step: int) -> str:  # save
        torch.save(algorithm.state_dict(), checkpoint)  # save
        with buffer.open("wb") as file:  # save
            pickle.dump(collector.buffer, file)  # save
        return str(checkpoint)  # save

    resume = checkpoint.exists()  # resume
    if resume:  # resume
        algorithm.load_state_dict(torch.load(checkpoint, weights_only=False))  # resume
        with buffer.open("rb") as file:  # resume
            collector.buffer = pickle.load(file)  # resume
    settings = OffPolicyTrainerParams(
        training_collector=collector,
        max_epochs=EPOCHS,
        epoch_num_steps=steps // EPOCHS,
        collection_step_num_env_steps=10,
        update_step_num_gradient_steps_per_sample=1.0,
        batch_size=128,
        logger=logger,
        show_progress=False,
        save_checkpoint_fn=save,  # save
        resume_from_log=resume,  # resume
    )
    run(algorithm, settings, instrument, logger if resume else None)


def environments(name: str, seed: int) -> DummyVectorEnv:
    """One environment; the seeds of everything are set as in Tianshou's tests."""
    envs = DummyVectorEnv([lambda: gym.make(name)])
    random.seed(seed)  # Tianshou draws nothing from it, but the contest compares its state
    np.random.seed(seed)  # noqa: NPY002 - as Tianshou's tests do
    torch.manual_seed(seed)
    envs.seed(seed)
    return envs


def run(algorithm: Any, settings: Any, instrument: Instrument, log: TensorboardLogger | None) -> None:
    instrument.began(log.restore_data()[1] if log else 0)
    trainer = algorithm.create_trainer(settings)
    trainer.run()
    state = algorithm.state_dict()
    optimizers = [optimizer["state"] for optimizer in state.pop(algorithm._STATE_DICT_KEY_OPTIMIZERS)]
    buffer = settings.training_collector.buffer
    rows = {name: buffer._meta[name] for name in ("obs", "act", "rew", "terminated", "truncated")}
    held = len(buffer)
    on_policy = isinstance(settings, OnPolicyTrainerParams)
    instrument.end(
        weights=state,
        optimizer=optimizers,
        steps=trainer._env_step,
        updates=trainer._current_update_step,
        replay=None if on_policy else {name: array[:held] for name, array in rows.items()},
        rate=[group["lr"] for each in algorithm._optimizers for group in each.state_dict()["param_groups"]],
    )


if __name__ == "__main__":
    task, place, steps, seed = command_line()
    {"ppo": ppo, "sac": sac}[task](place, steps, seed, Instrument(place))
