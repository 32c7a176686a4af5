"""DQN's ``hyperparameters``, in addition to those of every off-policy trainer. ML-Agents has no DQN."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import attrs

from rlcore import BehaviorSettings, RunConfig, SettingError, setting
from rlcore_torch import OffPolicySettings

if TYPE_CHECKING:
    from rlcore import Plugins

MAX_NUMBERS = 10_000  # atoms or quantiles: far above what is used, and low enough to refuse a typing error


@attrs.frozen(kw_only=True)
class DQNSettings(OffPolicySettings):
    """How DQN explores and learns."""

    initial_epsilon: float = setting(
        1.0,
        "Probability of a random action at the start, final_epsilon or more; each agent has its own coin (Mnih et al. "
        "2015).",
        minimum=0.0,
        maximum=1.0,
    )
    final_epsilon: float = setting(
        0.05, "Probability of a random action from epsilon_steps on.", minimum=0.0, maximum=1.0
    )
    epsilon_steps: int = setting(
        10_000,
        "Agent steps over which epsilon falls to final_epsilon, linearly; max_steps does not change it.",
        minimum=1,
    )
    noisy: bool = setting(
        False,
        "Hidden layers and outputs with learned noise explore instead of epsilon (Fortunato et al. 2018, "
        "arXiv:1706.10295, factorised noise).",
    )
    noisy_std: float = setting(
        0.5, "Initial scale of the noise, sigma_0 in section 3.2 of arXiv:1706.10295.", exclusive_minimum=0.0
    )
    double: bool = setting(
        True,
        "The online network chooses the next action and the target network values it (van Hasselt et al. 2016, "
        "arXiv:1509.06461); false: the target network does both.",
    )
    dueling: bool = setting(
        False,
        "A stream for the value of an observation and one for the advantages of actions, each with the last hidden "
        "layer for itself (Wang et al. 2016, arXiv:1511.06581, eq. 9).",
    )
    distributional: str | None = setting(
        None,
        "Learn the distribution of returns: c51 (Bellemare et al. 2017, arXiv:1707.06887) or quantile (QR-DQN; Dabney "
        "et al. 2018, arXiv:1710.10044); null for their mean.",
        choices=("c51", "quantile"),
    )
    num_atoms: int = setting(51, "Atoms of c51.", minimum=2, maximum=MAX_NUMBERS)
    v_min: float = setting(-10.0, "Least atom of c51, in discounted return with strength.")
    v_max: float = setting(10.0, "Greatest atom of c51, in discounted return with strength.")
    num_quantiles: int = setting(200, "Quantiles of quantile.", minimum=1, maximum=MAX_NUMBERS)
    loss: str = setting(
        "huber",
        "Loss of temporal-difference errors: huber or squared; c51 has the cross-entropy.",
        choices=("huber", "squared"),
    )
    huber_delta: float = setting(1.0, "Error from which huber is linear; kappa of quantile.", exclusive_minimum=0.0)
    max_grad_norm: float | None = setting(
        10.0, "Largest L2 norm of the gradient, as in arXiv:1511.06581; null for no limit.", exclusive_minimum=0.0
    )
    target_update_interval: int = setting(
        500, "Gradient steps (not agent steps) between copies of the network to the target network.", minimum=1
    )
    tau: float | None = setting(
        None,
        "Share of the network that enters the target network in every gradient step (a soft target; Lillicrap et al. "
        "2016, arXiv:1509.02971), instead of copies; null for copies.",
        exclusive_minimum=0.0,
        maximum=1.0,
    )

    def problems(
        self, behavior: BehaviorSettings, config: RunConfig, plugins: Plugins
    ) -> Iterator[tuple[tuple[str, ...], str]]:
        """Yield what of this block does not fit the rest of the configuration."""
        yield from super().problems(behavior, config, plugins)
        if "self_play" in behavior.sections and not behavior.network_settings.deterministic:
            cause = "opponents of self_play draw, and the logits of dqn are values: they would play almost at random"
            yield (), f"{cause}; set network_settings.deterministic: true"

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        if self.initial_epsilon < self.final_epsilon and not self.noisy:
            problem = f"must be at least final_epsilon ({self.final_epsilon:g}), not {self.initial_epsilon:g}"
            raise SettingError("initial_epsilon", f"{problem}; lower final_epsilon too", others=("final_epsilon",))
        if self.v_min >= self.v_max:
            raise SettingError(
                "v_min", f"must be less than v_max ({self.v_max:g}), not {self.v_min:g}", others=("v_max",)
            )
        copies = attrs.fields(DQNSettings).target_update_interval.default
        if self.tau is not None and self.target_update_interval != copies:
            problem = "moves the target network in every gradient step; leave out target_update_interval"
            raise SettingError("tau", problem, others=("target_update_interval",))
        if self.distributional == "quantile" and self.loss == "squared":
            raise SettingError("loss", "must be huber with distributional quantile", others=("distributional",))
