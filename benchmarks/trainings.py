"""The parts of a training that all algorithms have in common, library by library.

Libraries are imported where they are needed, so a process loads only the one it measures.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from tempfile import TemporaryDirectory
from typing import Any, Protocol

BEHAVIOR = "Agent"


class Training(Protocol):
    """A training that is ready to begin: environments and networks are made."""

    def train(self) -> int:
        """Trains to the end; returns the agent steps taken."""
        ...

    def evaluate(self, episodes: int) -> list[float]:
        """Returns of ``episodes`` whole episodes of the trained policy."""
        ...

    def evaluations(self, shares: Sequence[float], episodes: int) -> list[list[float]]:
        """Trains to the end; returns of ``episodes`` whole episodes after each of the ``shares`` of the steps."""
        ...


class RlcoreTraining:
    """rlcore as ``rlcore run`` has it: run directory, checkpoints and the default statistics writers included."""

    def __init__(
        self,
        env_id: str,
        num_envs: int | None,
        behavior: Mapping[str, Any],
        seed: int,
        world: Mapping[str, Any] | None = None,
        deterministic: bool = True,
        **blocks: Any,
    ) -> None:
        """``behavior`` is the block of the only behavior; a ``num_envs`` of None is that of a preset.

        ``world`` has further keys of the environment's block, ``blocks`` further blocks of the configuration.
        ``deterministic``: how :meth:`evaluate` acts.
        """
        from rlcore import Run

        copies = {} if num_envs is None else {"num_envs": num_envs}
        self._deterministic = deterministic
        self._results = TemporaryDirectory()
        self.run = Run(
            {
                "preset": "none",
                "environment": {"type": "gymnasium", "id": env_id, **copies, **(world or {})},
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
        return list(self.run.evaluate(episodes, deterministic=self._deterministic).behaviors[BEHAVIOR].returns)

    def evaluations(self, shares: Sequence[float], episodes: int) -> list[list[float]]:
        steps = self.run.config.behaviors[BEHAVIOR].max_steps
        due = [round(share * steps) for share in shares]
        found: list[list[float]] = []
        for _ in self.run:  # at each summary
            if len(found) < len(due) and self.run.steps >= due[len(found)]:
                found.append(self.evaluate(episodes))
        return found


def rlcore_world(options: Mapping[str, Any], wrappers: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Keys of an environment's block in rlcore."""
    return {"options": dict(options)} if not wrappers else {"options": dict(options), "wrappers": list(wrappers)}


def stable_baselines3_environment(
    env_id: str, num_envs: int, seed: int, options: Mapping[str, Any], wrappers: Sequence[Mapping[str, Any]], **how: Any
) -> Any:
    """A vectorized environment of Stable-Baselines3; ``how`` are further arguments of its make_vec_env."""
    from stable_baselines3.common.env_util import make_vec_env

    if wrappers:
        how["wrapper_class"] = partial(wrapped, wrappers=wrappers)
    return make_vec_env(env_id, n_envs=num_envs, seed=seed, env_kwargs=dict(options), **how)


def wrapped(environment: Any, wrappers: Sequence[Mapping[str, Any]]) -> Any:
    """``environment`` in wrappers of Gymnasium, each a name with its arguments beside it."""
    from gymnasium import wrappers as known

    for wrapper in wrappers:
        arguments = {name: value for name, value in wrapper.items() if name != "name"}
        environment = getattr(known, wrapper["name"])(environment, **arguments)
    return environment


def stable_baselines3_returns(model: Any, environment: Any, episodes: int, deterministic: bool = True) -> list[float]:
    """Returns of a model of Stable-Baselines3 in ``environment``, before any wrapper changes a reward."""
    from stable_baselines3.common.evaluation import evaluate_policy

    returns, _ = evaluate_policy(
        model, environment, n_eval_episodes=episodes, deterministic=deterministic, return_episode_rewards=True
    )
    return [float(value) for value in returns]


def random_returns(
    env_id: str, episodes: int, options: Mapping[str, Any], wrappers: Sequence[Mapping[str, Any]]
) -> list[float]:
    """Returns of ``episodes`` whole episodes of uniformly drawn actions, with fixed seeds."""
    import gymnasium

    environment = wrapped(gymnasium.make(env_id, **options), wrappers)
    environment.action_space.seed(0)
    returns = []
    for episode in range(episodes):
        environment.reset(seed=episode)
        total = 0.0
        over = False
        while not over:
            _, reward, terminated, truncated, _ = environment.step(environment.action_space.sample())
            total += float(reward)
            over = terminated or truncated
        returns.append(total)
    return returns


class StableBaselines3OffPolicy:
    """An off-policy training of Stable-Baselines3, in one process without logging; a subclass makes its ``model``."""

    model: Any

    def __init__(self, case: Any, seed: int) -> None:
        self.case, self.seed = case, seed

    def train(self) -> int:
        self.model.learn(total_timesteps=self.case.steps)
        return int(self.model.num_timesteps)

    def evaluate(self, episodes: int) -> list[float]:
        environment = self._environment(min(episodes, 10), self.seed + 10_000)
        return stable_baselines3_returns(self.model, environment, episodes)

    def _environment(self, num_envs: int, seed: int) -> Any:
        return stable_baselines3_environment(self.case.env_id, num_envs, seed, self.case.options, ())


def ready_off_policy(
    libraries: Mapping[str, Callable[..., Any]], library: str, case: Any, seed: int, threads: int | None
) -> Training:
    """A training of one of ``libraries`` that may use ``threads`` threads; None: what rlcore does without a key."""
    import torch

    if library == "rlcore":
        training: Training = libraries[library](case, seed, torch_settings={"num_threads": threads})
        return training
    torch.set_num_threads(threads or 1)
    ready: Training = libraries[library](case, seed)
    return ready
