"""The configuration and its blocks, as attrs classes.

Blocks that belong to plugins (``hyperparameters``, a reward signal, a writer, a plugin's section) are instances of the
plugin's own settings class. Names, defaults and meanings of what ML-Agents has are ML-Agents'.
"""

from __future__ import annotations

import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import attrs

from rlcore.settings.fields import Choice, SettingError, setting
from rlcore.settings.foreign import is_plain_name

# The largest values that settings accept. They are far above what training needs, and low enough to refuse a typing
# error or a hostile file before memory is requested. A value within the limits that does not fit into memory is refused
# later, with its name.
MAX_STEPS = 10**15
MAX_NUM_ENVS = 100_000
MAX_WORKERS = 1_024
MAX_RESTARTS = 1_000_000
MAX_SECONDS = 10_000_000
MAX_EPISODES = 1_000_000
MAX_CHECKPOINTS = 1_000_000
# Longer than the episodes of any known benchmark, so that no result changes; it bounds episodes that never end.
MAX_EPISODE_STEPS = 100_000
AUTO = "auto"  # in place of a preset's name: the one for the spaces of each behavior; and a value of `resume`
NO_PRESET = "none"  # and this: the trainers' defaults
# A batch system may start a job again while the old one still saves: Slurm kills after 30 seconds, and NFS frees the
# lock of a lost host after about 90.
LOCK_SECONDS = 120.0
Signal = Literal["SIGUSR1", "SIGUSR2", "SIGXCPU", "SIGALRM", "SIGQUIT"]


_NETWORKS = (".pt", ".onnx", ".nn")  # of ML-Agents


def network_problem(path: str) -> str | None:
    """Return the problem of a path of weights, or None: rlcore cannot load networks of ML-Agents."""
    if Path(path).suffix not in _NETWORKS:
        return None
    return (
        "must be a run directory of rlcore, or one of its checkpoints, such as results/RUN_ID/checkpoints/5000 (rlcore "
        f"cannot load networks of ML-Agents: {', '.join(_NETWORKS)})"
    )


# ---------------------------------------------------------------- behaviors


@attrs.frozen(kw_only=True)
class PolicySettings:
    """``network_settings`` of a trainer whose record names no other class; the base of all such classes."""

    deterministic: bool = setting(False, "Take the mean or most likely action in training too.")


# Where ML-Agents has a key, the default is that of ML-Agents 1.1.0, so that its files mean the same here.
# A comment says where it is not.


@attrs.frozen(kw_only=True)
class RewardSettings:
    """Settings of every reward signal; a reward plugin's settings class derives from this class."""

    gamma: float = setting(0.99, "Discount factor of this reward.", minimum=0.0, maximum=1.0)
    strength: float = setting(1.0, "Factor on this reward.")


@attrs.frozen(kw_only=True)
class ExtrinsicSettings(RewardSettings):
    """Settings of the reward ``extrinsic``, the environment's own."""

    network_settings: dict[str, Any] | None = setting(
        None,
        "Without effect: ML-Agents has the key in every reward signal, and this one has no network.",
        foreign=True,
    )


@attrs.frozen(kw_only=True)
class AbsentRewardSettings(RewardSettings):
    """A reward whose plugin is absent, in a configuration that is loaded to measure policies."""


@attrs.frozen(kw_only=True)
class BehaviorSettings:
    """How one behavior learns: a block of ``behaviors``, or ``default_settings``."""

    preset: str | None = setting(
        None,
        "Preset of this behavior, if the file names none for all of them (an rlcore key).",
        record="preset",
        choices=(AUTO, NO_PRESET),
    )
    trainer_type: str = setting(
        "ppo", "Trainer of the behavior: a registered name, or DISTRIBUTION/NAME.", foreign=True
    )
    hyperparameters: Any = setting(None, "The trainer's own settings.", chooses=Choice("trainer", "trainer_type"))
    network_settings: Any = setting(
        factory=PolicySettings,
        description="Network of the policy and the critic.",
        chooses=Choice("trainer", "trainer_type", attribute="network"),
    )
    reward_signals: dict[str, Any] = setting(
        factory=dict,
        description="Rewards by provider name; by default, the environment's own (extrinsic).",
        chooses=Choice("reward", by="name", absent=AbsentRewardSettings),
    )
    init_path: str | None = setting(
        None,
        "Checkpoint directory, or run directory, whose weights the behavior starts with.",
        check=network_problem,
        foreign=is_plain_name,
    )
    keep_checkpoints: int = setting(5, "Number of checkpoints to keep; 0 or less keeps all.", maximum=MAX_CHECKPOINTS)
    even_checkpoints: bool = setting(
        False, "Spread keep_checkpoints evenly over max_steps instead of using checkpoint_interval."
    )
    # ML-Agents has 500000: a run of its default max_steps would have one checkpoint, at the end.
    checkpoint_interval: int | None = setting(
        None,
        "Agent steps between checkpoints; by default a tenth of max_steps, at most 500000. If each checkpoint restarts "
        "all episodes, because the environment cannot save its state: what ten minutes take, if these are more.",
        minimum=1,
        maximum=MAX_STEPS,
    )
    max_steps: int = setting(500_000, "Agent steps to train.", minimum=1, maximum=MAX_STEPS)
    time_horizon: int = setting(
        64, "Agent steps of one agent before its trainer bootstraps.", minimum=1, maximum=MAX_STEPS
    )
    summary_freq: int = setting(50_000, "Agent steps between summaries.", minimum=1, maximum=MAX_STEPS)
    threaded: bool = setting(
        False, "ML-Agents' scheduling of trainers in threads: accepted without effect, because results do not need it."
    )
    sections: dict[str, Any] = setting(
        factory=dict,
        description="Plugins' own blocks of the behavior, by key.",
        chooses=Choice("behavior", by="claim", attribute="target"),
    )


