"""N environments of a simulator as one compiled program, with time limits, seeds and resets of its own.

The step of a simulator is vectorized as it is. The wrappers of the libraries are not used: none of them keeps the final
observation of an episode, and some restart every episode from the same state.

Environment i plays episode e with the key ``fold_in(fold_in(key(run_seed), i), e)``. The first state is drawn with
``fold_in(key, 0)``, and step t, from 1, with ``fold_in(key, t)``. An episode depends on nothing else.

Shapes: N environments, P players of each, S = N * P slots: slot ``env * P + player`` is a player.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from rlcore_jax.simulator import Array, Simulator, View


class Carry(NamedTuple):
    """Everything that the next step depends on, and nothing else: what a checkpoint saves.

    Attributes:
        state: The states of the simulator, a tree of arrays [N, ...].
        keys: [N] the key of each environment, from which those of its episodes follow.
        episodes: [N] the number of the open episode, int32.
        steps: [N] steps of the open episode, int32.
        pending: [N, P] rewards of players whose transition is open.
    """

    state: Any
    keys: Array
    episodes: Array
    steps: Array
    pending: Array


class Output(NamedTuple):
    """The results of a step for the players. No array of it shares its memory with a :class:`Carry`.

    Attributes:
        observations: What they see, by name, each [2, S, *shape]: first what they see now, of the next episode where
            one ended; then what they saw before a reset, which matters where an episode ended. Each array that leaves
            a program costs time, so both are one.
        mask: [S, options] whether each option is allowed now; None: all are.
        final_mask: [S, options] whether each option was allowed before a reset; None: all were, or episodes are never
            cut off, so that it does not matter.
        reward: [S] float32, rewards since the player's last action, where its transition closed; else 0.
        flags: [3, S] bool, whether the episode terminated, whether it was cut off, and whether the player acts next;
            one array for the same reason. Without turns, the last row is left out.
    """

    observations: dict[str, Array]
    mask: Array | None
    final_mask: Array | None
    reward: Array
    flags: Array


class Program:
    """The compiled reset and step of N environments.

    ``step`` reuses the memory of the carry that it gets: the old carry is gone afterwards.

    Attributes:
        simulator: The simulator of one environment.
        num_envs: N, the number of environments.
        takes_turns: Whether players wait for others.
        reset: :meth:`_reset`, compiled.
        step: :meth:`_step`, compiled.
        show: :meth:`_show`, compiled.
    """

    def __init__(
        self, simulator: Simulator, num_envs: int, max_episode_steps: int | None = None, reset_rows: int | None = None
    ) -> None:
        """An episode is cut off after ``max_episode_steps`` steps; None: never.

        ``reset_rows`` environments are reset together where some ended; None: all N, of which those are kept that
        ended. The number changes the speed and no result.
        """
        self.simulator = simulator
        self.num_envs = num_envs
        self.takes_turns = simulator.players > 1
        self._limit = max_episode_steps
        self._chunk = num_envs
        if reset_rows is not None:
            self._chunk = min(reset_rows, num_envs)
        self.reset = jax.jit(self._reset)
        self.step = jax.jit(self._step, donate_argnums=0)
        self.show = jax.jit(self._show)

    def _reset(self, run_key: Array, envs: Array, episodes: Array) -> tuple[Carry, Output]:
        """Start the ``episodes`` [N] of the environments that have the numbers ``envs`` [N] in the run."""
        fold_numbers = jax.vmap(jax.random.fold_in, (None, 0))
        keys = fold_numbers(run_key, envs)
        episode_keys = _folded(keys, episodes)
        state = self._first(episode_keys)
        steps = jnp.zeros_like(episodes)
        pending = jnp.zeros((self.num_envs, self.simulator.players), jnp.float32)
        carry = Carry(state, keys, episodes, steps, pending)
        return carry, self._show(carry)

    def _show(self, carry: Carry) -> Output:
        """Return what the players see, as after a reset or a restored state: without rewards and ends."""
        view = jax.vmap(self.simulator.view)(carry.state)
        no_reward = jnp.zeros_like(carry.pending)
        never = jnp.zeros(self.num_envs, jnp.bool_)
        return self._output(view, view, no_reward, never, never)

    def _step(self, carry: Carry, actions: Array) -> tuple[Carry, Output]:
        """Move every environment once with ``actions`` [N, P, ...], and reset those whose episode ended."""
        steps = carry.steps + 1
        episode_keys = _folded(carry.keys, carry.episodes)
        step_keys = _folded(episode_keys, steps)
        state = jax.vmap(self.simulator.step)(carry.state, actions, step_keys)
        state = _of_strong_types(state)
        reward, terminated, truncated = jax.vmap(self.simulator.result)(state)
        cuts = truncated is not None or self._limit is not None
        if truncated is None:
            truncated = jnp.zeros_like(terminated)
        if self._limit is not None:
            late = steps >= self._limit
            truncated = truncated | late
        # With both, an episode terminated: no value follows a terminal state.
        truncated = truncated & ~terminated
        ended = terminated | truncated
        see = jax.vmap(self.simulator.view)
        final = see(state)
        if not cuts:  # the mask of a final observation matters where an episode was cut off alone
            final = final._replace(mask=None)

        episodes = carry.episodes + ended
        steps = jnp.where(ended, 0, steps)
        # What is seen of the states is calculated outside: XLA does not fuse what is inside, and a step takes longer.
        state = jax.lax.cond(ended.any(), self._restarted, _unchanged, state, ended, carry.keys, episodes)
        view = see(state)

        earned = carry.pending + reward.astype(jnp.float32)
        reward = earned
        pending = jnp.zeros_like(earned)
        if view.acts is not None:  # the rewards of who waits belong to its last action, whose transition is open
            closed = ended[:, None] | view.acts
            reward = jnp.where(closed, earned, 0)
            pending = jnp.where(closed, 0, earned)
        carry = Carry(state, carry.keys, episodes, steps, pending)
        return carry, self._output(view, final, reward, terminated, truncated)

    def _restarted(self, state: Any, ended: Array, keys: Array, episodes: Array) -> Any:
        """Return ``state`` with the first states of episodes in the rows that ``ended`` [N].

        ``keys`` [N] are those of the environments, ``episodes`` [N] the numbers of the episodes that begin.
        """
        count = self.num_envs
        chunk = self._chunk
        if chunk == count:
            episode_keys = _folded(keys, episodes)
            first = self._first(episode_keys)

            def replaced(new: Array, old: Array) -> Array:
                return jnp.where(_beside(ended, new), new, old)

            return jax.tree.map(replaced, first, state)
        # The numbers of the rows that ended, then `count`, which is not a row: what is written there is dropped.
        most_chunks = -(-count // chunk)  # rounded up
        (rows,) = jnp.nonzero(ended, size=most_chunks * chunk, fill_value=count)

        def reset_some(part: Array, state: Any) -> Any:
            begin = part * chunk
            targets = jax.lax.dynamic_slice(rows, (begin,), (chunk,))
            existing = jnp.minimum(targets, count - 1)
            episode_keys = _folded(keys[existing], episodes[existing])
            first = self._first(episode_keys)

            def written(new: Array, old: Array) -> Array:
                return old.at[targets].set(new, mode="drop")

            return jax.tree.map(written, first, state)

        chunks = -(-ended.sum() // chunk)
        return jax.lax.fori_loop(0, chunks, reset_some, state)

    def _first(self, keys: Array) -> Any:
        """Return the first states of the episodes with these ``keys`` [R]."""
        step_zero = jnp.zeros(keys.shape, jnp.int32)
        step_keys = _folded(keys, step_zero)
        state = jax.vmap(self.simulator.init)(step_keys)
        return _of_strong_types(state)

    def _output(self, view: View, final: View, reward: Array, terminated: Array, truncated: Array) -> Output:
        players = (self.num_envs, self.simulator.players)
        slots = self.num_envs * self.simulator.players
        observations = {}
        for spec in self.simulator.observations:
            both = []
            for seen in (view, final):
                array = seen.observations[spec.name].reshape(slots, *spec.shape)
                both.append(array.astype(spec.dtype))
            observations[spec.name] = jnp.stack(both)
        # An episode is that of all players of an environment.
        of_players = [terminated[:, None], truncated[:, None]]
        if view.acts is not None:
            of_players.append(view.acts)
        flags = []
        for flag in of_players:
            spread = jnp.broadcast_to(flag, players)
            flags.append(spread.reshape(slots))
        return Output(
            observations=observations,
            mask=_mask_of_slots(view, slots),
            final_mask=_mask_of_slots(final, slots),
            reward=reward.reshape(slots),
            flags=jnp.stack(flags),
        )


def _mask_of_slots(view: View, slots: int) -> Array | None:
    """Return the mask of ``view`` as [slots, options]; None allows everything."""
    if view.mask is None:
        return None
    return view.mask.reshape(slots, -1)


def _of_strong_types(state: Any) -> Any:
    """Return ``state`` without weak types: JAX would compile a step once more for a state that differs in them."""

    def strong(leaf: Array) -> Array:
        return jax.lax.convert_element_type(leaf, leaf.dtype)

    return jax.tree.map(strong, state)


def _unchanged(state: Any, *_: Array) -> Any:
    return state


def _folded(keys: Array, numbers: Array) -> Array:
    """Return a key for each of ``keys`` [R] and ``numbers`` [R]."""
    fold = jax.vmap(jax.random.fold_in)
    return fold(keys, numbers)


def _beside(ended: Array, like: Array) -> Array:
    """Return ``ended`` [N] with as many axes as ``like`` [N, ...]."""
    further = [1] * (like.ndim - 1)
    return ended.reshape(-1, *further)
