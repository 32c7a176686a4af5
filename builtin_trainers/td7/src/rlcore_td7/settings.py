"""The ``hyperparameters`` of TD7, and the settings of its replay sampler."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import attrs

from rlcore import BehaviorSettings, RunConfig, setting
from rlcore_torch import OffPolicySettings, ReplaySamplerSettings

if TYPE_CHECKING:
    from rlcore import Plugins

MAX_ROWS = 1_000_000_000
MAX_UNITS = 1_000_000


@attrs.frozen(kw_only=True)
class LAPSettings(ReplaySamplerSettings):
    """Loss-adjusted prioritized replay (Fujimoto et al. 2020, arXiv:2007.06049)."""

    type: str = setting("lap", "Type of sampler: a registered name, or DISTRIBUTION/NAME.", foreign=True)
    alpha: float = setting(0.4, "Exponent of priorities; 0 is uniform sampling.", minimum=0.0)


@attrs.frozen(kw_only=True)
class TD7Settings(OffPolicySettings):
    """How TD7 learns. Defaults are those of Fujimoto et al. 2023 (arXiv:2306.02451), or of their code.

    Noise is in units of half the range of an action.
    """

    batch_size: int = setting(256, "Transitions in one minibatch.", minimum=1, maximum=MAX_ROWS)
    buffer_size: int = setting(1_000_000, "Rows of the replay buffer, over all agents.", minimum=2, maximum=MAX_ROWS)
    buffer_init_steps: int = setting(25_000, "Agent steps of random actions before the first gradient step.", minimum=0)
    replay_sampler: ReplaySamplerSettings | None = setting(
        LAPSettings(), "How minibatches are drawn from the replay buffer; null for uniformly (an rlcore key)."
    )
    embedding_units: int = setting(
        256,
        "Numbers of an embedding, and of the first layers of the actor and the critics beside it.",
        minimum=1,
        maximum=MAX_UNITS,
    )
    target_update_interval: int = setting(
        250, "Gradient steps between copies to the target networks and the fixed encoders.", minimum=1
    )
    actor_delay: int = setting(2, "Gradient steps of the critics for each of the actor.", minimum=1)
    target_noise: float = setting(0.2, "Standard deviation of the noise on target actions.", minimum=0.0)
    target_noise_clip: float = setting(0.5, "Largest absolute value of the noise on target actions.", minimum=0.0)
    exploration_noise: float = setting(0.1, "Standard deviation of the noise on actions.", minimum=0.0)

    def problems(
        self, behavior: BehaviorSettings, config: RunConfig, plugins: Plugins
    ) -> Iterator[tuple[tuple[str, ...], str]]:
        """Yield what of this block does not fit the rest of the configuration."""
        yield from super().problems(behavior, config, plugins)
        if self.n_steps > 1:
            yield (
                ("n_steps",),
                f"must be 1 with trainer td7, whose embeddings predict the step after an action, not {self.n_steps}",
            )
