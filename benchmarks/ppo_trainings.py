"""One PPO training, stated once and given to each library in its own words.

All use two tanh layers of 64 units for the policy and two for the value (for images, one convolutional network for
both), Gaussian or categorical actions with a state-independent deviation, Adam with epsilon 1e-5, and advantages
standardized per minibatch.
Libraries are imported by the class that needs them, so a process loads only the one it measures.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
from trainings import (
    RlcoreTraining,
    Training,
    rlcore_world,
    stable_baselines3_environment,
    stable_baselines3_returns,
)

WIDTH = 64


@attrs.frozen(kw_only=True)
class PPOCase:
    """The task of a training, and PPO's hyperparameters."""

    env_id: str
    options: Mapping[str, Any] = attrs.field(factory=dict)  # arguments of the environment
    wrappers: Sequence[Mapping[str, Any]] = ()  # Gymnasium's: a name, and its arguments beside it
    num_envs: int
    rollout_rows: int  # environment steps in one rollout
    batch_size: int
    num_epoch: int
    steps: int  # agent steps to learn from: whole rollouts
    lstm_units: int = 0  # of an LSTM in the policy and one in the value, in the place of one layer; 0 for none
    images: bool = False  # the network of Mnih et al. 2015 (doi:10.1038/nature14236), for policy and value together
    normalize: bool = False  # observations by their running mean and deviation
    normalize_clip: float = 5.0  # largest absolute value of a normalized observation
    normalize_rewards: bool = False  # by the running deviation of the discounted return, clipped at 10
    clip_rewards: float | None = None
    deterministic: bool = True  # in the episodes that are played after training
    initial_log_std: float = 0.0  # of continuous actions, in the environment's units
    entropy_coefficient: float = 0.0
    learning_rate: float = 3e-4
    falling_rate: bool = False  # linearly, to 0 at the last step; else the rate is constant
    target_kl: float | None = None  # an update ends at 1.5 times this KL divergence
    gamma: float = 0.99
    lambd: float = 0.95
    epsilon: float = 0.2
    value_coefficient: float = 0.5
    max_grad_norm: float = 0.5
    adam_epsilon: float = 1e-5

    @property
    def rollout(self) -> int:
        """Agent steps in one rollout."""
        return self.num_envs * self.rollout_rows

    def learning_flops(self, observations: int, outputs: int) -> int:
        """FLOPs of all gradient steps: of products alone, forward and backward, for the policy and the value."""
        between = 4 * self.lstm_units * (WIDTH + self.lstm_units) if self.lstm_units else WIDTH * WIDTH
        last = self.lstm_units or WIDTH
        weights = sum(WIDTH * observations + between + last * width for width in (outputs, 1))
        inputs = 2 * observations * WIDTH  # a gradient by the observations is not needed
        return 2 * self.steps * self.num_epoch * (3 * weights - inputs)

    def with_steps(self, steps: float) -> PPOCase:
        """The case with ``steps`` agent steps, rounded to whole rollouts, at least one."""
        return attrs.evolve(self, steps=max(1, round(steps / self.rollout)) * self.rollout)


def rlcore_training(case: PPOCase, seed: int, memory_type: str = "lstm", **blocks: Mapping[str, Any]) -> Training:
    """``blocks`` are further ones of the configuration."""
    network: dict[str, Any] = {
        "hidden_units": WIDTH,
        "num_layers": 1 if case.lstm_units else 2,
        "activation": "tanh",
        "init": "orthogonal",
        "normalize": case.normalize,
        "normalize_clip": case.normalize_clip,
        "memory": None,
    }
    if case.lstm_units:
        size = case.lstm_units * (2 if memory_type == "lstm" else 1)  # an LSTM remembers a cell too
        network["memory"] = {"type": memory_type, "memory_size": size, "sequence_length": 64}
    if case.images:
        network |= {"vis_encode_type": "nature_cnn", "hidden_units": 512, "num_layers": 0, "activation": "relu"}
    behavior = {
        "trainer_type": "ppo",
        "hyperparameters": {
            "batch_size": case.batch_size,
            "buffer_size": case.rollout,
            "num_epoch": case.num_epoch,
            "learning_rate": case.learning_rate,
            "learning_rate_schedule": "linear" if case.falling_rate else "constant",
            "epsilon_schedule": "constant",  # by default, it falls with the learning rate
            "target_kl": case.target_kl,
            "epsilon": case.epsilon,
            "lambd": case.lambd,
            "beta": case.entropy_coefficient,
            "value_coefficient": case.value_coefficient,
            "max_grad_norm": case.max_grad_norm,
            "adam_epsilon": case.adam_epsilon,
            "initial_log_std": case.initial_log_std,
            "advantage_normalization": "minibatch",
            "shared_critic": case.images,
            **({"normalize_rewards": True} if case.normalize_rewards else {}),
            **({} if case.clip_rewards is None else {"clip_rewards": case.clip_rewards}),
        },
        "network_settings": network,
        "reward_signals": {"extrinsic": {"gamma": case.gamma}},
        "time_horizon": case.rollout_rows,
        "max_steps": case.steps,
        "checkpoint_interval": case.steps,  # the last one alone: by default ten, in the few seconds that this takes
    }
    world = rlcore_world(case.options, case.wrappers)
    return RlcoreTraining(case.env_id, case.num_envs, behavior, seed, world, case.deterministic, **blocks)


