"""Settings of trainers in PyTorch: names, defaults and meanings are ML-Agents' where it has them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar, Literal

import attrs

from rlcore import (
    BehaviorSettings,
    Choice,
    RunConfig,
    SettingError,
    TrainerSpec,
    is_plain_name,
    setting,
)

if TYPE_CHECKING:
    from rlcore import Plugins

# Far above what training needs, and low enough to refuse a typing error or a hostile file before memory is requested.
MAX_N_STEPS = 10_000
MAX_PASSES = 100_000
MAX_ROLLOUT = 100_000_000
MAX_ROWS = 1_000_000_000
MAX_STEPS = 10**15

LEAST_LEARNING_RATE = 1e-10  # ML-Agents' end of a schedule


@attrs.frozen(kw_only=True)
class OptimizerSettings:
    """Settings of every optimizer; a plugin's settings class derives from this class.

    Attributes:
        chosen: The kind of record that ``type`` names.
    """

    chosen: ClassVar[Choice] = Choice("optimizer")

    type: str = setting("adam", "Type of optimizer: a registered name, or DISTRIBUTION/NAME.", foreign=True)


def _below_one(value: float) -> str | None:
    return None if value < 1.0 else f"must be less than 1, not {value:g}"


@attrs.frozen(kw_only=True)
class AdamSettings(OptimizerSettings):
    """Adam (Kingma and Ba 2015, arXiv:1412.6980, algorithm 1). Its epsilon is ``hyperparameters.adam_epsilon``."""

    type: str = setting("adam", "Type of optimizer: a registered name, or DISTRIBUTION/NAME.", foreign=True)
    beta1: float = setting(0.9, "Share of the mean gradient that a step keeps.", minimum=0.0, check=_below_one)
    beta2: float = setting(0.999, "Share of the mean square that a step keeps.", minimum=0.0, check=_below_one)


@attrs.frozen(kw_only=True)
class AdamWSettings(AdamSettings):
    """Adam with decoupled weight decay (Loshchilov and Hutter 2019, arXiv:1711.05101, algorithm 2)."""

    type: str = setting("adamw", "Type of optimizer: a registered name, or DISTRIBUTION/NAME.", foreign=True)
    weight_decay: float = setting(0.01, "Share of a weight, times learning_rate, that a step takes away.", minimum=0.0)
    epsilon: float = setting(1e-8, "Number added to the denominator.", exclusive_minimum=0.0)


@attrs.frozen(kw_only=True)
class RAdamSettings(AdamSettings):
    """Rectified Adam (Liu et al. 2020, arXiv:1908.03265, algorithm 2)."""

    type: str = setting("radam", "Type of optimizer: a registered name, or DISTRIBUTION/NAME.", foreign=True)
    epsilon: float = setting(1e-8, "Number added to the denominator.", exclusive_minimum=0.0)


def is_extrinsic(name: str) -> bool:
    """Whether ``name``, a key of ``reward_signals``, is the environment's reward; it may name the distribution too."""
    return name.rpartition("/")[2] == "extrinsic"