# ---------------------------------------------------------------- environments


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

    type: str = setting("lessons", "Type of curriculum: a registered name, or DISTRIBUTION/NAME.", foreign=True)


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

    executor: str = setting("processes", "How workers run: a registered name, or DISTRIBUTION/NAME.", foreign=True)
    count: int = setting(
        description="Number of workers, which share the environments as equally as possible.",
        minimum=1,
        maximum=MAX_WORKERS,
    )


@attrs.frozen(kw_only=True)
class EnvironmentSettings:
    """An environment: its type, which one of that type, and how it is made.

    A type of environment with keys of its own in this block has a settings class that derives from this class;
    :class:`rlcore.EnvironmentSpec` names it.

    Attributes:
        chosen: The kind of record that ``type`` names.
    """

    chosen: ClassVar[Choice] = Choice("environment", attribute="block")

    type: str = setting("gymnasium", "Type of environment: a registered name, or DISTRIBUTION/NAME.", foreign=True)
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
            refusal="takes parameters by their names; delete this block",
        ),
    )

    info: list[str] | Literal["all"] | None = setting(
        None,
        "Numbers of an episode's last info that become statistics, by name, or all of them; null for those that the "
        "environment reports by itself.",
    )

    def __attrs_post_init__(self) -> None:
        if isinstance(self.workers, int):  # given by a program: one shape for all that read it
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
    stop_at: float | dict[str, float] | None = setting(
        None,
        "Score at which the run ends: mean reward of an evaluation's episodes, averaged over opponents, or over "
        "behaviors where there are none. Or means of numbers of environment.info by name, which all must be reached.",
    )
    keep_best: bool = setting(True, "Keep the policies with the best score in checkpoints/best.")
    # Without a limit, an agent that never ends its episode would keep an evaluation, and the training, waiting.
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

    def __attrs_post_init__(self) -> None:
        if self.interval is None and self.stop_at is not None:
            raise SettingError("stop_at", "without an interval no evaluation could stop the run", others=("interval",))


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


# ---------------------------------------------------------------- the run


@attrs.frozen(kw_only=True)
class CheckpointSettings:
    """The name of the run, and how it starts."""

    run_id: str = setting("ppo", "Name of the run; its directory is results_dir/run_id.", foreign=is_plain_name)
    initialize_from: str | None = setting(
        None,
        "Run id whose weights this run starts with, at step 0; or a trained agent such as zoo:ppo/CartPole-v1.",
        foreign=is_plain_name,
    )
    initialize_lessons_from: str | None = setting(
        None,
        "Run of rlcore or ML-Agents whose lessons this run starts with: its id or directory (an rlcore key).",
        foreign=is_plain_name,
    )
    resume: bool | Literal["auto"] = setting(
        False,
        "Resume the run from its last checkpoint; auto (an rlcore value): start the run, continue it, or do nothing if "
        "it is finished.",
    )
    checkpoint: str | None = setting(
        None,
        "Checkpoint to resume or to act from: a step, or best; by default the newest intact one (an rlcore key).",
        foreign=is_plain_name,
    )
    asynchronous: bool = setting(
        False, "Write the checkpoints of an interval while the training continues (an rlcore key)."
    )
    force: bool = setting(False, "Replace an existing run of this name.")
    inference: bool = setting(False, "Act with the saved policy without learning.")
    results_dir: str = setting("results", "Directory of run directories.", foreign=is_plain_name)
    wait_for_lock: float | None = setting(
        None,
        "Seconds to wait while another process writes to the run; by default 120 with resume: auto, otherwise 0 (an "
        "rlcore key).",
        minimum=0.0,
        maximum=MAX_SECONDS,
    )
    stop_signals: list[Signal] = setting(
        factory=lambda: ["SIGUSR1", "SIGUSR2", "SIGXCPU"],
        description="Signals that save a checkpoint and end the run, beside SIGINT, SIGTERM and SIGHUP (an rlcore "
        "key).",
    )
    save_signals: list[Signal] = setting(
        factory=list,
        description="Signals that save a checkpoint, after which the run continues, even if stop_signals has them too "
        "(an rlcore key).",
    )

    @property
    def lock_seconds(self) -> float:
        """Seconds to wait for the lock of the run directory."""
        if self.wait_for_lock is not None:
            return self.wait_for_lock
        return LOCK_SECONDS if self.resume == AUTO else 0.0

    def signals(self) -> dict[int, bool]:
        """The numbers of the signals that save a checkpoint, each with whether the run then ends."""
        ends = dict.fromkeys(("SIGINT", "SIGTERM", "SIGHUP", *self.stop_signals), True)
        ends |= dict.fromkeys(self.save_signals, False)
        # Windows has few of them.
        return {getattr(signal, name): end for name, end in ends.items() if hasattr(signal, name)}