class StableBaselines3Training:
    """Stable-Baselines3 as its documentation advises on a CPU: environments in the process, no logging.

    ``processes``: each environment is in a process of its own.
    """

    def __init__(self, case: PPOCase, seed: int, processes: bool = False) -> None:
        from stable_baselines3 import PPO
        from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv
        from torch import nn

        self.case, self.seed = case, seed
        self.environment = self._environment(case.num_envs, seed, SubprocVecEnv if processes else DummyVecEnv)
        network: dict[str, Any] = {"activation_fn": nn.Tanh, "net_arch": {"pi": [WIDTH, WIDTH], "vf": [WIDTH, WIDTH]}}
        self.model = PPO(
            "CnnPolicy" if case.images else "MlpPolicy",
            self.environment,
            n_steps=case.rollout_rows,
            batch_size=case.batch_size,
            n_epochs=case.num_epoch,
            learning_rate=(lambda left: left * case.learning_rate) if case.falling_rate else case.learning_rate,
            target_kl=case.target_kl,
            gamma=case.gamma,
            gae_lambda=case.lambd,
            clip_range=case.epsilon,
            ent_coef=case.entropy_coefficient,
            vf_coef=case.value_coefficient,
            max_grad_norm=case.max_grad_norm,
            policy_kwargs={
                **({} if case.images else network),
                "ortho_init": True,
                "log_std_init": case.initial_log_std,
                "optimizer_kwargs": {"eps": case.adam_epsilon},
            },
            seed=seed,
            device="cpu",
            verbose=0,
        )
        if case.images:
            as_in_rlcore(self.model.policy.features_extractor)

    def train(self) -> int:
        self.model.learn(total_timesteps=self.case.steps)
        return int(self.model.num_timesteps)

    def evaluate(self, episodes: int) -> list[float]:
        from stable_baselines3.common.vec_env import DummyVecEnv

        environment = self._environment(min(episodes, 10), self.seed + 10_000, DummyVecEnv)
        if self._normalizes:  # as in training, with the statistics held fixed
            environment.training = environment.norm_reward = False
            environment.obs_rms = self.environment.obs_rms
        return stable_baselines3_returns(self.model, environment, episodes, self.case.deterministic)

    @property
    def _normalizes(self) -> bool:
        return self.case.normalize or self.case.normalize_rewards

    def _environment(self, num_envs: int, seed: int, kind: type) -> Any:
        case = self.case
        wrappers = list(case.wrappers)
        if case.clip_rewards is not None:
            wrappers.append({"name": "ClipReward", "min_reward": -case.clip_rewards, "max_reward": case.clip_rewards})
        environment = stable_baselines3_environment(
            case.env_id, num_envs, seed, case.options, wrappers, vec_env_cls=kind
        )
        if not self._normalizes:
            return environment
        from stable_baselines3.common.vec_env import VecNormalize

        return VecNormalize(
            environment,
            norm_obs=case.normalize,
            norm_reward=case.normalize_rewards,
            clip_obs=case.normalize_clip,
            clip_reward=10.0,
            gamma=case.gamma,
        )


def as_in_rlcore(convolutional: Any) -> None:
    """Give Stable-Baselines3's convolutional network the non-linearity and the initial weights of rlcore's.

    These are ML-Agents' leaky ReLU and PyTorch's own weights.
    """
    from torch import nn

    for block in (convolutional.cnn, convolutional.linear):
        for index, layer in enumerate(block):
            if isinstance(layer, nn.ReLU):
                block[index] = nn.LeakyReLU()
            elif not isinstance(layer, nn.Flatten):
                layer.reset_parameters()


