"""One TD3 training, stated once and given to each library in its own words.

Both use ReLU layers with PyTorch's initial weights for the policy and for each of the twin critics, Gaussian noise in
units of half the range of an action, and Adam with epsilon 1e-8 at a constant rate.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import attrs
from trainings import (
    RlcoreTraining,
    StableBaselines3OffPolicy,
    Training,
    ready_off_policy,
    rlcore_world,
)


@attrs.frozen(kw_only=True)
class TD3Case:
    """The task of a training, and TD3's hyperparameters; one environment, one gradient step for each of its steps."""

    env_id: str
    options: Mapping[str, Any] = attrs.field(factory=dict)  # arguments of the environment
    steps: int
    random_steps: int  # at the beginning, without learning
    batch_size: int = 256
    buffer_size: int = 1_000_000
    widths: Sequence[int] = (400, 300)
    learning_rate: float = 1e-3
    gamma: float = 0.99
    tau: float = 0.005
    actor_delay: int = 2
    exploration_noise: float = 0.1
    target_noise: float = 0.2
    target_noise_clip: float = 0.5

    def learning_flops(self, observations: int, actions: int) -> int:
        """FLOPs of all gradient steps: of products alone."""

        def network(inputs: int, outputs: int) -> int:  # multiplications of one row, forward
            return sum(one * two for one, two in pairwise((inputs, *self.widths, outputs)))

        policy = network(observations, actions)
        critic = network(observations + actions, 1)
        # Targets: all forward. Critics: forward, and backward, which costs twice as much. Once in actor_delay: the
        # policy forward and backward, one critic forward and backward by the action alone.
        rows = policy + 2 * critic * (1 + 3) + (3 * policy + 2 * critic) / self.actor_delay
        return round(2 * (self.steps - self.random_steps) * self.batch_size * rows)

    def with_steps(self, steps: float) -> TD3Case:
        return attrs.evolve(self, steps=round(steps))


def rlcore_training(case: TD3Case, seed: int, **blocks: Mapping[str, Any]) -> Training:
    """``blocks`` are further ones of the configuration."""
    behavior = {
        "trainer_type": "td3",
        "hyperparameters": {
            "batch_size": case.batch_size,
            "buffer_size": case.buffer_size,
            "buffer_init_steps": case.random_steps,
            "learning_rate": case.learning_rate,
            "tau": case.tau,
            "actor_delay": case.actor_delay,
            "exploration_noise": case.exploration_noise,
            "target_noise": case.target_noise,
            "target_noise_clip": case.target_noise_clip,
        },
        "network_settings": {"hidden_layers": list(case.widths), "activation": "relu", "init": "uniform"},
        "reward_signals": {"extrinsic": {"gamma": case.gamma}},
        "max_steps": case.steps,
        "checkpoint_interval": case.steps,  # the last one alone: by default ten, in the seconds that this takes
    }
    return RlcoreTraining(case.env_id, 1, behavior, seed, rlcore_world(case.options, ()), **blocks)


class StableBaselines3Training(StableBaselines3OffPolicy):
    """Stable-Baselines3 as its documentation advises on a CPU: the environment in the process, no logging."""

    def __init__(self, case: TD3Case, seed: int) -> None:
        import numpy as np
        from stable_baselines3 import TD3
        from stable_baselines3.common.noise import NormalActionNoise

        super().__init__(case, seed)
        environment = self._environment(1, seed)
        parts = environment.action_space.shape
        self.model = TD3(
            "MlpPolicy",
            environment,
            learning_rate=case.learning_rate,
            buffer_size=case.buffer_size,
            learning_starts=case.random_steps,
            batch_size=case.batch_size,
            tau=case.tau,
            gamma=case.gamma,
            policy_delay=case.actor_delay,
            target_policy_noise=case.target_noise,
            target_noise_clip=case.target_noise_clip,
            action_noise=NormalActionNoise(np.zeros(parts), np.full(parts, case.exploration_noise)),
            policy_kwargs={"net_arch": list(case.widths)},
            seed=seed,
            device="cpu",
            verbose=0,
        )


LIBRARIES: dict[str, Callable[[TD3Case, int], Training]] = {
    "rlcore": rlcore_training,
    "stable-baselines3": StableBaselines3Training,
}


def ready_training(library: str, case: TD3Case, seed: int, threads: int = 1) -> Training:
    """A training of ``library`` that may use ``threads`` threads."""
    return ready_off_policy(LIBRARIES, library, case, seed, threads)
