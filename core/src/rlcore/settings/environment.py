"""Blocks about environments: the environment of training, its parameters, and evaluations."""

from __future__ import annotations

from typing import Any, ClassVar

import attrs

from rlcore.settings.fields import Choice, setting
from rlcore.settings.limits import (
    MAX_EPISODE_STEPS,
    MAX_EPISODES,
    MAX_NUM_ENVS,
    MAX_RESTARTS,
    MAX_SECONDS,
    MAX_STEPS,
    MAX_WORKERS,
)


def _workers_problem(value: Any) -> str | None:
    if isinstance(value, int) and not 1 <= value <= MAX_WORKERS:
        return f"must be from 1 to {MAX_WORKERS}"
    return None


@attrs.frozen(kw_only=True)
class CurriculumSettings:
    """Settings of every curriculum; a curriculum plugin's settings class derives from this class.

    A derived class may have a method ``problems(self, config: RunConfig, plugins: Plugins)``, which is called when the
    whole configuration is built. The method yields ``(path, message)`` for each problem: ``path`` is a tuple of keys
    and indices within the block.

    Attributes:
        chosen: The kind of record that ``type`` names.
    """

    chosen: ClassVar[Choice] = Choice("curriculum")

    type: str = setting("lessons", "Type of curriculum: a registered name, or DISTRIBUTION/NAME.")


@attrs.frozen(kw_only=True)
class EnvironmentParameter:
    """How the values of one environment parameter are chosen.

    A file may have a number, a sampler or ML-Agents' list of lessons instead.
    """

    curriculum: CurriculumSettings = setting(description="The curriculum's type and its own settings.")


@attrs.frozen(kw_only=True)
class ExecutorSettings:
    """Settings of every executor of workers; the settings class of a plugin's executor derives from this class.

    A file may have the number of workers instead. A derived class may have a method ``problems(self, config: RunConfig,
    plugins: Plugins)``, as :class:`CurriculumSettings` describes it.

    Attributes:
        chosen: The kind of record that ``executor`` names.
    """

    chosen: ClassVar[Choice] = Choice("executor", "executor")

    executor: str = setting("processes", "How workers run: a registered name, or DISTRIBUTION/NAME.")
    count: int = setting(
        description="Number of workers, which share the environments as equally as possible.",
        minimum=1,
        maximum=MAX_WORKERS,
    )


@attrs.frozen(kw_only=True)
class EnvironmentSettings:
    """An environment: its type, which one of that type, and how it is made."""

    type: str = setting("gymnasium", "Type of environment: a registered name, or DISTRIBUTION/NAME.")
    id: str | None = setting(None, "Which environment of that type.")
    num_envs: int | None = setting(
        None,
        "Number of environments stepped together: by default 1, and in evaluations one for each episode, up to 16.",
        minimum=1,
        maximum=MAX_NUM_ENVS,
    )
    workers: int | ExecutorSettings | None = setting(
        None,
        "Workers that step the environments of training side by side: their number, or a block with the settings of "
        "their executor; null steps all in the process of the run.",
        check=_workers_problem,
    )
    options: Any = setting(
        factory=dict,
        description="Options of this type of environment, or arguments of its constructor.",
        chooses=Choice("environment", otherwise=dict[str, Any]),
    )
    parameters: dict[str, Any] = setting(
        factory=dict,
        description="How each of environment_parameters reaches the environment, for types that need to know.",
        chooses=Choice(
            "environment",
            attribute="parameters",
            each=True,
            refusal="environments of type {name!r} take parameters by their names; delete this block",
        ),
    )

    def __attrs_post_init__(self) -> None:
        if isinstance(self.workers, int):
            object.__setattr__(self, "workers", ExecutorSettings(count=self.workers))

    @property
    def executor(self) -> ExecutorSettings | None:
        """The settings of the workers; None for none."""
        return None if isinstance(self.workers, int) else self.workers


@attrs.frozen(kw_only=True)
class EvaluationSettings:
    """Evaluations of the policies, in an environment of their own.

    A file gives in ``environment`` only what differs from the ``environment`` block of training. After loading,
    ``environment`` is complete; its ``num_envs`` is None unless the file gives it here.
    """

    interval: int | None = setting(
        description="Agent steps between evaluations, summed over behaviors; null for no evaluation during training.",
        minimum=1,
        maximum=MAX_STEPS,
    )
    episodes: int = setting(
        10, "Episodes of one evaluation. Every evaluation plays the same episodes.", minimum=1, maximum=MAX_EPISODES
    )
    environment: EnvironmentSettings | None = setting(
        None, "What differs from the environment block, such as id, options or num_envs."
    )
    environment_parameters: dict[str, EnvironmentParameter] = setting(
        factory=dict,
        description="Environment parameters in evaluations; by default, the values that their curricula train for.",
    )
    deterministic: bool = setting(True, "Take the mean or most likely action instead of sampling as in training.")
    stop_at: float | None = setting(
        None,
        "Score at which the run ends: mean reward of an evaluation's episodes, averaged over opponents, or over "
        "behaviors where there are none.",
    )
    keep_best: bool = setting(True, "Keep the policies with the best score in checkpoints/best.")
    max_episode_steps: int | None = setting(
        MAX_EPISODE_STEPS,
        "Environment steps after which an episode that has not ended counts as truncated; null for no limit.",
        minimum=1,
        maximum=MAX_STEPS,
    )
    sections: dict[str, Any] = setting(
        factory=dict,
        description="The keys of plugins, as settings by the name of their section.",
        chooses=Choice("evaluation", by="claim", flat=True),
    )


@attrs.frozen(kw_only=True)
class EnvSettings:
    """ML-Agents' ``env_settings``: the seed, and how workers start. A file may also have ``num_envs`` here, an alias of
    ``environment.num_envs``.
    """

    timeout_wait: int = setting(
        60, "Seconds that a worker may take to start; 0 for no limit.", minimum=0, maximum=MAX_SECONDS
    )
    seed: int = setting(-1, "Seed of the run; -1 draws a seed and records it.", minimum=-1, maximum=2**31 - 1)
    max_lifetime_restarts: int = setting(
        10, "Restarts of one worker; -1 for no limit.", minimum=-1, maximum=MAX_RESTARTS
    )
    restarts_rate_limit_n: int = setting(
        1, "Restarts of one worker within the period; -1 for no limit.", minimum=-1, maximum=MAX_RESTARTS
    )
    restarts_rate_limit_period_s: int = setting(
        60, "The period of restarts_rate_limit_n, in seconds.", minimum=1, maximum=MAX_SECONDS
    )