class StableBaselines3ContribTraining:
    """RecurrentPPO of sb3-contrib. Its LSTM reads the observation, and a layer of 64 units follows it.

    In rlcore the layer comes first, so its LSTM has the larger product.
    """

    def __init__(self, case: PPOCase, seed: int) -> None:
        from sb3_contrib import RecurrentPPO
        from stable_baselines3.common.env_util import make_vec_env
        from torch import nn

        self.case = case
        self.model: Any = RecurrentPPO(
            "MlpLstmPolicy",
            make_vec_env(case.env_id, n_envs=case.num_envs, seed=seed),
            n_steps=case.rollout_rows,
            batch_size=case.batch_size,
            n_epochs=case.num_epoch,
            learning_rate=(lambda left: left * case.learning_rate) if case.falling_rate else case.learning_rate,
            target_kl=case.target_kl,
            gamma=case.gamma,
            gae_lambda=case.lambd,
            clip_range=case.epsilon,
            ent_coef=0.0,
            vf_coef=case.value_coefficient,
            max_grad_norm=case.max_grad_norm,
            policy_kwargs={
                "net_arch": {"pi": [WIDTH], "vf": [WIDTH]},
                "lstm_hidden_size": case.lstm_units,
                "activation_fn": nn.Tanh,
                "optimizer_kwargs": {"eps": case.adam_epsilon},
            },
            seed=seed,
            device="cpu",
            verbose=0,
        )

    def train(self) -> int:
        self.model.learn(total_timesteps=self.case.steps)
        return int(self.model.num_timesteps)

    def evaluate(self, episodes: int) -> list[float]:
        raise NotImplementedError("sb3-contrib is measured for speed only")


class TianshouTraining:
    """Tianshou's procedural interface without test environments and logging; discrete actions only.

    Checks of distributions' arguments are off, as Stable-Baselines3 has them, and what is computed once per rollout is
    computed in one piece: both make it faster than its defaults.
    """

    def __init__(self, case: PPOCase, seed: int) -> None:
        import gymnasium
        import numpy as np
        import torch
        from tianshou.algorithm import PPO
        from tianshou.algorithm.modelfree.reinforce import DiscreteActorPolicy
        from tianshou.algorithm.optim import AdamOptimizerFactory
        from tianshou.data import Collector, CollectStats, VectorReplayBuffer
        from tianshou.env import DummyVectorEnv
        from tianshou.utils.net.common import ActorCritic, Net
        from tianshou.utils.net.discrete import DiscreteActor, DiscreteCritic
        from tianshou.utils.space_info import SpaceInfo

        if case.normalize:
            raise NotImplementedError("Tianshou is measured without observation normalization")
        np.random.seed(seed)  # noqa: NPY002  its buffer shuffles with numpy's global generator
        torch.manual_seed(seed)
        torch.distributions.Distribution.set_default_validate_args(False)
        self.case = case
        environments = DummyVectorEnv([lambda: gymnasium.make(case.env_id) for _ in range(case.num_envs)])
        environments.seed(seed)
        single = gymnasium.make(case.env_id)
        space = SpaceInfo.from_env(single)
        state = space.observation_info.obs_shape
        hidden = (WIDTH, WIDTH)
        actor = DiscreteActor(
            preprocess_net=Net(state_shape=state, hidden_sizes=hidden, activation=torch.nn.Tanh),
            action_shape=space.action_info.action_shape,
            softmax_output=False,
        )
        critic = DiscreteCritic(preprocess_net=Net(state_shape=state, hidden_sizes=hidden, activation=torch.nn.Tanh))
        for module in ActorCritic(actor, critic).modules():
            if isinstance(module, torch.nn.Linear):
                torch.nn.init.orthogonal_(module.weight)
                torch.nn.init.zeros_(module.bias)
        self.algorithm: Any = PPO(
            policy=DiscreteActorPolicy(actor=actor, action_space=single.action_space, deterministic_eval=True),
            critic=critic,
            optim=AdamOptimizerFactory(lr=case.learning_rate, eps=case.adam_epsilon),
            eps_clip=case.epsilon,
            advantage_normalization=True,
            vf_coef=case.value_coefficient,
            ent_coef=0.0,
            max_grad_norm=case.max_grad_norm,
            gae_lambda=case.lambd,
            max_batchsize=case.rollout,
            gamma=case.gamma,
        )
        buffer = VectorReplayBuffer(case.rollout, case.num_envs)
        self.collector: Any = Collector[CollectStats](self.algorithm, environments, buffer)

    def train(self) -> int:
        from tianshou.trainer import OnPolicyTrainerParams

        case = self.case
        self.algorithm.run_training(
            OnPolicyTrainerParams(
                training_collector=self.collector,
                max_epochs=1,
                epoch_num_steps=case.steps,
                collection_step_num_env_steps=case.rollout,
                update_step_num_repetitions=case.num_epoch,
                batch_size=case.batch_size,
                verbose=False,
                show_progress=False,
            )
        )
        return int(self.collector.collect_step)

    def evaluate(self, episodes: int) -> list[float]:
        raise NotImplementedError("Tianshou is measured for speed only")


LIBRARIES: dict[str, Callable[[PPOCase, int], Training]] = {
    "rlcore": rlcore_training,
    "stable-baselines3": StableBaselines3Training,
    "sb3-contrib": StableBaselines3ContribTraining,
    "tianshou": TianshouTraining,
}


def ready_training(library: str, case: PPOCase, seed: int) -> Training:
    """A training of ``library``, in a process that computes with one thread."""
    import torch

    torch.set_num_threads(1)
    return LIBRARIES[library](case, seed)
