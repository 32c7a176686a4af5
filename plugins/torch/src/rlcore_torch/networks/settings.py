"""Settings of networks: names, defaults and meanings are ML-Agents' where it has them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import attrs

from rlcore import (
    BehaviorSettings,
    Choice,
    FieldInfo,
    PolicySettings,
    RunConfig,
    SettingError,
    TrainerSpec,
    setting,
)
from rlcore_torch.settings import MAX_ROLLOUT, MAX_STEPS, OnPolicySettings

if TYPE_CHECKING:
    from rlcore import Plugins

# Far above what training needs, and low enough to refuse a typing error or a hostile file before memory is requested.
MAX_LAYERS = 256
MAX_UNITS = 65_536

BATCH_NORM = ("none", "pre", "post")
BLOCKS = ("plain", "residual")
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
        if self.burn_in is None:
            return self.sequence_length // 2
        return self.burn_in


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
    batch_norm: str | None = setting(
        None, "Normalization over the rows of a minibatch; null for that of the policy.", choices=BATCH_NORM
    )
    blocks: str | None = setting(None, "What hidden layers are; null for what the policy has.", choices=BLOCKS)


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
    able = []
    for record in plugins.records("trainer"):
        if getattr(record, ability, False):
            able.append(str(record.name))
    if not able:
        return ""
    return f", or choose trainer_type {' or '.join(able)}"


def _is_changed(settings: Any, key: str) -> bool:
    """Whether ``settings`` have ``key``, and a value other than its default."""
    if not attrs.has(type(settings)):
        return False
    fields = attrs.fields_dict(type(settings))
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
        "auto",
        "Encoder of image observations: a registered name, or DISTRIBUTION/NAME. auto is ML-Agents' default simple "
        "for each image of at least 20x20 pixels, and fully_connected for each smaller one.",
        foreign=True,
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
    batch_norm: str = setting(
        "none",
        "Normalize what enters the hidden layers, and the features of each, over the rows of a minibatch: before the "
        "non-linearity (pre) or after it (post), for trainers that compute such statistics (an rlcore key).",
        choices=BATCH_NORM,
    )
    batch_norm_momentum: float = setting(
        0.01,
        "Share of a minibatch's mean and variance that enters the running ones, which policies act with (an rlcore "
        "key).",
        exclusive_minimum=0.0,
        maximum=1.0,
    )
    batch_norm_epsilon: float = setting(
        1e-3, "Number added to the variances of batch_norm (an rlcore key).", exclusive_minimum=0.0
    )
    batch_renorm_after: int | None = setting(
        None,
        "Minibatches of a network after which batch_norm corrects them to its running statistics (batch "
        "renormalization); null for never (an rlcore key).",
        minimum=0,
        maximum=MAX_STEPS,
    )
    blocks: str = setting(
        "plain",
        "Hidden layers after the first: one layer each, or a residual block of two, the first four times as wide (an "
        "rlcore key).",
        choices=BLOCKS,
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
        metadata={
            FieldInfo.METADATA_KEY: FieldInfo("Records by the keys that name them, such as vis_encode_type.", key=False)
        },
    )

    def problems(
        self, behavior: BehaviorSettings, config: RunConfig, plugins: Plugins
    ) -> Iterator[tuple[tuple[str, ...], str]]:
        """Yield what the trainer of the behavior does not support: memory, a critic, a choice of distribution."""
        trainer = plugins.record(TrainerSpec, behavior.trainer_type)
        hyperparameters = behavior.hyperparameters
        if self.memory is not None:
            yield from self._memory_problems(self.memory, trainer, hyperparameters, plugins)
        yield from self._critic_problems(trainer, hyperparameters, plugins)
        yield from self._batch_norm_problems(trainer, hyperparameters)
        if self.action_distribution is not None:
            problem = self._distribution_problem(trainer, hyperparameters, plugins)
            if problem is not None:
                yield ("action_distribution",), problem

    def _memory_problems(
        self, memory: MemorySettings, trainer: TrainerSpec, hyperparameters: Any, plugins: Plugins
    ) -> Iterator[tuple[tuple[str, ...], str]]:
        length = memory.sequence_length
        batch_size = getattr(hyperparameters, "batch_size", length)
        if not trainer.memory:
            cause = f"trainer {trainer.name!r} learns no policy with memory"
            yield ("memory",), f"{cause}; leave it out{_others(plugins, 'memory')}"
        elif length > batch_size:  # a minibatch has whole sequences
            problem = f"must be at most hyperparameters.batch_size ({batch_size}), not {length}"
            yield ("memory", "sequence_length"), problem
        if memory.burn_in is not None and isinstance(hyperparameters, OnPolicySettings):
            cause = f"trainer {trainer.name!r} learns from what agents remembered a moment ago, without a burn-in"
            yield ("memory", "burn_in"), f"{cause}; leave it out"

    def _critic_problems(
        self, trainer: TrainerSpec, hyperparameters: Any, plugins: Plugins
    ) -> Iterator[tuple[tuple[str, ...], str]]:
        shared = "hyperparameters.shared_critic has one network for both; leave out one"
        is_shared = getattr(hyperparameters, "shared_critic", False)
        if self.critic is not None and not trainer.critic:
            yield ("critic",), f"trainer {trainer.name!r} has no critic of its own; leave it out"
        elif self.critic is not None and is_shared:
            yield ("critic",), f"{shared} of the two"
        if self.critic_observations and not trainer.privileged_critic:
            cause = f"trainer {trainer.name!r} has no critic that reads more than its policy"
            yield ("critic_observations",), f"{cause}; leave it out{_others(plugins, 'privileged_critic')}"
        elif self.critic_observations and is_shared:
            yield ("critic_observations",), shared

    def _batch_norm_problems(self, trainer: TrainerSpec, hyperparameters: Any) -> Iterator[tuple[tuple[str, ...], str]]:
        if self.batch_norm == "none" == self.of_critic.batch_norm:
            return
        key = ("batch_norm",) if self.batch_norm != "none" else ("critic", "batch_norm")
        if not getattr(hyperparameters, "batch_statistics", False):
            cause = f"trainer {trainer.name!r} computes no statistics of minibatches"
            yield key, f"{cause}; leave it out, or choose a trainer that does, such as crossq"
        if self.memory is not None:
            yield key, "normalizes rows, and networks with memory learn from sequences; leave out one of the two"
        for network in (self, self.of_critic):
            if network.batch_norm != "none" and (network.layer_norm or network.dropout):
                yield key, "is not combined with layer_norm and dropout; leave out one or the others"
                break

    def _distribution_problem(self, trainer: TrainerSpec, hyperparameters: Any, plugins: Plugins) -> str | None:
        """Say why the trainer cannot use the chosen distribution, or return None."""
        name = self.action_distribution
        if not trainer.action_distributions:
            cause = f"trainer {trainer.name!r} has a distribution of its own, or no continuous actions"
            return f"{cause}; leave it out{_others(plugins, 'action_distributions')}"
        record = self.records["action_distribution"]
        if not record.initial_log_std and _is_changed(hyperparameters, "initial_log_std"):
            cause = f"{name!r} has no log standard deviation to begin with"
            return f"{cause}; leave out hyperparameters.initial_log_std, or set it to 0 if a preset has it"
        if getattr(hyperparameters, "needs_log_prob_of_draws", False) and not record.log_prob_of_draws:
            records: Any = plugins.records("action_distribution")
            able = [str(record.name) for record in records if record.log_prob_of_draws]
            cause = f"does not give the log-probability of its draws, which trainer {trainer.name!r} needs"
            return f"{name!r} {cause}; choose {' or '.join(able)}"
        return None

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

    def __attrs_post_init__(self) -> None:
        if self.blocks == "residual" and len(set(self.widths)) > 1:
            raise SettingError("blocks", "residual needs hidden_layers of one width", others=("hidden_layers",))

    @property
    def widths(self) -> tuple[int, ...]:
        """Width of each hidden layer."""
        if self.hidden_layers is None:
            return (self.hidden_units,) * self.num_layers
        return self.hidden_layers

    @property
    def of_critic(self) -> NetworkSettings:
        """The network of a critic: this one, with what ``critic`` has instead."""
        if self.critic is None:
            return self
        fields = attrs.asdict(self.critic, recurse=False)
        different = {name: value for name, value in fields.items() if value is not None}
        # Widths of the policy, given one by one, would win over the critic's own number of units or layers.
        if "hidden_units" in different or "num_layers" in different:
            different.setdefault("hidden_layers", None)
        return attrs.evolve(self, **different, critic=None)
