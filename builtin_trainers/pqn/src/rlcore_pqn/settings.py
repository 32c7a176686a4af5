"""PQN's ``hyperparameters`` and ``network_settings``: those of every on-policy trainer, with other defaults."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import attrs

from rlcore import BehaviorSettings, RunConfig, SettingError, setting
from rlcore_torch import NetworkSettings, OnPolicySettings, OptimizerSettings, RAdamSettings

if TYPE_CHECKING:
    from rlcore import Plugins

MAX_ROLLOUT = 100_000_000


@attrs.frozen(kw_only=True)
class PQNSettings(OnPolicySettings):
    """How PQN collects, explores and learns. Defaults are those of CleanRL's ``pqn.py``, with 4 environments."""

    batch_size: int = setting(
        128, "Transitions in one minibatch; buffer_size or more is the whole rollout.", minimum=1, maximum=MAX_ROLLOUT
    )
    buffer_size: int = setting(
        512, "Agent steps collected, over all agents, before an update.", minimum=2, maximum=MAX_ROLLOUT
    )
    learning_rate: float = setting(2.5e-4, "Step size of the optimizer.", exclusive_minimum=0.0)
    lambd: float = setting(
        0.65, "Lambda of the returns that values learn (Peng's Q(lambda)); 0: of one step.", minimum=0.0, maximum=1.0
    )
    num_epoch: int = setting(4, "Passes over the rollout in one update.", minimum=1, maximum=100_000)
    max_grad_norm: float = setting(
        10.0, "Largest L2 norm of the gradient; a larger gradient is scaled down.", exclusive_minimum=0.0
    )
    optimizer: OptimizerSettings | None = setting(
        RAdamSettings(), "Optimizer; RAdam by default, as in the code of the paper. null for Adam."
    )
    initial_epsilon: float = setting(
        1.0, "Probability of a random action at the start, final_epsilon or more.", minimum=0.0, maximum=1.0
    )
    final_epsilon: float = setting(
        0.05, "Probability of a random action from epsilon_steps on.", minimum=0.0, maximum=1.0
    )
    epsilon_steps: int = setting(
        250_000,
        "Agent steps over which epsilon falls to final_epsilon, linearly; max_steps does not change it.",
        minimum=1,
    )
    # What the template reads and Q-learning has no use for: no keys of a file.
    target_kl: float | None = attrs.field(default=None, init=False)
    advantage_normalization: str = attrs.field(default="none", init=False)

    def __attrs_post_init__(self) -> None:
        if self.initial_epsilon < self.final_epsilon:
            problem = f"must be at least final_epsilon ({self.final_epsilon:g}), not {self.initial_epsilon:g}"
            raise SettingError("initial_epsilon", f"{problem}; lower final_epsilon too", others=("final_epsilon",))

    def problems(
        self, behavior: BehaviorSettings, config: RunConfig, plugins: Plugins
    ) -> Iterator[tuple[tuple[str, ...], str]]:
        """Yield what of this block does not fit the rest of the configuration."""
        yield from super().problems(behavior, config, plugins)
        if "self_play" in behavior.sections and not behavior.network_settings.deterministic:
            cause = "opponents of self_play draw, and the logits of pqn are values: they would play almost at random"
            yield (), f"{cause}; set network_settings.deterministic: true"


@attrs.frozen(kw_only=True)
class PQNNetworkSettings(NetworkSettings):
    """The network of the values. LayerNorm takes the place of a target network (arXiv:2407.04811)."""

    layer_norm: bool = setting(
        True,
        "Normalize the features of each hidden layer, before its non-linearity; what keeps the values from growing "
        "without a target network.",
    )
    vis_encode_type: str = setting(
        "layer_norm_cnn",
        "Encoder of image observations: a registered name, or DISTRIBUTION/NAME. layer_norm_cnn has convolutions for "
        "the size of each image, with LayerNorm after each.",
        foreign=True,
    )
