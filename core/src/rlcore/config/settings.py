"""The configuration file as classes. Names, defaults and meanings are ML-Agents' wherever it has the key.

Blocks that belong to plugins (``hyperparameters``, a reward signal, a writer, a plugin's section) hold an instance of
the plugin's own settings class.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from rlcore.errors import ConfigError
from rlcore.settings.fields import setting

# The most that settings take: far above any training, and low enough that a slip of the keyboard, or a file of somebody
# else, is refused before memory is asked for. What is allowed and does not fit into memory is refused later, by name.
MAX_UNITS = 65_536
MAX_LAYERS = 256
MAX_ROWS = 1_000_000_000
MAX_ROLLOUT = 100_000_000
MAX_N_STEPS = 10_000
MAX_PASSES = 100_000
MAX_STEPS = 10**15
MAX_COPIES = 100_000
MAX_EPISODES = 1_000_000
MAX_CHECKPOINTS = 1_000_000
MAX_THREADS = 1_024


@attrs.frozen(kw_only=True)
class NetworkSettings:
    """The network of a policy or a critic."""

    normalize: bool = setting(False, "Normalise vector observations by their running mean and variance.")
    hidden_units: int = setting(128, "Width of each hidden layer.", minimum=1, maximum=MAX_UNITS)
    num_layers: int = setting(
        2, "Number of hidden layers after the observation encoders.", minimum=0, maximum=MAX_LAYERS
    )
    vis_encode_type: str = setting(
        "simple",
        "Encoder of image observations.",
        choices=("simple", "nature_cnn", "resnet", "match3", "fully_connected"),
    )
    memory: dict[str, Any] | None = setting(None, "Recurrent memory.", not_supported="recurrent policies")
    goal_conditioning_type: str = setting(
        "hyper", "How goal observations enter the network, where an environment has any.", choices=("hyper", "none")
    )
    deterministic: bool = setting(False, "Act by the mean or most likely action also while training.")
    activation: str = setting(
        "swish",
        "Non-linearity of the hidden layers (an rlcore key; ML-Agents has swish).",
        choices=("swish", "tanh", "relu"),
    )
    init: str = setting(
        "kaiming",
        "Initial weights: ML-Agents' Kaiming normal, orthogonal, or PyTorch's own uniform (an rlcore key).",
        choices=("kaiming", "orthogonal", "uniform"),
    )


@attrs.frozen(kw_only=True)
class RewardSettings:
    """What every reward signal has; a reward plugin's settings class derives from it."""

    gamma: float = setting(0.99, "Discount factor of this reward.", minimum=0.0, maximum=1.0)
    strength: float = setting(1.0, "Factor on this reward.")
    network_settings: NetworkSettings = setting(
        factory=NetworkSettings, description="Network of the signal itself, where it has one."
    )


SCHEDULES = ("linear", "constant")


@attrs.frozen(kw_only=True)
class OnPolicySettings:
    """``hyperparameters`` of a trainer built on :class:`rlcore.torch.on_policy.OnPolicyTrainer`; derive from it."""

    batch_size: int = setting(1024, "Transitions in one minibatch.", minimum=1, maximum=MAX_ROLLOUT)
    buffer_size: int = setting(
        10240, "Agent steps collected, over all agents, before an update.", minimum=2, maximum=MAX_ROLLOUT
    )
    learning_rate: float = setting(3e-4, "Step size of Adam.", exclusive_minimum=0.0)
    learning_rate_schedule: str = setting("linear", "How learning_rate falls over max_steps.", choices=SCHEDULES)
    lambd: float = setting(0.95, "Lambda of generalised advantage estimation.", minimum=0.0, maximum=1.0)
    num_epoch: int = setting(3, "Passes over the rollout in one update.", minimum=1, maximum=MAX_PASSES)
    max_grad_norm: float = setting(0.5, "L2 norm the gradient is clipped to (an rlcore key).", exclusive_minimum=0.0)
    target_kl: float | None = setting(
        None,
        "An update stops after the first pass whose KL divergence exceeds 1.5 times this (an rlcore key).",
        exclusive_minimum=0.0,
    )
    advantage_normalization: str = setting(
        "rollout",
        "Advantages are standardised over the rollout, over each minibatch, or not (an rlcore key).",
        choices=("rollout", "minibatch", "none"),
    )
    adam_epsilon: float = setting(1e-5, "Epsilon of Adam (an rlcore key).", exclusive_minimum=0.0)

    def __attrs_post_init__(self) -> None:
        if self.batch_size > self.buffer_size:
            raise ConfigError(f"batch_size: must be at most buffer_size ({self.buffer_size}), not {self.batch_size}")


