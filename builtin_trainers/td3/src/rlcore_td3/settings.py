"""The ``hyperparameters`` of TD3 and DDPG. Both have the same keys; some defaults differ."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import attrs

from rlcore import BehaviorSettings, RunConfig, SettingError, setting
from rlcore_torch import OffPolicySettings

if TYPE_CHECKING:
    from rlcore import Plugins

MAX_ROWS = 1_000_000_000
ORNSTEIN_UHLENBECK = "ornstein_uhlenbeck"


@attrs.frozen(kw_only=True)
class TD3Settings(OffPolicySettings):
    """How TD3 learns. Defaults are those of Fujimoto et al. 2018 (arXiv:1802.09477), or of their code.

    Noise is in units of half the range of an action.
    """

    batch_size: int = setting(256, "Transitions in one minibatch.", minimum=1, maximum=MAX_ROWS)
    buffer_size: int = setting(1_000_000, "Rows of the replay buffer, over all agents.", minimum=2, maximum=MAX_ROWS)
    buffer_init_steps: int = setting(1000, "Agent steps of random actions before the first gradient step.", minimum=0)
    tau: float = setting(
        0.005,
        "Share of the networks that enters the target networks when these move.",
        exclusive_minimum=0.0,
        maximum=1.0,
    )
    num_critics: int = setting(2, "Critics; targets have the smallest of their values.", minimum=1, maximum=16)
    actor_delay: int = setting(2, "Gradient steps of the critics for each of the actor and the targets.", minimum=1)
    target_noise: float = setting(0.2, "Standard deviation of the noise on target actions.", minimum=0.0)
    target_noise_clip: float = setting(0.5, "Largest absolute value of the noise on target actions.", minimum=0.0)
    exploration_noise: float = setting(
        0.1, "Standard deviation of the noise on actions; sigma of an Ornstein-Uhlenbeck process.", minimum=0.0
    )
    exploration_noise_type: str = setting(
        "gaussian",
        "Noise on actions: independent in each step, or an Ornstein-Uhlenbeck process of each agent, which starts at 0 "
        "in each episode.",
        choices=("gaussian", ORNSTEIN_UHLENBECK),
    )
    ou_theta: float = setting(
        0.15, "Speed at which an Ornstein-Uhlenbeck process returns to 0 (Lillicrap et al. 2016).", minimum=0.0
    )
    ou_dt: float = setting(
        1.0, "Time of a step in an Ornstein-Uhlenbeck process; Stable-Baselines3 has 0.01.", exclusive_minimum=0.0
    )

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        if self.ou_theta * self.ou_dt > 1.0:
            problem = f"times ou_dt ({self.ou_dt:g}) must be at most 1, not {self.ou_theta * self.ou_dt:g}"
            raise SettingError("ou_theta", problem, others=("ou_dt",))

    def problems(
        self, behavior: BehaviorSettings, config: RunConfig, plugins: Plugins
    ) -> Iterator[tuple[tuple[str, ...], str]]:
        """Yield what of this block does not fit the rest of the configuration."""
        yield from super().problems(behavior, config, plugins)
        if self.exploration_noise_type != ORNSTEIN_UHLENBECK:
            fields = attrs.fields_dict(type(self))
            for key in ("ou_theta", "ou_dt"):
                if getattr(self, key) != fields[key].default:
                    yield (
                        (key,),
                        f"is for exploration_noise_type {ORNSTEIN_UHLENBECK}; set that too, or leave {key} out",
                    )


@attrs.frozen(kw_only=True)
class DDPGSettings(TD3Settings):
    """How DDPG learns (Lillicrap et al. 2016, arXiv:1509.02971): TD3 without the three parts that TD3 adds."""

    num_critics: int = setting(1, "Critics; targets have the smallest of their values.", minimum=1, maximum=16)
    actor_delay: int = setting(1, "Gradient steps of the critics for each of the actor and the targets.", minimum=1)
    target_noise: float = setting(0.0, "Standard deviation of the noise on target actions.", minimum=0.0)
