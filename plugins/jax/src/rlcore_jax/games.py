"""The games of pgx as simulators, from ``environment: {type: pgx, id: ...}``."""

from __future__ import annotations

import inspect
import warnings
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np
import pgx

from rlcore import ConfigError, EnvironmentFailed, ObservationSpec, did_you_mean, repeating
from rlcore_jax.environment import environment_of
from rlcore_jax.settings import PgxSettings
from rlcore_jax.simulator import Array, Result, View

if TYPE_CHECKING:
    from rlcore import EnvironmentSettings, RunContext
    from rlcore_torch import AsNumpy

ID = ("environment", "id")
ARGUMENTS = ("environment", "options", "arguments")
OBSERVATION = "observation"


def make_environment(settings: EnvironmentSettings, run: RunContext) -> AsNumpy:
    """Create ``run.num_envs`` environments of the game ``settings.id``.

    Raises :class:`~rlcore.ConfigError` for an unknown id, argument or parameter.
    """
    options: PgxSettings = settings.options
    game = PgxGame(settings.id, options)
    return environment_of(game, run, options.max_episode_steps, options.reset_rows)


def check_id(game_id: str | None) -> None:
    """Raise ConfigError for an id that pgx does not have."""
    known = pgx.available_envs()
    if not game_id:
        raise ConfigError("missing; name a game of pgx, such as minatar-breakout or connect_four", key=ID)
    if game_id not in known:
        hint = did_you_mean(game_id, known)
        if not hint:
            hint = f"; it has {', '.join(known)}"
        raise ConfigError(f"{game_id!r} is not a game of pgx{hint}", key=ID)


class PgxGame:
    """A game of pgx. Its players take turns; each is a slot and a team of its own.

    The games of MinAtar allow every action at all times, so they have no mask.
    """

    def __init__(self, game_id: str | None, options: PgxSettings) -> None:
        check_id(game_id)
        self.game = _made(str(game_id), options.arguments)
        self.name = f"pgx {game_id}"
        self.players = int(self.game.num_players)
        self.teams = self.players > 1
        self.discrete: tuple[int, ...] = (int(self.game.num_actions),)
        self.low = np.empty(0, np.float32)
        self.high = np.empty(0, np.float32)
        self._masked = not str(game_id).startswith("minatar-")
        shape = tuple(map(int, self.game.observation_shape))
        kind = options.observation
        if kind == "image" and len(shape) != 3:
            raise ConfigError(
                f"{self.name} shows {list(shape)} numbers, not [height, width, channels]; set vector",
                key=("environment", "options", "observation"),
            )
        observation = ObservationSpec(OBSERVATION, shape, np.float32, kind)
        self.observations: tuple[ObservationSpec, ...] = (observation,)

    def init(self, key: Array) -> Any:
        return self.game.init(key)

    def step(self, state: Any, action: Array, key: Array) -> Any:
        option = action[state.current_player, 0]
        return self.game.step(state, option, key)

    def view(self, state: Any) -> View:
        if self.players == 1:
            observation = state.observation[None]
            mask = state.legal_action_mask[None] if self._masked else None
            return View({OBSERVATION: observation}, mask)
        seen = []
        with warnings.catch_warnings():  # pgx discourages the second argument, and has no other way to ask
            warnings.simplefilter("ignore", DeprecationWarning)
            for player in range(self.players):
                observation = self.game.observe(state, jnp.int32(player))
                seen.append(observation)
        acts = jnp.arange(self.players) == state.current_player
        # The mask is that of the player whose turn it is; a player that waits gets one that forbids nothing.
        mask = state.legal_action_mask | ~acts[:, None]
        return View({OBSERVATION: jnp.stack(seen)}, mask, acts)

    def result(self, state: Any) -> Result:
        return Result(state.rewards, state.terminated)  # `truncated` of pgx is never set


def _made(game_id: str, arguments: dict[str, Any]) -> Any:
    """Return a game. Raises ConfigError for an argument that it does not have."""
    made = pgx.make(game_id)
    if not arguments:
        return made
    constructor = inspect.signature(type(made).__init__)
    known = tuple(constructor.parameters)[1:]  # without `self`
    for name in arguments:
        if name not in known:
            has = "it has none"
            if known:
                has = f"it has {', '.join(known)}{did_you_mean(name, known)}"
            raise ConfigError(f"pgx {game_id} has no such argument; {has}", key=(*ARGUMENTS, name))
    if "size" in known and game_id.startswith("go_"):
        # pgx has one class for all boards: go_9x9 stays 9x9 if another argument is set.
        arguments = {"size": made._game.size, "komi": made._game.komi, **arguments}
    try:
        return type(made)(**arguments)
    except Exception as error:
        raise repeating(error, f"pgx {game_id}: cannot be made with {arguments}", EnvironmentFailed) from error
