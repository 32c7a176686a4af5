"""One DQN or QR-DQN training, stated once and given to each library in its own words.

Both use ReLU layers with PyTorch's initial weights, Adam, the Huber loss, and a target network that is copied and that
also chooses the next action: Stable-Baselines3 has no double DQN. Quantiles are those of QRDQN in sb3-contrib, whose
Adam has another epsilon and which clips no gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
from trainings import (
    RlcoreTraining,
    StableBaselines3OffPolicy,
    Training,
    ready_off_policy,
    rlcore_world,
    stable_baselines3_environment,
)

LAST_HALF = (0.6, 0.7, 0.8, 0.9, 1.0)


@attrs.frozen(kw_only=True)
class DQNCase:
    """The task of a training in one environment, and its hyperparameters by their names in RL Zoo's files."""

    env_id: str
    options: Mapping[str, Any] = attrs.field(factory=dict)  # arguments of the environment
    wrappers: Sequence[Mapping[str, Any]] = ()  # of Gymnasium, each with its name and arguments
    steps: int
    learning_starts: int
    train_freq: int
    gradient_steps: int
    target_update_interval: int  # agent steps
    exploration_fraction: float
    exploration_final_eps: float
    batch_size: int
    buffer_size: int
    learning_rate: float
    width: int = 256
    layers: int = 2
    gamma: float = 0.99
    quantiles: int | None = None  # of QR-DQN; None: DQN
    evaluated_at: Sequence[float] = LAST_HALF  # shares of the steps: returns of DQN swing

    @property
    def steps_per_update(self) -> float:
        return self.train_freq / self.gradient_steps

    @property
    def adam_epsilon(self) -> float:
        return 1e-8 if self.quantiles is None else 0.01 / self.batch_size

    def learning_flops(self, observations: int, actions: int) -> int:
        """FLOPs of all gradient steps: of products alone, in networks of two layers."""
        outputs = actions * (self.quantiles or 1)
        row = self.width * (self.width + observations + outputs)  # multiplications of one row, forward
        updates = (self.steps - self.learning_starts) / self.steps_per_update
        # Forward for the target, forward and backward for the loss, which costs twice as much.
        return round(2 * updates * self.batch_size * row * (1 + 1 + 2))

    def with_steps(self, steps: float) -> DQNCase:
        return attrs.evolve(self, steps=round(steps))


def rlcore_training(case: DQNCase, seed: int, **blocks: Mapping[str, Any]) -> RlcoreTraining:
    """``blocks`` are further ones of the configuration."""
    # Stable-Baselines3 copies while it collects, so no more often than it learns.
    copied_every = max(case.target_update_interval, case.train_freq)
    values = {"distributional": "quantile", "num_quantiles": case.quantiles, "max_grad_norm": None}
    behavior: dict[str, Any] = {
        "trainer_type": "dqn",
        "hyperparameters": {
            "batch_size": case.batch_size,
            "buffer_size": case.buffer_size,
            "buffer_init_steps": case.learning_starts,
            "steps_per_update": case.steps_per_update,
            "gradient_steps": case.gradient_steps,
            "learning_rate": case.learning_rate,
            "adam_epsilon": case.adam_epsilon,
            "target_update_interval": max(1, round(copied_every / case.steps_per_update)),
            "initial_epsilon": 1.0,
            "final_epsilon": case.exploration_final_eps,
            "epsilon_steps": max(1, round(case.exploration_fraction * case.steps)),
            "double": False,
            "max_grad_norm": 10.0,
            **({} if case.quantiles is None else values),
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
    if case.evaluated_at:
        behavior["summary_freq"] = max(1, case.steps // 20)  # evaluations come between two summaries
    return RlcoreTraining(case.env_id, 1, behavior, seed, rlcore_world(case.options, case.wrappers), **blocks)


class StableBaselines3Training(StableBaselines3OffPolicy):
    """DQN of Stable-Baselines3, or QRDQN of sb3-contrib: the environment in the process, no logging."""

    def __init__(self, case: DQNCase, seed: int) -> None:
        super().__init__(case, seed)
        network: dict[str, Any] = {"net_arch": [case.width] * case.layers}
        if case.quantiles is None:
            from stable_baselines3 import DQN as algorithm
        else:
            from sb3_contrib import QRDQN as algorithm

            network["n_quantiles"] = case.quantiles
        self.model = algorithm(
            "MlpPolicy",
            self._environment(1, seed),
            learning_rate=case.learning_rate,
            buffer_size=case.buffer_size,
            learning_starts=case.learning_starts,
            batch_size=case.batch_size,
            gamma=case.gamma,
            train_freq=case.train_freq,
            gradient_steps=case.gradient_steps,
            target_update_interval=case.target_update_interval,
            exploration_fraction=case.exploration_fraction,
            exploration_final_eps=case.exploration_final_eps,
            policy_kwargs=network,
            seed=seed,
            device="cpu",
            verbose=0,
        )

    def evaluations(self, shares: Sequence[float], episodes: int) -> list[list[float]]:
        due = [round(share * self.case.steps) for share in shares]
        found = []

        def evaluate_if_due(local_names: Any, global_names: Any) -> bool:
            if len(found) < len(due) and self.model.num_timesteps >= due[len(found)]:
                found.append(self.evaluate(episodes))
            return True

        self.model.learn(total_timesteps=self.case.steps, callback=evaluate_if_due)
        return found

    def _environment(self, num_envs: int, seed: int) -> Any:
        return stable_baselines3_environment(self.case.env_id, num_envs, seed, self.case.options, self.case.wrappers)


LIBRARIES: dict[str, Callable[[DQNCase, int], Training]] = {
    "rlcore": rlcore_training,
    "stable-baselines3": StableBaselines3Training,
}


def ready_training(library: str, case: DQNCase, seed: int, threads: int = 1) -> Training:
    """A training of ``library`` that may use ``threads`` threads."""
    return ready_off_policy(LIBRARIES, library, case, seed, threads)
