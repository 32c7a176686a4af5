"""Environments, the parameters of their episodes, and evaluations."""

from __future__ import annotations

from typing import Any

import attrs

from rlcore.settings.fields import setting
from rlcore.settings.limits import MAX_COPIES, MAX_EPISODE_STEPS, MAX_EPISODES, MAX_STEPS


@attrs.frozen(kw_only=True)
class CurriculumSettings:
    """What every curriculum's block of a parameter has; a curriculum plugin's settings class derives from it.

    A class may have a method ``problems(self, config: RunConfig, plugins: Plugins)``, called when the whole
    configuration is built. It yields ``(path, message)`` for what is wrong: ``path`` is a tuple of keys and indices
    within the block.
    """

    type: str = setting("lessons", "Which curriculum: a registered name, or DISTRIBUTION/NAME.")


@attrs.frozen(kw_only=True)
class EnvironmentParameter:
    """How the values of one environment parameter are chosen.

    In a file a number, a sampler or ML-Agents' list of lessons may stand for it.
    """

    curriculum: Any = setting(description="The curriculum's own settings, with its type.")


@attrs.frozen(kw_only=True)
class EnvironmentSettings:
    """Which environment to train in."""

    type: str = setting("gymnasium", "Kind of environment: a registered name, or DISTRIBUTION/NAME.")
    id: str | None = setting(None, "Which environment of that kind.")
    num_envs: int | None = setting(
        None, "Copies stepped together; without it, env_settings.num_envs.", minimum=1, maximum=MAX_COPIES
    )
    options: Any = setting(factory=dict, description="What the kind of environment, or its constructor, takes.")
    parameters: dict[str, Any] = setting(
        factory=dict, description="How environment_parameters reach the environment, by name, where it cannot tell."
    )


@attrs.frozen(kw_only=True)
class EvaluationSettings:
    """Measuring the policies, in an environment of their own."""

    interval: int | None = setting(
        description="Agent steps of the run, over all behaviors, between evaluations; null for none while it trains.",
        minimum=1,
        maximum=MAX_STEPS,
    )
    episodes: int = setting(
        10, "Episodes of one evaluation; every evaluation plays the same ones.", minimum=1, maximum=MAX_EPISODES
    )
    environment: dict[str, Any] = setting(
        factory=dict, description="Where evaluations differ from the environment block: id, options, num_envs."
    )
    environment_parameters: dict[str, Any] = setting(
        factory=dict,
        description="Environment parameters of evaluations; one that is not given here is what its curriculum is for.",
    )
    deterministic: bool = setting(True, "Act by the mean or most likely action, instead of sampling as training does.")
    stop_at: float | None = setting(
        None, "The run ends when an evaluation scores this: mean reward of its episodes, averaged over behaviors."
    )
    keep_best: bool = setting(True, "Keep the policies of the best score in checkpoints/best.")
    max_episode_steps: int | None = setting(
        MAX_EPISODE_STEPS,
        "Environment steps after which an episode that has not ended counts as truncated; null for no limit.",
        minimum=1,
        maximum=MAX_STEPS,
    )
