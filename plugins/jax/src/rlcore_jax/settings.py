"""The settings ``environment.options`` of simulators in JAX."""

from __future__ import annotations

from typing import Any, Literal

import attrs

from rlcore import setting

RESET_ROWS = (
    "How many environments are reset together where episodes ended; {}. A small number is faster where a reset is "
    "slow; it changes no result."
)


@attrs.frozen(kw_only=True)
class PgxSettings:
    """Options of a game of pgx."""

    max_episode_steps: int | None = setting(
        None, "Steps after which an episode is cut off; pgx's games have no time limit of their own.", minimum=1
    )
    observation: Literal["vector", "image"] = setting(
        "vector",
        "How a network reads the planes of a board: as a vector, or as an image, for network_settings.vis_encode_type.",
    )
    reset_rows: int | None = setting(None, RESET_ROWS.format("all by default"), minimum=1)
    arguments: dict[str, Any] = setting(
        factory=dict, description="Arguments of the game's class, such as sticky_action_prob of MinAtar's games."
    )


@attrs.frozen(kw_only=True)
class PlaygroundSettings:
    """Options of a task of MuJoCo Playground."""

    max_episode_steps: int | None = setting(
        None, "Steps after which an episode is cut off; by default the task's own episode_length.", minimum=1
    )
    reset_rows: int | None = setting(64, RESET_ROWS.format("all if null"), minimum=1)
    config_overrides: dict[str, Any] = setting(
        factory=dict, description="Entries of the task's configuration in Playground, such as ctrl_dt and sim_dt."
    )
