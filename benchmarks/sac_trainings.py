"""One SAC training, stated once and given to each library in its own words.

Both use ReLU layers with PyTorch's initial weights for the policy and for each of the twin critics, a learned
temperature with minus the number of action parts as the target entropy, and Adam with epsilon 1e-8 at a constant rate.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
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
class SACCase:
    """The task of a training, and SAC's hyperparameters; one environment, one gradient step for each of its steps."""

    env_id: str
    options: Mapping[str, Any] = attrs.field(factory=dict)  # arguments of the environment
    steps: int
    random_steps: int  # at the beginning, without learning
    batch_size: int = 256
    buffer_size: int = 1_000_000
    width: int = 256
    layers: int = 2
    learning_rate: float = 3e-4
    gamma: float = 0.99
    tau: float = 0.005

    def learning_flops(self, observations: int, actions: int) -> int:
        """FLOPs of all gradient steps: of products alone, in networks of two layers."""
        hidden = self.width * self.width
        policy = hidden + self.width * (observations + 2 * actions)  # multiplications of one row, forward
        critic = hidden + self.width * (observations + actions + 1)
        # The policy forward twice and backward once; critics: targets forward, forward and backward for their own loss,
        # forward and by the action for the policy's. Backward costs twice as much as forward where weights learn.
        rows = policy * (2 + 2) + 2 * critic * (1 + 1 + 2 + 1 + 1)
        return 2 * (self.steps - self.random_steps) * self.batch_size * rows

    def with_steps(self, steps: float) -> SACCase:
        return attrs.evolve(self, steps=round(steps))


def rlcore_training(case: SACCase, seed: int, **blocks: Mapping[str, Any]) -> Training:
    """``blocks`` are further ones of the configuration."""
    behavior = {
        "trainer_type": "sac",
        "hyperparameters": {
            "batch_size": case.batch_size,
            "buffer_size": case.buffer_size,
            "buffer_init_steps": case.random_steps,
            "learning_rate": case.learning_rate,
            "tau": case.tau,
        },
        "network_settings": {
            "hidden_units": case.width,
            "num_layers": case.layers,
            "activation": "relu",
            "init": "uniform",
        },
        "reward_signals": {"extrinsic": {"gamma": case.gamma}},
        "max_steps": case.steps,
        "checkpoint_interval": case.steps,  # the last one alone: by default ten, in the seconds that this takes
    }
    return RlcoreTraining(case.env_id, 1, behavior, seed, rlcore_world(case.options, ()), **blocks)


class StableBaselines3Training(StableBaselines3OffPolicy):
    """Stable-Baselines3 as its documentation advises on a CPU: the environment in the process, no logging."""

    def __init__(self, case: SACCase, seed: int) -> None:
        from stable_baselines3 import SAC

        super().__init__(case, seed)
        self.model = SAC(
            "MlpPolicy",
            self._environment(1, seed),
            learning_rate=case.learning_rate,
            buffer_size=case.buffer_size,
            learning_starts=case.random_steps,
            batch_size=case.batch_size,
            tau=case.tau,
            gamma=case.gamma,
            policy_kwargs={"net_arch": [case.width] * case.layers},
            seed=seed,
            device="cpu",
            verbose=0,
        )


def plain_training(case: SACCase, seed: int, stacked: bool) -> Any:
    from plain_sac import PlainTraining

    return PlainTraining(case, seed, stacked)


MODULES = "plain modules"
STACK = "plain stack"
LIBRARIES: dict[str, Callable[..., Any]] = {
    "rlcore": rlcore_training,
    "stable-baselines3": StableBaselines3Training,
    MODULES: partial(plain_training, stacked=False),
    STACK: partial(plain_training, stacked=True),
}


def ready_training(library: str, case: SACCase, seed: int, threads: int | None = 1) -> Training:
    """A training of ``library`` that may use ``threads`` threads; None: what rlcore does without a key."""
    return ready_off_policy(LIBRARIES, library, case, seed, threads)