@attrs.frozen(kw_only=True)
class MinibatchSettings:
    """``hyperparameters`` of every trainer that draws minibatches from a store of transitions."""

    batch_size: int = setting(128, "Transitions in one minibatch.", minimum=1, maximum=MAX_ROWS)
    learning_rate: float = setting(3e-4, "Step size of Adam.", exclusive_minimum=0.0)
    learning_rate_schedule: str = setting("constant", "How learning_rate falls over max_steps.", choices=SCHEDULES)
    adam_epsilon: float = setting(1e-8, "Epsilon of Adam (an rlcore key).", exclusive_minimum=0.0)


@attrs.frozen(kw_only=True)
class PrioritizedReplaySettings:
    """Proportional prioritised replay (Schaul et al. 2016, arXiv:1511.05952)."""

    alpha: float = setting(0.6, "Exponent of priorities; 0 is uniform sampling.", minimum=0.0)
    beta: float = setting(0.4, "Exponent of importance weights at the start.", minimum=0.0, maximum=1.0)
    final_beta: float = setting(1.0, "What beta has grown to, linearly, at max_steps.", minimum=0.0, maximum=1.0)


@attrs.frozen(kw_only=True)
class OffPolicySettings(MinibatchSettings):
    """``hyperparameters`` of a trainer built on :class:`rlcore.torch.off_policy.OffPolicyTrainer`; derive from it."""

    buffer_size: int = setting(50_000, "Rows of the replay buffer, over all agents.", minimum=2, maximum=MAX_ROWS)
    buffer_init_steps: int = setting(
        0, "Agent steps of random actions before the first gradient step.", minimum=0, maximum=MAX_STEPS
    )
    steps_per_update: float = setting(1.0, "Agent steps for each gradient step; any ratio.", exclusive_minimum=0.0)
    reward_signal_steps_per_update: float | None = setting(
        None, "Agent steps for each update of learning reward signals; without it, steps_per_update.",
        exclusive_minimum=0.0,
    )  # fmt: skip
    save_replay_buffer: bool = setting(False, "Keep the replay buffer in checkpoints, for an exact resume.")
    n_steps: int = setting(1, "Rewards summed before bootstrapping (an rlcore key).", minimum=1, maximum=MAX_N_STEPS)
    prioritized_replay: PrioritizedReplaySettings | None = setting(
        None, "Sample by temporal-difference error instead of uniformly (an rlcore key)."
    )

    def __attrs_post_init__(self) -> None:
        if self.batch_size > self.buffer_size:
            raise ConfigError(f"batch_size: must be at most buffer_size ({self.buffer_size}), not {self.batch_size}")


@attrs.frozen(kw_only=True)
class OfflineSettings(MinibatchSettings):
    """``hyperparameters`` of a trainer built on :class:`rlcore.torch.offline.OfflineTrainer`; derive from it.

    ``max_steps``, ``summary_freq`` and ``checkpoint_interval`` count gradient steps here.
    """

    demo_path: str = setting(description="Recorded data: a dataset's directory, or one that holds several.")


@attrs.frozen(kw_only=True)
class BehavioralCloningSettings:
    """Imitating demonstrations beside reinforcement learning (ML-Agents' ``behavioral_cloning``)."""

    demo_path: str = setting(description="Recorded data: a dataset's directory, or one that holds several.")
    strength: float = setting(1.0, "Learning rate of imitation, as a factor on learning_rate.", exclusive_minimum=0.0)
    steps: int = setting(0, "Agent steps over which imitation fades out; 0 never does.", minimum=0, maximum=MAX_STEPS)
    samples_per_update: int = setting(
        0,
        "Demonstrated steps in one pass of an update; 0 takes all of them, or one minibatch in off-policy trainers, "
        "which update in every step.",
        minimum=0,
        maximum=MAX_ROWS,
    )
    num_epoch: int | None = setting(
        None, "Passes over them in one update; without it, the trainer's, or 3.", minimum=1, maximum=MAX_PASSES
    )
    batch_size: int | None = setting(
        None, "Steps in one minibatch; without it, the trainer's.", minimum=1, maximum=MAX_ROWS
    )


