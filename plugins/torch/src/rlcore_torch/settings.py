"""Settings of trainers and networks in PyTorch: names, defaults and meanings are ML-Agents' where it has them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import attrs

from rlcore import (
    METADATA_KEY,
    BehaviorSettings,
    Choice,
    FieldInfo,
    PolicySettings,
    RunConfig,
    SettingError,
    TrainerSpec,
    is_plain_name,
    setting,
)

if TYPE_CHECKING:
    from rlcore import Plugins

# Far above what training needs, and low enough to refuse a typing error or a hostile file before memory is requested.
MAX_LAYERS = 256
MAX_N_STEPS = 10_000
MAX_PASSES = 100_000
MAX_ROLLOUT = 100_000_000
MAX_ROWS = 1_000_000_000
MAX_STEPS = 10**15
MAX_UNITS = 65_536

ACTIVATIONS = ("swish", "tanh", "relu", "leaky_relu", "elu", "selu", "gelu", "mish", "softplus", "sigmoid")


def below_one(share: float) -> str | None:
    """Say why not all of something can be left out."""
    return None if share < 1.0 else "must be less than 1"


@attrs.frozen(kw_only=True)
class MemorySettings:
    """The memory of a recurrent policy (ML-Agents' ``memory``): a recurrent layer after the hidden layers."""

    type: str = setting("lstm", "Recurrent layer: LSTM, or GRU (an rlcore key).", choices=("lstm", "gru"))
    memory_size: int = setting(
        128,
        "Numbers that an agent remembers; an LSTM has half as many units, a GRU as many.",
        minimum=2,
        maximum=2 * MAX_UNITS,
    )
    sequence_length: int = setting(
        64, "Steps of an episode that are learned from in one sequence.", minimum=1, maximum=MAX_ROLLOUT
    )
    burn_in: int | None = setting(
        None,
        "Steps before a sequence, at most, that networks pass through without learning from them, where stored steps "
        "are learned from (an rlcore key); null for half of sequence_length.",
        minimum=0,
        maximum=MAX_ROLLOUT,
    )

    def __attrs_post_init__(self) -> None:
        if self.memory_size % 2 and self.type == "lstm":
            raise SettingError("memory_size", f"must be even, not {self.memory_size}", others=("type",))

    @property
    def lead(self) -> int:
        """Steps of burn-in before a sequence, at most."""
        return self.sequence_length // 2 if self.burn_in is None else self.burn_in


@attrs.frozen(kw_only=True)
class CriticSettings:
    """The network of a critic where it differs from that of the policy."""

    hidden_units: int | None = setting(
        None, "Width of each hidden layer; null for that of the policy.", minimum=1, maximum=MAX_UNITS
    )
    num_layers: int | None = setting(
        None, "Number of hidden layers; null for that of the policy.", minimum=0, maximum=MAX_LAYERS
    )
    hidden_layers: tuple[int, ...] | None = setting(
        None,
        "Widths of the hidden layers, one by one, in place of hidden_units and num_layers.",
        minimum=1,
        maximum=MAX_UNITS,
    )
    activation: str | None = setting(None, "Non-linearity; null for that of the policy.", choices=ACTIVATIONS)
    layer_norm: bool | None = setting(None, "Whether layers are normalized; null for what the policy does.")
    dropout: float | None = setting(
        None, "Share of features that is left out; null for that of the policy.", minimum=0.0, check=below_one
    )


@attrs.frozen(kw_only=True)
class StateDependentGaussianSettings:
    """Settings of the distribution ``state_dependent_gaussian``."""

    min_log_std: float = setting(-5.0, "Logarithm of the smallest standard deviation.")
    max_log_std: float = setting(2.0, "Logarithm of the largest standard deviation.")

    def __attrs_post_init__(self) -> None:
        if self.min_log_std >= self.max_log_std:
            problem = f"must be less than max_log_std ({self.max_log_std:g}), not {self.min_log_std:g}"
            raise SettingError("min_log_std", problem, others=("max_log_std",))


@attrs.frozen(kw_only=True)
class ImpalaSettings:
    """Settings of the encoder ``impala``; the defaults are the paper's."""

    channels: tuple[int, ...] = setting((16, 32, 32), "Channels of each stage.", minimum=1, maximum=MAX_UNITS)
    features: int = setting(256, "Width of the layer after the stages.", minimum=1, maximum=MAX_UNITS)


@attrs.frozen(kw_only=True)
class GSDESettings:
    """Settings of the distribution ``gsde``."""

    initial_log_std: float = setting(0.0, "Logarithm of the first standard deviations of the noise matrix.")
    resample_every: int = setting(
        4, "Environment steps for which an agent keeps its noise matrix.", minimum=1, maximum=MAX_ROLLOUT
    )
    learn_features: bool = setting(
        False, "Whether the size of the noise has a gradient for the features that noise is made of."
    )
    full_std: bool = setting(True, "A standard deviation for each feature and part, not one for each feature.")
    expln: bool = setting(
        False, "Let standard deviations above 1 grow with the logarithm of what is learned, not exponentially."
    )


@attrs.frozen(kw_only=True)
class SquashedGSDESettings(GSDESettings):
    """Settings of the distribution ``squashed_gsde``; the defaults are those of SAC."""

    initial_log_std: float = setting(-3.0, "Logarithm of the first standard deviations of the noise matrix.")
    learn_features: bool = setting(
        True, "Whether the size of the noise has a gradient for the features that noise is made of."
    )
    clip_mean: float | None = setting(
        2.0, "Largest absolute value of the mean, before tanh; null for none.", exclusive_minimum=0.0
    )


def reads(kind: str) -> Callable[[Any], str | None]:
    """Return a function that says why an encoder does not read observations of this kind, or None."""

    def problem(record: Any) -> str | None:
        return None if kind in record.kinds else f"{record.described} does not read {kind} observations"

    return problem


def _others(plugins: Plugins, ability: str) -> str:
    """``, or choose trainer_type ppo``: the trainers whose records declare ``ability``."""
    able = [str(record.name) for record in plugins.records("trainer") if getattr(record, ability, False)]
    return f", or choose trainer_type {' or '.join(able)}" if able else ""


def _gives_log_prob(record: Any) -> bool:
    return bool(record.log_prob_of_draws)


def _is_changed(settings: Any, key: str) -> bool:
    """Whether ``settings`` have ``key``, and a value other than its default."""
    fields = attrs.fields_dict(type(settings)) if attrs.has(type(settings)) else {}
    return key in fields and getattr(settings, key) != fields[key].default


@attrs.frozen(kw_only=True)
class NetworkSettings(PolicySettings):
    """The network of a policy or a critic."""

    normalize: bool = setting(False, "Normalize vector observations with their running mean and variance.")
    normalize_clip: float = setting(
        5.0,
        "Largest absolute value of a normalized observation, in standard deviations (an rlcore key; ML-Agents has 5).",
        exclusive_minimum=0.0,
    )
    hidden_units: int = setting(128, "Width of each hidden layer.", minimum=1, maximum=MAX_UNITS)
    num_layers: int = setting(
        2, "Number of hidden layers after the observation encoders.", minimum=0, maximum=MAX_LAYERS
    )
    hidden_layers: tuple[int, ...] | None = setting(
        None,
        "Widths of the hidden layers, one by one, in place of hidden_units and num_layers (an rlcore key). "
        "hidden_units is then the number of features of each encoder only.",
        minimum=1,
        maximum=MAX_UNITS,
    )
    critic: CriticSettings | None = setting(
        None, "What differs in the network of a critic (an rlcore key); null for nothing."
    )
    critic_observations: tuple[str, ...] = setting(
        (),
        "Observations that only critics read, such as the state of a simulator (an rlcore key); acting, evaluation and "
        "export do not need them.",
        foreign=True,
    )
    vis_encode_type: str = setting(
        "simple", "Encoder of image observations: a registered name, or DISTRIBUTION/NAME.", foreign=True
    )
    vis_encode_settings: Any = setting(
        None,
        "The encoder's own settings, if it has any (an rlcore key); null for its defaults.",
        chooses=Choice("encoder", "vis_encode_type", reads("image")),
    )
    vector_encode_type: str | None = setting(
        None,
        "Encoder of vector observations: a name that a plugin registers (an rlcore key); null for none, so that "
        "they enter the hidden layers as they are.",
        foreign=True,
    )
    vector_encode_settings: Any = setting(
        None,
        "The encoder's own settings, if it has any (an rlcore key); null for its defaults.",
        chooses=Choice("encoder", "vector_encode_type", reads("vector")),
    )
    action_distribution: str | None = setting(
        None,
        "Distribution of continuous actions: a registered name, or DISTRIBUTION/NAME (an rlcore key); null for the "
        "trainer's own, which is gaussian if the key is allowed.",
        foreign=True,
    )
    action_distribution_settings: Any = setting(
        None,
        "The distribution's own settings, if it has any (an rlcore key); null for its defaults.",
        chooses=Choice("action_distribution", "action_distribution"),
    )
    attention_units: int = setting(
        128,
        "Width of the attention over observations of entities (an rlcore key; ML-Agents has 128); a multiple of 4, the "
        "number of heads.",
        minimum=4,
        maximum=MAX_UNITS,
        check=lambda units: "must be a multiple of 4" if units % 4 else None,
    )
    memory: MemorySettings | None = setting(None, "Memory of a recurrent policy; null for none.")
    goal_conditioning_type: str = setting(
        "hyper",
        "How goal observations enter the network, if the environment has any: they make the weights of the last hidden "
        "layer (hyper), or are observations like all others (none).",
        choices=("hyper", "none"),
    )
    activation: str = setting(
        "swish",
        "Non-linearity of the hidden layers (an rlcore key; ML-Agents has swish). With torch_settings.fast_cpu, swish, "
        "tanh and relu are faster than the others.",
        choices=ACTIVATIONS,
    )
    layer_norm: bool = setting(
        False,
        "Normalize the features of each hidden layer, before its non-linearity, to a mean and a standard deviation "
        "that are learned (an rlcore key).",
    )
    dropout: float = setting(
        0.0,
        "Share of the features of each hidden layer that is left out at random where a gradient is computed, and "
        "nowhere else (an rlcore key).",
        minimum=0.0,
        check=below_one,
    )
    init: str = setting(
        "kaiming",
        "Initial weights: ML-Agents' Kaiming normal, orthogonal, or PyTorch's own uniform (an rlcore key).",
        choices=("kaiming", "orthogonal", "uniform"),
    )
    records: Mapping[str, Any] = attrs.field(
        factory=dict,
        eq=False,
        repr=False,
        metadata={METADATA_KEY: FieldInfo("Records by the keys that name them, such as vis_encode_type.", key=False)},
    )

    def problems(
        self, behavior: BehaviorSettings, config: RunConfig, plugins: Plugins
    ) -> Iterator[tuple[tuple[str, ...], str]]:
        """Yield what the trainer of the behavior does not support: memory, a critic, a choice of distribution."""
        trainer = plugins.record(TrainerSpec, behavior.trainer_type)
        hyperparameters = behavior.hyperparameters
        if self.memory is not None:
            batch_size = getattr(hyperparameters, "batch_size", self.memory.sequence_length)
            if not trainer.memory:
                instead = _others(plugins, "memory")
                yield ("memory",), f"trainer {trainer.name!r} learns no policy with memory; leave it out{instead}"
            elif self.memory.sequence_length > batch_size:
                problem = (
                    f"must be at most hyperparameters.batch_size ({batch_size}), not {self.memory.sequence_length}"
                )
                yield ("memory", "sequence_length"), problem
            if self.memory.burn_in is not None and isinstance(hyperparameters, OnPolicySettings):
                cause = f"trainer {trainer.name!r} learns from what agents remembered a moment ago, without a burn-in"
                yield ("memory", "burn_in"), f"{cause}; leave it out"
        if self.critic is not None and not trainer.critic:
            yield ("critic",), f"trainer {trainer.name!r} has no critic of its own; leave it out"
        elif self.critic is not None and getattr(hyperparameters, "shared_critic", False):
            yield ("critic",), "hyperparameters.shared_critic has one network for both; leave out one of the two"
        if self.critic_observations and not trainer.privileged_critic:
            problem = f"trainer {trainer.name!r} has no critic that reads more than its policy; leave it out"
            yield ("critic_observations",), problem + _others(plugins, "privileged_critic")
        elif self.critic_observations and getattr(hyperparameters, "shared_critic", False):
            yield ("critic_observations",), "hyperparameters.shared_critic has one network for both; leave out one"
        if self.action_distribution is not None and not trainer.action_distributions:
            cause = f"trainer {trainer.name!r} has a distribution of its own, or no continuous actions"
            yield ("action_distribution",), f"{cause}; leave it out{_others(plugins, 'action_distributions')}"
        elif self.action_distribution is not None:
            record = self.records["action_distribution"]
            if not record.initial_log_std and _is_changed(hyperparameters, "initial_log_std"):
                problem = "has no log standard deviation to begin with; leave out hyperparameters.initial_log_std"
                yield ("action_distribution",), f"{self.action_distribution!r} {problem}"
            if getattr(hyperparameters, "needs_log_prob_of_draws", False) and not _gives_log_prob(record):
                able = [each.name for each in plugins.records("action_distribution") if _gives_log_prob(each)]
                problem = f"does not give the log-probability of its draws, which trainer {trainer.name!r} needs"
                yield ("action_distribution",), f"{self.action_distribution!r} {problem}; choose {' or '.join(able)}"

    def target(self, key: str, built_in: Mapping[str, Callable[..., Any]]) -> tuple[Callable[..., Any], str]:
        """Return what ``key`` names, one of ``built_in`` or the target of a record, and how messages call it.

        Raises SettingError for a name that was not found when the configuration was loaded.
        """
        record = self.records.get(key)
        name = getattr(self, key)
        if record is not None:
            return record.resolve(), record.described
        if name not in built_in:
            raise SettingError(key, f"{name!r} is none of {', '.join(built_in)}, and its plugin was not loaded")
        return built_in[name], f"{key} {name!r}"

    @property
    def widths(self) -> tuple[int, ...]:
        """Width of each hidden layer."""
        return (self.hidden_units,) * self.num_layers if self.hidden_layers is None else self.hidden_layers

    @property
    def of_critic(self) -> NetworkSettings:
        """The network of a critic: this one, with what ``critic`` has instead."""
        given = {} if self.critic is None else attrs.asdict(self.critic, recurse=False)
        own = {name: value for name, value in given.items() if value is not None}
        if {"hidden_units", "num_layers"} & own.keys():
            own = {"hidden_layers": None, **own}
        return attrs.evolve(self, **own, critic=None)


@attrs.frozen(kw_only=True)
class OptimizerSettings:
    """Settings of every optimizer; a plugin's settings class derives from this class.

    Attributes:
        chosen: The kind of record that ``type`` names.
    """

    chosen: ClassVar[Choice] = Choice("optimizer")

    type: str = setting("adam", "Type of optimizer: a registered name, or DISTRIBUTION/NAME.", foreign=True)


def is_extrinsic(name: str) -> bool:
    """Whether ``name``, a key of ``reward_signals``, is the environment's reward; it may name the distribution too."""
    return name.rpartition("/")[2] == "extrinsic"


def reward_scaling_problems(hyperparameters: Any, behavior: BehaviorSettings) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield a problem for each key that changes the environment's reward if the behavior does not learn from it."""
    if any(map(is_extrinsic, behavior.reward_signals)):
        return
    asked = {"normalize_rewards": hyperparameters.normalize_rewards, "clip_rewards": hyperparameters.clip_rewards}
    for key in (name for name, value in asked.items() if value):
        cause = "changes the environment's reward, and reward_signals has no extrinsic"
        yield (key,), f"{cause}; add reward_signals.extrinsic, or leave {key} out"


@attrs.frozen(kw_only=True)
class OnPolicySettings:
    """``hyperparameters`` of a trainer built on :class:`rlcore_torch.OnPolicyTrainer`; a base class."""

    batch_size: int = setting(
        1024, "Transitions in one minibatch; buffer_size or more is the whole rollout.", minimum=1, maximum=MAX_ROLLOUT
    )
    buffer_size: int = setting(
        10240, "Agent steps collected, over all agents, before an update.", minimum=2, maximum=MAX_ROLLOUT
    )
    learning_rate: float = setting(3e-4, "Step size of the optimizer.", exclusive_minimum=0.0)
    learning_rate_schedule: str = setting("linear", "Schedule of learning_rate over max_steps.", record="schedule")
    lambd: float = setting(0.95, "Lambda of generalized advantage estimation.", minimum=0.0, maximum=1.0)
    num_epoch: int = setting(3, "Passes over the rollout in one update.", minimum=1, maximum=MAX_PASSES)
    max_grad_norm: float = setting(
        0.5, "Largest L2 norm of the gradient; a larger gradient is scaled down (an rlcore key).", exclusive_minimum=0.0
    )
    target_kl: float | None = setting(
        None,
        "An update stops before the first minibatch whose KL divergence exceeds 1.5 times this (an rlcore key).",
        exclusive_minimum=0.0,
    )
    advantage_normalization: str = setting(
        "rollout",
        "Whether advantages are standardized over the rollout, over each minibatch, or not (an rlcore key).",
        choices=("rollout", "minibatch", "none"),
    )
    adam_epsilon: float = setting(1e-5, "Epsilon of Adam (an rlcore key).", exclusive_minimum=0.0)
    optimizer: OptimizerSettings | None = setting(None, "Optimizer; Adam by default (an rlcore key).")
    normalize_rewards: bool = setting(
        False, "Divide the environment's reward by the standard deviation of discounted returns so far (an rlcore key)."
    )
    normalize_rewards_clip: float = setting(
        10.0, "Largest absolute value of a normalized reward (an rlcore key).", exclusive_minimum=0.0
    )
    clip_rewards: float | None = setting(
        None,
        "Largest absolute value of the environment's reward, before normalization (an rlcore key).",
        exclusive_minimum=0.0,
    )

    def problems(
        self, behavior: BehaviorSettings, config: RunConfig, plugins: Plugins
    ) -> Iterator[tuple[tuple[str, ...], str]]:
        """Yield what of this block does not fit the rest of the configuration. A subclass that overrides it adds."""
        return reward_scaling_problems(self, behavior)


@attrs.frozen(kw_only=True)
class MinibatchSettings:
    """``hyperparameters`` of every trainer that draws minibatches from a store of transitions."""

    batch_size: int = setting(128, "Transitions in one minibatch.", minimum=1, maximum=MAX_ROWS)
    learning_rate: float = setting(3e-4, "Step size of the optimizer.", exclusive_minimum=0.0)
    learning_rate_schedule: str = setting("constant", "Schedule of learning_rate over max_steps.", record="schedule")
    adam_epsilon: float = setting(1e-8, "Epsilon of Adam (an rlcore key).", exclusive_minimum=0.0)
    optimizer: OptimizerSettings | None = setting(None, "Optimizer; Adam by default (an rlcore key).")


@attrs.frozen(kw_only=True)
class ReplaySamplerSettings:
    """Settings of every replay sampler; a plugin's settings class derives from this class.

    Attributes:
        chosen: The kind of record that ``type`` names.
    """

    chosen: ClassVar[Choice] = Choice("replay_sampler")

    type: str = setting("uniform", "Type of sampler: a registered name, or DISTRIBUTION/NAME.", foreign=True)


@attrs.frozen(kw_only=True)
class PrioritizedSamplerSettings(ReplaySamplerSettings):
    """Proportional prioritized replay (Schaul et al. 2016, arXiv:1511.05952)."""

    type: str = setting("prioritized", "Type of sampler: a registered name, or DISTRIBUTION/NAME.", foreign=True)
    alpha: float = setting(0.6, "Exponent of priorities; 0 is uniform sampling.", minimum=0.0)
    beta: float = setting(0.4, "Exponent of importance weights at the start.", minimum=0.0, maximum=1.0)
    final_beta: float = setting(1.0, "Value of beta at max_steps; beta grows linearly.", minimum=0.0, maximum=1.0)


@attrs.frozen(kw_only=True)
class OffPolicySettings(MinibatchSettings):
    """``hyperparameters`` of a trainer built on :class:`rlcore_torch.OffPolicyTrainer`; a base class."""

    buffer_size: int = setting(50_000, "Rows of the replay buffer, over all agents.", minimum=2, maximum=MAX_ROWS)
    buffer_init_steps: int = setting(
        0, "Agent steps of random actions before the first gradient step.", minimum=0, maximum=MAX_STEPS
    )
    steps_per_update: float = setting(
        1.0, "Agent steps for each gradient step; any positive number.", exclusive_minimum=0.0
    )
    gradient_steps: int = setting(
        1,
        "Gradient steps that are taken one after the other, once so many are due: with 8, and steps_per_update 2.0, 8 "
        "after every 16 agent steps. The policy acts unchanged in between (an rlcore key).",
        minimum=1,
        maximum=MAX_PASSES,
    )
    reward_signal_steps_per_update: float | None = setting(
        None,
        "Agent steps for each update of learning reward signals; by default steps_per_update.",
        exclusive_minimum=0.0,
    )
    save_replay_buffer: bool = setting(False, "Save the replay buffer in checkpoints, for an exact resume.")
    n_steps: int = setting(1, "Rewards summed before bootstrapping (an rlcore key).", minimum=1, maximum=MAX_N_STEPS)
    replay_sampler: ReplaySamplerSettings | None = setting(
        None, "How minibatches are drawn from the replay buffer; uniformly by default (an rlcore key)."
    )
    normalize_rewards: bool = setting(
        False, "Divide the environment's reward by the standard deviation of discounted returns so far (an rlcore key)."
    )
    normalize_rewards_clip: float = setting(
        10.0, "Largest absolute value of a normalized reward (an rlcore key).", exclusive_minimum=0.0
    )
    clip_rewards: float | None = setting(
        None,
        "Largest absolute value of the environment's reward, before normalization (an rlcore key).",
        exclusive_minimum=0.0,
    )

    def problems(
        self, behavior: BehaviorSettings, config: RunConfig, plugins: Plugins
    ) -> Iterator[tuple[tuple[str, ...], str]]:
        """Yield what of this block does not fit the rest of the configuration. A subclass that overrides it adds."""
        return reward_scaling_problems(self, behavior)

    def __attrs_post_init__(self) -> None:
        if self.batch_size > self.buffer_size:
            problem = f"must be at most buffer_size ({self.buffer_size}), not {self.batch_size}"
            raise SettingError("batch_size", problem, others=("buffer_size",))


@attrs.frozen(kw_only=True)
class OfflineSettings(MinibatchSettings):
    """``hyperparameters`` of a trainer built on :class:`rlcore_torch.OfflineTrainer`; a base class.

    For these trainers ``max_steps``, ``summary_freq`` and ``checkpoint_interval`` count gradient steps.
    """

    demo_path: str = setting(
        description="Recorded data: a dataset, a directory of datasets, or .demo files.", foreign=is_plain_name
    )


@attrs.frozen(kw_only=True)
class BehavioralCloningSettings:
    """Imitation of demonstrations beside reinforcement learning (ML-Agents' ``behavioral_cloning``)."""

    demo_path: str = setting(
        description="Recorded data: a dataset, a directory of datasets, or .demo files.", foreign=is_plain_name
    )
    strength: float = setting(1.0, "Learning rate of imitation, as a factor on learning_rate.", exclusive_minimum=0.0)
    steps: int = setting(
        0, "Agent steps over which imitation fades out; 0 for imitation without end.", minimum=0, maximum=MAX_STEPS
    )
    samples_per_update: int = setting(
        0,
        "Demonstrated steps in one pass of an update; 0 for all, or for one minibatch in off-policy trainers, which "
        "update at every step.",
        minimum=0,
        maximum=MAX_ROWS,
    )
    num_epoch: int | None = setting(
        None,
        "Passes over demonstrated steps in one update; by default the trainer's num_epoch, or 3.",
        minimum=1,
        maximum=MAX_PASSES,
    )
    batch_size: int | None = setting(
        None, "Demonstrated steps in one minibatch; by default the trainer's batch_size.", minimum=1, maximum=MAX_ROWS
    )

    def problems(
        self, behavior: BehaviorSettings, config: RunConfig, plugins: Plugins
    ) -> Iterator[tuple[tuple[str, ...], str]]:
        """Yield a problem if the behavior's trainer does not imitate."""
        trainer = plugins.record(TrainerSpec, behavior.trainer_type)
        if not trainer.behavioral_cloning:
            yield (), f"trainer {trainer.name!r} does not imitate demonstrations"