@attrs.frozen(kw_only=True)
class PluginSettings:
    """The choice of plugins to load. It is made before any plugin is imported."""

    autoload: bool = setting(True, "Load every installed plugin that is not disabled.")
    enable: list[str] = setting(
        factory=list, description="Plugins to load, by NAME or DISTRIBUTION/NAME.", foreign=is_plain_name
    )
    disable: list[str] = setting(factory=list, description="Plugins not to load.", foreign=is_plain_name)
    local: list[str] = setting(
        factory=list, description="Plugins that are not installed: a module 'acme.hooks' or a file './hooks.py'."
    )
    chosen: dict[str, list[str]] = setting(
        factory=dict,
        description="The records that a run learns with, as DISTRIBUTION/NAME by kind, such as trainer. A name without "
        "a distribution means the one listed here. Runs write this.",
        foreign=is_plain_name,
    )
    optional: dict[str, list[str]] = setting(
        factory=dict,
        description="The other records that a run uses, such as statistics writers. If one is missing, its block is "
        "left out with a warning. Runs write this.",
        foreign=is_plain_name,
    )

    def __attrs_post_init__(self) -> None:
        for field in ("chosen", "optional"):
            for kind, references in getattr(self, field).items():
                for reference in references:
                    if not all(reference.partition("/")):
                        raise SettingError(field, f"{kind}: {reference!r} must be DISTRIBUTION/NAME")


@attrs.frozen(kw_only=True)
class ExportSettings:
    """Settings of every exporter; the settings class of a plugin's exporter derives from this class."""

    checkpoints: bool = setting(
        False, "Export the policies at every checkpoint too; such a file is deleted with its checkpoint."
    )


@attrs.frozen(kw_only=True)
class RunConfig:
    """A whole configuration, checked and complete."""

    preset: str | None = setting(
        AUTO,
        "Values for keys that the file does not give: a preset of a plugin; auto: for each behavior the one for its "
        "trainer and spaces; none: the trainers' defaults (an rlcore key).",
        record="preset",
        choices=(AUTO, NO_PRESET),
    )
    behaviors: dict[str, BehaviorSettings] = setting(factory=dict, description="How each behavior learns.")
    default_settings: BehaviorSettings | None = setting(
        None, "Settings that behaviors inherit. A behavior that is not listed has exactly these."
    )
    environment: EnvironmentSettings | None = setting(None, "The environment to train in (an rlcore block).")
    evaluation: EvaluationSettings | None = setting(
        None, "Evaluations of the policies while the run trains (an rlcore block)."
    )
    env_settings: EnvSettings = setting(factory=EnvSettings, description="Seed, and how workers start.")
    environment_parameters: dict[str, EnvironmentParameter] = setting(
        factory=dict,
        description="Numbers the environment reads when an episode starts: each is a value, a sampler or a curriculum.",
    )
    checkpoint_settings: CheckpointSettings = setting(
        factory=CheckpointSettings, description="The name of the run, and how it starts."
    )
    sections: dict[str, Any] = setting(
        factory=dict,
        description="Plugins' own blocks, by name.",
        chooses=Choice("section", by="claim", attribute="target"),
    )
    plugins: PluginSettings = setting(factory=PluginSettings, description="Which plugins are loaded (an rlcore block).")
    stats: dict[str, Any] = setting(
        factory=dict,
        description="Statistics writers: settings by name, or false to turn a writer off (an rlcore block).",
        chooses=Choice("writer", by="name", switch=True),
    )
    export: dict[str, Any] = setting(
        factory=dict,
        description="Exporters that write the policies for other programs when the run ends: settings by name, or a "
        "list of names (an rlcore block).",
        chooses=Choice("exporter", by="name"),
    )
    debug: bool = setting(False, "Log more, such as every plugin that was loaded, and why.")

    @property
    def num_envs(self) -> int:
        """The number of environments that training steps together."""
        return 1 if self.environment is None else self.environment.num_envs or 1

    @property
    def evaluation_environment(self) -> EnvironmentSettings | None:
        """The environment of evaluations: that of ``evaluation``, or else that of training; None if there is neither.

        Its ``num_envs`` is None unless ``evaluation.environment`` sets it.
        """
        if self.evaluation is not None and self.evaluation.environment is not None:
            return self.evaluation.environment
        return None if self.environment is None else attrs.evolve(self.environment, num_envs=None, workers=None)

    @property
    def lone_lessons(self) -> frozenset[str]:
        """The environment parameters that have only one lesson: numbers and samplers."""
        lessons = {
            name: getattr(parameter.curriculum, "lessons", None)
            for name, parameter in self.environment_parameters.items()
        }
        return frozenset(name for name, each in lessons.items() if isinstance(each, Sequence) and len(each) == 1)
