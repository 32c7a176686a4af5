"""Episodes of a policy in Gymnasium: a score, and steps that a page compares itself with."""

from __future__ import annotations

from typing import Any

import attrs
import gymnasium
import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from rlcore import BehaviorSpec, Policy
from rlcore_torch import PolicyModule

EPISODES = 20  # of the score
RECORDED = 200  # steps of the first episode, at most


@attrs.frozen
class Step:
    """One step of an episode.

    Attributes:
        state: The state of the environment before the step.
        observation: What the policy saw.
        action: The option, or the continuous action.
        numbers: What the action was made from: the logits of all options, or the continuous action.
        next: The state after the step.
        reward: The reward.
        terminated: Whether the step ended the task.
    """

    state: list[float]
    observation: list[float]
    action: int | list[float]
    numbers: list[float]
    next: list[float]
    reward: float
    terminated: bool


@attrs.frozen
class Played:
    """The returns of all episodes, and the first steps of the first one."""

    returns: list[float]
    steps: list[Step]

    @property
    def mean(self) -> float:
        """The mean return."""
        return float(np.mean(self.returns))


def play(name: str, policy: Policy, module: nn.Module, behavior: BehaviorSpec) -> Played:
    """Play EPISODES episodes with deterministic actions, with the seeds 0, 1, ..."""
    steps: list[Step] = []
    returns = [_episode(name, seed, policy, module, behavior, steps) for seed in range(EPISODES)]
    return Played(returns, steps)


def _episode(
    name: str, seed: int, policy: Policy, module: nn.Module, behavior: BehaviorSpec, steps: list[Step]
) -> float:
    """Play one episode and return its return; that of seed 0 is recorded in ``steps``."""
    environment = gymnasium.make(name)
    observation, _ = environment.reset(seed=seed)
    memory = np.zeros((1, getattr(policy, "memory_size", 0)), np.float32)
    total = 0.0
    ended = False
    while not ended:
        named = {behavior.observations[0].name: observation[None]}
        state = _state(environment)
        recorded = seed == 0 and len(steps) < RECORDED
        logits = _logits(module, named, memory) if recorded else []
        remembered = (memory,) if memory.size else ()
        actions: Any = policy.act(named, _mask(behavior), True, *remembered)
        action = actions.continuous[0] if behavior.continuous else actions.discrete[0, 0]
        after, reward, terminated, truncated, _ = environment.step(action)
        if recorded:
            step = Step(
                state=state,
                observation=_numbers(observation),
                action=_numbers(action) if behavior.continuous else int(action),
                numbers=_numbers(action) if behavior.continuous else logits,
                next=_state(environment),
                reward=float(reward),
                terminated=bool(terminated),
            )
            steps.append(step)
        observation = after
        total += float(reward)
        ended = terminated or truncated
    environment.close()
    return total


def _mask(behavior: BehaviorSpec) -> NDArray[np.bool_] | None:
    return np.ones((1, behavior.mask_size), np.bool_) if behavior.discrete else None


@torch.no_grad()
def _logits(module: nn.Module, observations: dict[str, NDArray[Any]], memory: NDArray[np.float32]) -> list[float]:
    """The logits of all options; empty for a module that does not show them, and without options."""
    if not isinstance(module, PolicyModule):
        return []
    tensors = {name: torch.from_numpy(array) for name, array in observations.items()}
    remembered = torch.from_numpy(memory.copy()) if memory.size else None
    _, logits, _ = module.distribution_parameters(tensors, None, remembered)
    return [] if logits is None else _numbers(logits.numpy()[0])


def _state(environment: gymnasium.Env[Any, Any]) -> list[float]:
    return _numbers(environment.unwrapped.state)  # type: ignore[attr-defined]


def _numbers(values: Any) -> list[float]:
    return [float(value) for value in values]
