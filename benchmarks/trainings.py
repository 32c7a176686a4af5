"""The parts of a training that all algorithms have in common, library by library.

Libraries are imported where they are needed, so a process loads only the one it measures.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from tempfile import TemporaryDirectory
from typing import Any, Protocol

BEHAVIOR = "Agent"


class Training(Protocol):
    """A training that is ready to begin: environments and networks are made."""

    def train(self) -> int:
        """Trains to the end; returns the agent steps taken."""
        ...

    def evaluate(self, episodes: int) -> list[float]:
        """Returns of ``episodes`` whole episodes of the trained policy, acting deterministically."""
        ...


class RlcoreTraining:
    """rlcore as ``rlcore run`` has it: run directory, checkpoints and the default statistics writers included."""

    def __init__(
        self, env_id: str, num_envs: int, behavior: Mapping[str, Any], seed: int, **blocks: Mapping[str, Any]
    ) -> None:
        """``behavior`` is the block of the only behavior; ``blocks`` are further ones of the configuration."""
        from rlcore import Run

        self._results = TemporaryDirectory()
        self.run = Run(
            {
                "environment": {"type": "gymnasium", "id": env_id, "num_envs": num_envs},
                "env_settings": {"seed": seed},
                "behaviors": {BEHAVIOR: dict(behavior)},
                "checkpoint_settings": {"run_id": "benchmark", "results_dir": self._results.name},
                **blocks,
            }
        )
        self.run.start()

    def train(self) -> int:
        self.run.train()
        return self.run.steps

    def evaluate(self, episodes: int) -> list[float]:
        return list(self.run.evaluate(episodes).behaviors[BEHAVIOR].returns)


def stable_baselines3_returns(
    model: Any, env_id: str, seed: int, episodes: int, wrap: Callable[[Any], Any] = lambda environment: environment
) -> list[float]:
    """Returns of a model of Stable-Baselines3 in environments of their own."""
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.evaluation import evaluate_policy

    environment = wrap(make_vec_env(env_id, n_envs=min(episodes, 10), seed=seed + 10_000))
    returns, _ = evaluate_policy(
        model, environment, n_eval_episodes=episodes, deterministic=True, return_episode_rewards=True
    )
    return [float(value) for value in returns]
