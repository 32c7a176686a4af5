"""Measuring policies: whole episodes in an environment of their own, learning nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from rlcore.blame import environment_does
from rlcore.config import RunConfig
from rlcore.environment import BehaviorSpec, Environment
from rlcore.errors import NonFiniteError
from rlcore.plugins.calls import Plugins
from rlcore.run_context import RunContext
from rlcore.seeding import EpisodeSeeds, derive_seed
from rlcore.setup import environment_settings, make_environment
from rlcore.stats import EpisodeRecorder
from rlcore.trainer import Policy

# Copies stepped together; more would only help an evaluation of very many episodes.
MAX_COPIES = 16


@attrs.frozen
class BehaviorEvaluation:
    """Returns of the counted episodes of one behavior: the agents' own rewards, as in "Cumulative Reward"."""

    mean_reward: float
    std_reward: float  # population standard deviation
    episodes: int
    mean_length: float  # environment steps
    returns: tuple[float, ...] = attrs.field(repr=False)
    mean_group_reward: float | None = None  # "Group Cumulative Reward"; None: nobody shares rewards


@attrs.frozen
class EvaluationResult:
    """What :func:`evaluate_policies` measured."""

    behaviors: Mapping[str, BehaviorEvaluation]

    def to_json(self) -> dict[str, Any]:
        """``mean_group_reward`` is there only for behaviors whose agents share rewards."""
        behaviors: dict[str, dict[str, Any]] = {
            name: {"mean_reward": b.mean_reward, "std_reward": b.std_reward, "episodes": b.episodes}
            for name, b in self.behaviors.items()
        }
        for name, b in self.behaviors.items():
            if b.mean_group_reward is not None:
                behaviors[name]["mean_group_reward"] = b.mean_group_reward
        return {"behaviors": behaviors}


def evaluate_policies(
    policies_for: Callable[[Mapping[str, BehaviorSpec]], Mapping[str, Policy]],
    config: RunConfig,
    plugins: Plugins,
    context: RunContext,
    episodes: int,
    seed: int | None = None,
    deterministic: bool = True,
) -> EvaluationResult:
    """Plays ``episodes`` episodes in a new environment; ``seed`` is the run's if it is None.

    ``policies_for`` is called with the environment's behaviors, before the first reset.
    """
    if episodes < 1:
        raise ValueError("episodes must be at least 1")
    seed = derive_seed(context.seed if seed is None else seed, "evaluation")
    copies = min(episodes, MAX_COPIES)
    config = attrs.evolve(
        config,
        environment=attrs.evolve(environment_settings(config), num_envs=copies),
        env_settings=attrs.evolve(config.env_settings, num_envs=copies),
    )
    context = attrs.evolve(context, config=config, num_envs=copies)
    environment = make_environment(config, plugins, context)
    try:
        return play(policies_for(environment.behaviors), environment, episodes, seed, deterministic)
    finally:
        environment.close()


def play(
    policies: Mapping[str, Policy], environment: Environment, episodes: int, seed: int, deterministic: bool
) -> EvaluationResult:
    """Plays until every copy has finished its share of ``episodes``.

    Each copy's share is fixed beforehand: taking the first episodes to finish would favour short ones.
    """
    copies = environment.num_envs
    share = np.full(copies, episodes // copies)
    share[: episodes % copies] += 1
    returns: dict[str, list[float]] = {name: [] for name in environment.behaviors}
    group_returns: dict[str, list[float]] = {name: [] for name in environment.behaviors}
    lengths: dict[str, list[int]] = {name: [] for name in environment.behaviors}
    left = {name: share[spec.env_index].copy() for name, spec in environment.behaviors.items()}  # [S] episodes
    recorders = {name: EpisodeRecorder(spec.slots) for name, spec in environment.behaviors.items()}
    for name, policy in policies.items():
        policy.seed(derive_seed(seed, name))
    with environment_does(environment, "reset"):
        batches = environment.reset(EpisodeSeeds(seed), np.zeros(copies, np.int64))
    while any((slots > 0).any() for slots in left.values()):
        actions = {
            name: policies[name].act(batch.observations, batch.action_mask, deterministic)
            for name, batch in batches.items()
        }
        with environment_does(environment, "step"):
            batches = environment.step(actions)
        for name, batch in batches.items():
            refuse_non_finite_reward(name, "reward", batch.reward, environment.behaviors[name])
            if batch.group_reward is not None:
                refuse_non_finite_reward(name, "group reward", batch.group_reward, environment.behaviors[name])
            recorder, ended = recorders[name], batch.ended
            recorder.record(batch)
            if ended.size:
                wanted = left[name][ended] > 0
                own, of_group, took = recorder.take_finished()
                returns[name].extend(np.array(own)[wanted].tolist())
                if of_group:
                    group_returns[name].extend(np.array(of_group)[wanted].tolist())
                lengths[name].extend(np.array(took)[wanted].tolist())
                left[name][ended[wanted]] -= 1
    return EvaluationResult(
        {
            name: BehaviorEvaluation(
                mean_reward=float(np.mean(values)),
                std_reward=float(np.std(values)),
                episodes=len(values),
                mean_length=float(np.mean(lengths[name])),
                returns=tuple(values),
                mean_group_reward=float(np.mean(group_returns[name])) if group_returns[name] else None,
            )
            for name, values in returns.items()
        }
    )


def refuse_non_finite_reward(behavior: str, what: str, reward: NDArray[np.float32], spec: BehaviorSpec) -> None:
    """Raises NonFiniteError for a NaN or an infinity."""
    bad = np.flatnonzero(~np.isfinite(reward))
    if bad.size:
        slot = int(bad[0])
        raise NonFiniteError(
            f"behavior {behavior!r}: {what} of slot {slot} (environment copy {int(spec.env_index[slot])}) is "
            f"{reward[slot]:g} while evaluating; mend the environment, or wrap it to keep its values finite"
        )
