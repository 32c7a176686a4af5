"""Blocks about environments: the environment of training, its parameters, and evaluations."""

from __future__ import annotations

from typing import Any, ClassVar

import attrs

from rlcore.errors import did_you_mean
from rlcore.settings.fields import Choice, SettingError, setting
from rlcore.settings.limits import MAX_EPISODE_STEPS, MAX_EPISODES, MAX_NUM_ENVS, MAX_STEPS, MAX_WORKERS


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
class OpponentSettings:
    """Settings of every opponent; the settings class of a plugin's opponent derives from this class.

    A block of a plugin may have a field of type ``dict[str, OpponentSettings]``, read as ``evaluation.opponents`` is:
    each entry becomes an instance of the class that the record of its type names.
    :meth:`rlcore.RunContext.create_opponents` creates the opponents.
    """

    chosen: ClassVar[Choice] = Choice("opponent")

    type: str | None = setting(
        None, "Type of opponent: a registered name, or DISTRIBUTION/NAME; by default, the name of the block."
    )


def _checkpoint_problem(value: int | str) -> str | None:
    return None if value in ("last", "best") or str(value).isdecimal() else "must be last, best or a step"


@attrs.frozen(kw_only=True)
class RunOpponentSettings(OpponentSettings):
    """Settings of the opponent ``run``, the policy of a checkpoint of another run."""

    path: str = setting(
        description="Directory of a run or of one of its checkpoints, or the id of a run beside this one."
    )
    checkpoint: int | str = setting(
        "last", "Which checkpoint of the run: last, best or a step.", check=_checkpoint_problem
    )
    behavior: str | None = setting(
        None, "Behavior of the run whose policy plays; by default, the one of the same name, or the only one."
    )


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
    opponents: dict[str, OpponentSettings] = setting(
        factory=dict,
        description="Opponents by name, with type and settings; the policies play `episodes` episodes against each.",
    )
    score_against: str | None = setting(
        None, "The opponent whose mean reward is the score; by default, the score is the mean over all opponents."
    )
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

    def __attrs_post_init__(self) -> None:
        if self.score_against is not None and self.score_against not in self.opponents:
            problem = "opponents is empty, so there is no opponent to score against"
            if self.opponents:
                has, hint = ", ".join(self.opponents), did_you_mean(self.score_against, self.opponents)
                problem = f"opponents has no {self.score_against!r}; it has {has}{hint}"
            raise SettingError("score_against", problem, others=("opponents",))