@attrs.frozen(kw_only=True, slots=False)  # of several bases, one may have slots
class RewardScalingSettings:
    """The part of ``hyperparameters`` that changes the environment's reward before it is learned from."""

    normalize_rewards: bool = setting(
        False, "Divide the environment's reward by the standard deviation of discounted returns so far (an rlcore key)."
    )
    normalize_rewards_clip: float | None = setting(
        10.0,
        "Largest absolute value of a normalized reward; null: any (an rlcore key).",
        exclusive_minimum=0.0,
    )
    normalize_rewards_bound: float | None = setting(
        None,
        "Largest absolute value of a normalized discounted return: the divisor is at least that of the largest return "
        "so far, divided by this (an rlcore key).",
        exclusive_minimum=0.0,
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
        if any(map(is_extrinsic, behavior.reward_signals)):
            return
        for key in ("normalize_rewards", "clip_rewards"):
            if getattr(self, key):
                cause = "changes the environment's reward, and reward_signals has no extrinsic"
                yield (key,), f"{cause}; add reward_signals.extrinsic, or leave {key} out"


@attrs.frozen(kw_only=True)
class OnPolicySettings(RewardScalingSettings):
    """``hyperparameters`` of a trainer built on :class:`rlcore_torch.OnPolicyTrainer`; a base class."""

    batch_size: int = setting(
        1024, "Transitions in one minibatch; buffer_size or more is the whole rollout.", minimum=1, maximum=MAX_ROLLOUT
    )
    buffer_size: int = setting(
        10240, "Agent steps collected, over all agents, before an update.", minimum=2, maximum=MAX_ROLLOUT
    )
    learning_rate: float = setting(3e-4, "Step size of the optimizer.", exclusive_minimum=0.0)
    learning_rate_schedule: str = setting("linear", "Schedule of learning_rate over max_steps.", record="schedule")
    final_learning_rate: float = setting(
        LEAST_LEARNING_RATE, "Value that the schedule lowers learning_rate to (an rlcore key).", minimum=0.0
    )
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


@attrs.frozen(kw_only=True)
class MinibatchSettings:
    """``hyperparameters`` of every trainer that draws minibatches from a store of transitions."""

    batch_size: int = setting(128, "Transitions in one minibatch.", minimum=1, maximum=MAX_ROWS)
    learning_rate: float = setting(3e-4, "Step size of the optimizer.", exclusive_minimum=0.0)
    learning_rate_schedule: str = setting("constant", "Schedule of learning_rate over max_steps.", record="schedule")
    final_learning_rate: float = setting(
        LEAST_LEARNING_RATE, "Value that the schedule lowers learning_rate to (an rlcore key).", minimum=0.0
    )
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
class PriorDataSettings:
    """Recorded transitions in every minibatch (Ball et al. 2023, arXiv:2302.02948, section 4.1)."""

    demo_path: str = setting(
        description="Recorded data: a dataset, a directory of datasets, or .demo files.", foreign=is_plain_name
    )
    share: float = setting(
        0.5, "Share of a minibatch that is recorded; between 0 and 1.", exclusive_minimum=0.0, maximum=1.0
    )

    def rows_of(self, batch_size: int) -> int:
        """Return how many transitions of a minibatch are recorded."""
        return round(self.share * batch_size)


@attrs.frozen(kw_only=True)
class OffPolicySettings(RewardScalingSettings, MinibatchSettings):
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
    save_replay_buffer: bool | Literal["auto"] = setting(
        False,
        "Save the replay buffer in checkpoints, for an exact resume. auto: if it is small (an rlcore value).",
    )
    n_steps: int = setting(1, "Rewards summed before bootstrapping (an rlcore key).", minimum=1, maximum=MAX_N_STEPS)
    replay_sampler: ReplaySamplerSettings | None = setting(
        None, "How minibatches are drawn from the replay buffer; uniformly by default (an rlcore key)."
    )
    prior_data: PriorDataSettings | None = setting(
        None, "Recorded transitions that every minibatch has a share of (an rlcore key)."
    )

    def __attrs_post_init__(self) -> None:
        if self.batch_size > self.buffer_size:
            problem = f"must be at most buffer_size ({self.buffer_size}), not {self.batch_size}"
            raise SettingError("batch_size", problem, others=("buffer_size",))
        if self.prior_data is not None:
            recorded = self.prior_data.rows_of(self.batch_size)
            if not 0 < recorded < self.batch_size:
                problem = (
                    f"share {self.prior_data.share:g} of batch_size ({self.batch_size}) is {recorded} recorded "
                    f"transitions; a minibatch needs both kinds, 1 to {self.batch_size - 1} of them recorded"
                )
                raise SettingError("prior_data", problem, others=("batch_size",))


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
