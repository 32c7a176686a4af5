"""An environment to play in without learning: its batches are checked, and its parameters are those of the task."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from rlcore.contracts.environment import Actions, AgentBatch, BehaviorSpec, Environment, Parameters
from rlcore.contracts.seeding import EpisodeSeeds
from rlcore.errors import EnvironmentFailed, NonFiniteError
from rlcore.plugins.failures import blamed
from rlcore.run.behaviors.checks import BatchCheck, batch_of
from rlcore.run.curricula.parameters import ParameterFeed


class PlayedEnvironment:
    """An environment that is one itself: it names the environment inside in errors, and sets the parameters there.

    Attributes:
        behaviors: The behaviors by name.
        num_envs: N, the number of environments.
        episodes: [N] number of the episode that each environment is in.
    """

    def __init__(
        self,
        environment: Environment,
        named: str = "environment",
        checks: Mapping[str, BatchCheck] | None = None,
        feed: ParameterFeed | None = None,
    ) -> None:
        """``named`` is what messages call the environment, and ``feed`` sets what episodes start with.

        ``checks``, by behavior, are those of earlier episodes in the same environment.
        """
        self.behaviors: Mapping[str, BehaviorSpec] = environment.behaviors
        self.num_envs = environment.num_envs
        self.episodes: NDArray[np.int64] = environment.episodes
        self._environment, self._named, self._feed = environment, named, feed
        self._checks = checks_of(environment) if checks is None else checks

    def reset(self, seeds: EpisodeSeeds, episodes: NDArray[np.int64]) -> dict[str, AgentBatch]:
        """Begin episode ``episodes[c]`` in every environment c. Raises EnvironmentFailed."""
        if self._feed is not None:
            self._feed.before_reset(episodes)
        with blamed(self._named, "in reset", EnvironmentFailed):
            batches = self._environment.reset(seeds, episodes)
        self.episodes = self._environment.episodes
        if self._feed is not None:
            self._feed.after_reset(episodes)
        self._check(batches, "reset")
        return batches

    def step(self, actions: Mapping[str, Actions]) -> dict[str, AgentBatch]:
        """Move every environment once. Raises EnvironmentFailed."""
        with blamed(self._named, "in step", EnvironmentFailed):
            batches = self._environment.step(actions)
        self.episodes = self._environment.episodes
        self._check(batches, "step")
        if self._feed is not None:
            self._feed.restage(self._feed.after_step())
        return batches

    def set_parameters(self, parameters: Parameters) -> None:
        """Set parameters of the next episodes that the task does not set."""
        self._environment.set_parameters(parameters)

    def close(self) -> None:
        """Close the environment."""
        self._environment.close()

    def _check(self, batches: Mapping[str, AgentBatch], doing: str) -> None:
        """Raises EnvironmentFailed unless ``doing`` returned what every behavior's spec says.

        A NaN or an infinity is reported with the parameters that its episode started with.
        """
        for name, check in self._checks.items():
            try:
                check.check(batch_of(batches, name, self._named, doing))
            except NonFiniteError as error:
                if self._feed is None:
                    raise
                began = self._feed.described(error.env, error.latest)
                raise NonFiniteError(f"{error} (its episode began with {began})", error.env, error.latest) from None


def checks_of(environment: Environment) -> dict[str, BatchCheck]:
    """A check for the batches of each behavior, for evaluations."""
    return {name: BatchCheck(spec, lambda: "while evaluating") for name, spec in environment.behaviors.items()}
