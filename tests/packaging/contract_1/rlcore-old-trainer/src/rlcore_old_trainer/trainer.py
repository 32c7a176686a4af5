"""A linear actor-critic (REINFORCE with a learned baseline, Sutton and Barto 2018, section 13.4).

Small on purpose: policy and value are one matrix each, in numpy. It shows every duty of a trainer; replace the
mathematics with your own. Shapes: S slots, T environment steps in a rollout, F features, O options of all branches.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from rlcore.config import BehaviorSettings
from rlcore.environment import Actions, AgentBatch, BehaviorSpec
from rlcore.errors import RunStateError, UnsupportedSpace
from rlcore.rewards import Transitions
from rlcore.seeding import derive_generator, generator_state, restore_generator

from rlcore_old_trainer.settings import OldTrainerSettings

if TYPE_CHECKING:
    from rlcore.run import RunContext

Array = NDArray[np.float64]


class LinearPolicy:
    """Chooses one option of each branch; the logits are linear in the features."""

    def __init__(self, behavior: BehaviorSpec) -> None:
        self.names = [observation.name for observation in behavior.observations]
        self.edges = np.cumsum(behavior.discrete)[:-1]
        features = 1 + sum(observation.size for observation in behavior.observations)
        self.weights: Array = np.zeros((features, behavior.mask_size))  # [F, O]
        self._generator = np.random.default_rng(0)

    def features(self, observations: Mapping[str, NDArray[Any]]) -> Array:
        """[R, F]: all observations side by side, and a constant 1."""
        rows = len(observations[self.names[0]])
        flat = [np.asarray(observations[name], np.float64).reshape(rows, -1) for name in self.names]
        return np.concatenate([*flat, np.ones((rows, 1))], axis=1)

    def log_probabilities(self, features: Array, mask: NDArray[np.bool_] | None) -> list[Array]:
        """For each branch, [R, options]; an option that is not allowed has minus infinity."""
        logits = features @ self.weights
        if mask is not None:
            logits = np.where(mask, logits, -np.inf)
        branches = np.split(logits, self.edges, axis=1)
        return [branch - np.logaddexp.reduce(branch, axis=1, keepdims=True) for branch in branches]

    def choose(self, features: Array, mask: NDArray[np.bool_] | None, generator: np.random.Generator | None) -> Actions:
        """The most likely options, or with a generator, a sample (Gumbel's trick)."""
        scores = self.log_probabilities(features, mask)
        if generator is not None:
            scores = [branch + generator.gumbel(size=branch.shape) for branch in scores]
        return Actions(discrete=np.stack([branch.argmax(axis=1) for branch in scores], axis=1).astype(np.int64))

    def act(
        self,
        observations: Mapping[str, NDArray[Any]],
        action_mask: NDArray[np.bool_] | None = None,
        deterministic: bool = True,
    ) -> Actions:
        return self.choose(self.features(observations), action_mask, None if deterministic else self._generator)

    def seed(self, seed: int) -> None:
        self._generator = np.random.default_rng(seed)


class OldTrainerTrainer:
    """Collects ``buffer_size`` agent steps, learns from them, forgets them."""

    def __init__(self, behavior: BehaviorSpec, settings: BehaviorSettings, run: RunContext) -> None:
        if behavior.continuous or not behavior.discrete:
            raise UnsupportedSpace(f"behavior {behavior.name!r}: old-trainer learns discrete actions only")
        self.hyperparameters: OldTrainerSettings = settings.hyperparameters
        self.policy = LinearPolicy(behavior)
        self.value: Array = np.zeros(len(self.policy.weights))  # [F]
        self.steps = 0
        self.slots = behavior.slots
        self.branches = behavior.discrete
        self.rewards = run.create_reward_providers(behavior, settings)
        self.gamma = self.rewards[0].gamma
        # Everything random draws from a stream named after its purpose, so that runs can be repeated.
        self.generator = derive_generator(run.seed, f"old-trainer/{behavior.name}")
        self.rows: list[dict[str, NDArray[Any]]] = []  # of the open rollout, one for each environment step
        self.open: dict[str, Any] = {}  # what `act` saw, until `observe` closes it
        self.ahead: Array = np.zeros((self.slots, len(self.value)))  # [S, F] features after the last row

    # ------------------------------------------------------------ collecting

    def begin(self, batch: AgentBatch) -> None:
        if self.rows:  # what was open is cut: as if truncated, the last row is worth what the value says of its end
            last = self.rows[-1]
            going_on = ~last["ended"]
            last["reward"] += self.gamma * (self.ahead @ self.value) * going_on
            last["ended"] = np.ones(self.slots, np.bool_)

    def act(self, batch: AgentBatch) -> Actions:
        if batch.needs_action is not None:
            raise UnsupportedSpace("old-trainer needs all agents to act in every step")
        features = self.policy.features(batch.observations)
        mask = np.ones((self.slots, sum(self.branches)), np.bool_) if batch.action_mask is None else batch.action_mask
        # The batch is valid until the environment's next step: what is kept is copied.
        observations = {name: array.copy() for name, array in batch.observations.items()}
        self.open = {"features": features, "mask": mask.copy(), "observations": observations}
        return self.policy.choose(features, mask, self.generator)

    def observe(self, actions: Actions, batch: AgentBatch) -> None:
        transitions = Transitions(
            self.open["observations"], actions, batch.reward, batch.terminated, batch.truncated, batch.group_reward
        )
        reward = np.zeros(self.slots)
        for provider in self.rewards:
            reward += provider.strength * np.asarray(provider.evaluate(transitions), np.float64)
        if batch.final_observations is not None:  # a time limit is no terminal state: bootstrap from its final one
            final = self.policy.features(batch.final_observations) @ self.value  # [K]
            reward[batch.ended] += self.gamma * final * batch.truncated[batch.ended]
        self.rows.append(
            {
                "features": self.open["features"],
                "mask": self.open["mask"],
                "choices": np.array(actions.discrete),
                "reward": reward,
                "ended": batch.terminated | batch.truncated,
            }
        )
        self.ahead = self.policy.features(batch.observations)
        self.steps += self.slots

    # ------------------------------------------------------------ learning

    def ready(self) -> bool:
        return len(self.rows) * self.slots >= self.hyperparameters.buffer_size

    def update(self) -> Mapping[str, float]:
        rollout = {key: np.stack([row[key] for row in self.rows]) for key in self.rows[0]}  # each [T, S, ...]
        returns = np.empty_like(rollout["reward"])  # [T, S] discounted sums of what came after
        after = self.ahead @ self.value
        for step in range(len(returns) - 1, -1, -1):
            after = rollout["reward"][step] + self.gamma * after * ~rollout["ended"][step]
            returns[step] = after
        features = rollout["features"].reshape(-1, len(self.value))  # [T * S, F]
        error = returns.ravel() - features @ self.value
        advantage = (error - error.mean()) / (error.std() + 1e-8)
        # d log pi / d logits is the chosen indicator minus the probabilities, branch by branch.
        probabilities = self.policy.log_probabilities(features, rollout["mask"].reshape(len(features), -1))
        choices = rollout["choices"].reshape(len(features), -1)
        gradient = np.concatenate(
            [
                np.eye(branch.shape[1])[chosen] - np.exp(branch)
                for branch, chosen in zip(probabilities, choices.T, strict=True)
            ],
            axis=1,
        )  # [T * S, O]
        # Both steps are divided by the features' second moments: they do not depend on the scale of observations,
        # and the value's becomes least squares.
        moments = features.T @ features / len(features)  # [F, F]
        moments += np.eye(len(moments)) * (1e-3 * np.trace(moments) / len(moments))
        policy_step = np.linalg.solve(moments, features.T @ (gradient * advantage[:, None]) / len(features))
        self.policy.weights += self.hyperparameters.learning_rate * policy_step
        self.value += np.linalg.solve(moments, features.T @ error / len(features))
        self.rows = []
        return {"Losses/Value Loss": float(np.square(error).mean())}

    # ------------------------------------------------------------ saving

    def state_dict(self) -> dict[str, Any]:
        keys = self.rows[0] if self.rows else {}
        return {
            "model": {"policy": self.policy.weights.copy(), "value": self.value.copy()},
            "steps": self.steps,
            "generator": generator_state(self.generator),
            "rollout": {key: np.stack([row[key] for row in self.rows]) for key in keys},
            "ahead": self.ahead.copy(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.load_model(state["model"])
        self.steps = int(state["steps"])
        restore_generator(self.generator, state["generator"])
        rollout = {key: np.array(value) for key, value in state["rollout"].items()}
        length = len(rollout["reward"]) if rollout else 0
        self.rows = [{key: value[step] for key, value in rollout.items()} for step in range(length)]
        self.ahead = np.array(state["ahead"])

    def load_model(self, model: Mapping[str, Any]) -> None:
        if model["policy"].shape != self.policy.weights.shape:
            raise RunStateError(
                f"the saved policy has shape {model['policy'].shape}, this behavior needs {self.policy.weights.shape}"
            )
        self.policy.weights = np.array(model["policy"], np.float64)
        self.value = np.array(model["value"], np.float64)
