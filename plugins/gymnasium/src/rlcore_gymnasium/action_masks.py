"""Action masks of Gymnasium environments: where an environment says which options it allows.

They are in ``info["action_mask"]``, in an entry ``action_mask`` of the Dict observation, or what a method
``action_masks()`` returns, which sb3-contrib's MaskablePPO calls too. :meth:`ActionCodec.mask` reads the forms of one.

An episode without masks allows every option, and some episodes may have masks while others have none. Within an
episode, a mask that was there must be there at every observation: the last one would be that of another state, and
allowing everything would let agents learn from what is forbidden.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import SyncVectorEnv
from numpy.typing import NDArray

from rlcore_gymnasium.spaces import ActionCodec, MismatchedValue, ObservationCodec
from rlcore_gymnasium.spaces.values import allowed_at_end

__all__ = ["MaskedBatches", "MaskedEnvironments"]

log = logging.getLogger(__name__)

ACTION_MASK = "action_mask"  # the entry of an info, or of a Dict observation
METHOD = "action_masks"


def _warn_of_late_masks() -> None:
    log.warning(
        "step returns an action_mask and reset returned none: the first action of these episodes may be any; return "
        "one with the first observation too (reported once)"
    )


def _refuse_without() -> None:
    raise MismatchedValue(f"an info without {ACTION_MASK!r}, although the infos of this episode before had one")


class MaskedEnvironments:
    """The masks of N environments that are stepped one by one.

    Attributes:
        allowed: [N, options] what the latest observation of each environment allows; None until one gave a mask.
    """

    def __init__(
        self, acting: ActionCodec, observing: ObservationCodec, envs: Sequence[gymnasium.Env[Any, Any]]
    ) -> None:
        """``envs`` is the list of the environments, which may be replaced in it."""
        self.allowed: NDArray[np.bool_] | None = None
        self._acting = acting
        self._in_observation = observing.has_mask
        self._envs = envs
        self._asks = bool(acting.discrete) and envs[0].has_wrapper_attr(METHOD)
        self._final: NDArray[np.bool_] = np.empty((0, sum(acting.discrete)), np.bool_)
        self._masked = [False] * len(envs)  # whether the episode of each environment has masks
        self._warned = False

    def forget(self) -> None:
        """All environments start again."""
        self.allowed = None
        self._masked = [False] * len(self._envs)

    def read(self, index: int, observation: Any, info: Mapping[str, Any], first: bool = False) -> None:
        """Read the mask at an observation after which the agent acts; ``first`` of an episode.

        Raises MismatchedValue for a mask that does not fit the actions, and for one that is missing.
        """
        found = self._found(index, observation, info)
        if found is None:
            if self._masked[index] and not first:
                _refuse_without()
            self._masked[index] = False
            if self.allowed is not None:
                self.allowed[index] = True
            return
        mask = self._acting.mask(found)
        if self.allowed is None:
            self.allowed = np.ones((len(self._envs), len(mask)), np.bool_)
            self._final = self.allowed.copy()
        self.allowed[index] = mask
        if not (first or self._masked[index] or self._warned):
            self._warned = True
            _warn_of_late_masks()
        self._masked[index] = True

    def read_final(self, row: int, index: int, observation: Any, info: Mapping[str, Any], truncated: bool) -> None:
        """Read the mask at the last observation of an episode, the one of ``row`` among those that ended."""
        if self.allowed is None:
            return
        # A terminal state has no next action, so the method may not expect to be asked there.
        asked = truncated or not self._asks
        found = self._found(index, observation, info) if asked else info.get(ACTION_MASK)
        self._final[row] = True
        if found is not None:
            self._final[row] = allowed_at_end(self._acting.mask(found), self._acting.discrete)

    def final(self, rows: int) -> NDArray[np.bool_] | None:
        """Return the masks [K, options] of the first K = ``rows`` rows that were read; None without masks."""
        return None if self.allowed is None else self._final[:rows]

    def _found(self, index: int, observation: Any, info: Mapping[str, Any]) -> Any:
        found = info.get(ACTION_MASK)
        if found is None and self._in_observation:
            if ACTION_MASK not in observation:
                raise MismatchedValue(f"an observation without its entry {ACTION_MASK!r}")
            return observation[ACTION_MASK]
        if found is None and self._asks:
            return self._envs[index].get_wrapper_attr(METHOD)()
        return found


class MaskedBatches:
    """The masks of N environments that are stepped in one call.

    Attributes:
        allowed: [N, options] what the latest observation of each environment allows; None until one gave a mask.
    """

    def __init__(self, acting: ActionCodec, observing: ObservationCodec, vector: Any) -> None:
        self.allowed: NDArray[np.bool_] | None = None
        self._acting = acting
        self._in_observation = observing.has_mask
        self._num_envs = vector.num_envs
        self._ask = _method_of(vector) if acting.discrete else None
        self._masked: NDArray[np.bool_] = np.zeros(self._num_envs, np.bool_)  # whether each episode has masks
        self._warned = False

    def forget(self) -> None:
        """All environments start again."""
        self.allowed = None
        self._masked[:] = False

    def read(self, observations: Any, info: Any, rows: NDArray[np.bool_], begun: NDArray[np.intp]) -> None:
        """Read the masks of ``rows`` [N], whose agents act next; those of ``begun`` begin an episode.

        ``observations`` and ``info`` have a row for each environment. Raises MismatchedValue for masks that do not fit
        the actions, and for one that is missing.
        """
        masks, given = self._found(observations, info)
        self._masked[begun] = False
        if (rows & self._masked & ~given).any():
            _refuse_without()
        late = rows & given & ~self._masked
        late[begun] = False
        if late.any() and not self._warned:
            self._warned = True
            _warn_of_late_masks()
        self._masked |= rows & given
        if masks is None and self.allowed is None:
            return
        if self.allowed is None:
            self.allowed = np.ones((self._num_envs, sum(self._acting.discrete)), np.bool_)
        self.allowed[rows] = True if masks is None else masks[rows]

    def read_final(self, observations: Any, info: Any, rows: NDArray[np.intp]) -> NDArray[np.bool_] | None:
        """Return the masks [K, options] at the last observations of the episodes that ended in ``rows`` [K].

        ``observations`` and ``info`` have a row for each environment. None without masks.
        """
        if self.allowed is None or not rows.size:
            return None
        masks, _ = self._found(observations, info, method=False)
        if masks is None:
            return np.ones((len(rows), self.allowed.shape[1]), np.bool_)
        return allowed_at_end(masks[rows], self._acting.discrete)

    def _found(
        self, observations: Any, info: Any, method: bool = True
    ) -> tuple[NDArray[np.bool_] | None, NDArray[np.bool_]]:
        """Return the masks [N, options], if there are any, and which environments gave one, [N]."""
        given = np.ones(self._num_envs, np.bool_)
        if isinstance(info, Mapping) and info.get(ACTION_MASK) is not None:
            given[:] = info.get(f"_{ACTION_MASK}", True)
            found = info[ACTION_MASK]
        elif self._in_observation and isinstance(observations, Mapping):
            found = observations[ACTION_MASK]
        elif self._in_observation and observations is not None:  # an array of mappings, of the episodes that ended
            found = [None if each is None else each[ACTION_MASK] for each in observations]
        elif method and self._ask is not None:
            found = self._ask()
        else:
            return None, np.zeros_like(given)
        masks = self._acting.masks(found, self._num_envs)
        masks[~given] = True
        return masks, given


def _method_of(vector: Any) -> Callable[[], Any] | None:
    """Return a function for the masks of all environments: the method of the vectorized form, or those of its parts."""
    if callable(getattr(vector, METHOD, None)):
        return getattr(vector, METHOD)  # type: ignore[no-any-return]
    if isinstance(vector, SyncVectorEnv) and all(env.has_wrapper_attr(METHOD) for env in vector.envs):
        return lambda: [env.get_wrapper_attr(METHOD)() for env in vector.envs]
    return None