@attrs.frozen(kw_only=True)
class BehaviorSettings:
    """How one behavior learns: a block of ``behaviors``, or ``default_settings``."""

    trainer_type: str = setting("ppo", "Which trainer learns it: a registered name, or DISTRIBUTION/NAME.")
    hyperparameters: Any = setting(None, "The trainer's own settings.")
    network_settings: NetworkSettings = setting(factory=NetworkSettings, description="Network of policy and critic.")
    reward_signals: dict[str, Any] = setting(
        factory=dict, description="Rewards by provider name; without any, the environment's own (extrinsic)."
    )
    init_path: str | None = setting(
        None, "Checkpoint directory, or run directory, whose weights the behavior starts from."
    )
    keep_checkpoints: int = setting(5, "How many checkpoints to keep; 0 or less keeps all.", maximum=MAX_CHECKPOINTS)
    even_checkpoints: bool = setting(
        False, "Spread keep_checkpoints evenly over max_steps instead of using checkpoint_interval."
    )
    checkpoint_interval: int | None = setting(
        None,
        "Agent steps between checkpoints; without it, a tenth of max_steps, at most 500000.",
        minimum=1,
        maximum=MAX_STEPS,
    )
    max_steps: int = setting(500_000, "Agent steps to learn from.", minimum=1, maximum=MAX_STEPS)
    time_horizon: int = setting(
        64, "Agent steps a trainer may see of one agent before it bootstraps.", minimum=1, maximum=MAX_STEPS
    )
    summary_freq: int = setting(50_000, "Agent steps between summaries.", minimum=1, maximum=MAX_STEPS)
    threaded: bool = setting(False, "Learn in a thread beside the environment.", not_supported="threaded training")
    self_play: dict[str, Any] | None = setting(None, "Self-play.", not_supported="the ghost trainer")
    behavioral_cloning: BehavioralCloningSettings | None = setting(
        None, "Imitate demonstrations beside reinforcement learning."
    )


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


# More than any known benchmark lets an episode last, so that no result changes; a bound for one that has no end.
MAX_EPISODE_STEPS = 100_000


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


@attrs.frozen(kw_only=True)
class EnvSettings:
    """ML-Agents' ``env_settings``: the seed, the number of copies, and Unity's player."""

    env_path: str | None = setting(None, "Unity player.", not_supported="Unity environments")
    env_args: list[str] | None = setting(None, "Arguments of the Unity player.", not_supported="Unity environments")
    base_port: int = setting(
        5005, "Port of the first Unity player.", minimum=0, maximum=65535, not_supported="Unity environments"
    )
    num_envs: int = setting(1, "Copies of the environment stepped together.", minimum=1, maximum=MAX_COPIES)
    num_areas: int = setting(1, "Training areas in a Unity scene.", minimum=1, not_supported="Unity environments")
    timeout_wait: int = setting(60, "Seconds to wait for a worker.", minimum=0, not_supported="supervised workers")
    seed: int = setting(-1, "Seed of the run; -1 draws one and writes it down.", minimum=-1, maximum=2**31 - 1)
    max_lifetime_restarts: int = setting(
        10, "Restarts of one worker; -1 for no limit.", minimum=-1, not_supported="supervised workers"
    )
    restarts_rate_limit_n: int = setting(
        1, "Restarts of one worker within the period; -1 for no limit.", minimum=-1, not_supported="supervised workers"
    )
    restarts_rate_limit_period_s: int = setting(
        60, "The period, in seconds.", minimum=1, not_supported="supervised workers"
    )


@attrs.frozen(kw_only=True)
class EngineSettings:
    """ML-Agents' ``engine_settings``: the Unity player's own, read when a Unity environment is used."""

    width: int = setting(84, "Window width in pixels.", minimum=1, not_supported="Unity environments")
    height: int = setting(84, "Window height in pixels.", minimum=1, not_supported="Unity environments")
    quality_level: int = setting(5, "Unity quality level.", minimum=0, not_supported="Unity environments")
    time_scale: float = setting(20, "Unity time scale.", exclusive_minimum=0, not_supported="Unity environments")
    target_frame_rate: int = setting(
        -1, "Unity target frame rate; -1 for none.", minimum=-1, not_supported="Unity environments"
    )
    capture_frame_rate: int = setting(60, "Unity capture frame rate.", minimum=0, not_supported="Unity environments")
    no_graphics: bool = setting(False, "Run the player without graphics.", not_supported="Unity environments")
    no_graphics_monitor: bool = setting(False, "Only the first player draws.", not_supported="Unity environments")


@attrs.frozen(kw_only=True)
class CheckpointSettings:
    """Which run this is and how it starts."""

    run_id: str = setting("ppo", "Name of the run; its directory is results_dir/run_id.")
    initialize_from: str | None = setting(None, "Run id whose weights this run starts from, at step 0.")
    initialize_lessons_from: str | None = setting(
        None, "Run, of rlcore or ML-Agents, whose lessons this run starts with: its id or directory (an rlcore key)."
    )
    load_model: bool = setting(False, "Deprecated by ML-Agents.", not_supported="load_model; use resume")
    resume: bool = setting(False, "Go on with the run from its last checkpoint.")
    force: bool = setting(False, "Replace an existing run of this name.")
    train_model: bool = setting(False, "Deprecated by ML-Agents.", not_supported="train_model; leave it out")
    inference: bool = setting(False, "Act with the saved policy and learn nothing.")
    results_dir: str = setting("results", "Where run directories are made.")


@attrs.frozen(kw_only=True)
class TorchSettings:
    """PyTorch's device and threads."""

    device: str | None = setting(None, "Device such as cpu or cuda:0; without it, the trainer's own choice.")
    num_threads: int = setting(
        1, "Threads of a trainer: 1 uses one core (an rlcore key).", minimum=1, maximum=MAX_THREADS
    )
    fast_cpu: bool = setting(
        True,
        "Compute on a CPU with rlcore's fast versions of some operations; false is plain PyTorch (an rlcore key).",
    )


@attrs.frozen(kw_only=True)
class PluginSettings:
    """Which plugins are loaded, decided before any is imported."""

    autoload: bool = setting(True, "Load every installed plugin that is not disabled.")
    enable: list[str] = setting(factory=list, description="Plugins to load, by NAME or DISTRIBUTION/NAME.")
    disable: list[str] = setting(factory=list, description="Plugins not to load.")
    local: list[str] = setting(
        factory=list, description="Plugins that are not installed: a module 'acme.hooks' or a file './hooks.py'."
    )


@attrs.frozen(kw_only=True)
class RunConfig:
    """A whole configuration, checked and complete."""

    behaviors: dict[str, BehaviorSettings] = setting(factory=dict, description="How each behavior learns.")
    default_settings: BehaviorSettings | None = setting(
        None, "What behaviors start from, and what a behavior that is not listed gets."
    )
    environment: EnvironmentSettings | None = setting(None, "Which environment to train in (an rlcore block).")
    evaluation: EvaluationSettings | None = setting(
        None, "Measuring the policies while the run trains (an rlcore block)."
    )
    env_settings: EnvSettings = setting(factory=EnvSettings, description="Seed, copies and Unity's player.")
    engine_settings: EngineSettings = setting(factory=EngineSettings, description="Unity's player.")
    environment_parameters: dict[str, Any] = setting(
        factory=dict,
        description="Numbers the environment reads when an episode begins: a value, a sampler or a curriculum of each.",
    )
    checkpoint_settings: CheckpointSettings = setting(
        factory=CheckpointSettings, description="Which run this is and how it starts."
    )
    torch_settings: TorchSettings = setting(factory=TorchSettings, description="PyTorch's device and threads.")
    plugins: PluginSettings = setting(factory=PluginSettings, description="Which plugins are loaded (an rlcore block).")
    stats: dict[str, Any] = setting(
        factory=dict,
        description="Statistics writers: name to settings, or false to turn one off (an rlcore block).",
    )
    debug: bool = setting(False, "Log more: every plugin that was loaded, and why.")
    sections: dict[str, Any] = setting(factory=dict, description="Plugins' own blocks, by name.")

    @property
    def lone_lessons(self) -> frozenset[str]:
        """The environment parameters that have one lesson for good: numbers and samplers."""
        lessons = {
            name: getattr(parameter.curriculum, "lessons", None)
            for name, parameter in self.environment_parameters.items()
        }
        return frozenset(name for name, each in lessons.items() if isinstance(each, Sequence) and len(each) == 1)
