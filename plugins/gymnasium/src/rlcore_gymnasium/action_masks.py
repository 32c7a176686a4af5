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

import numpy as np
from gymnasium.vector import SyncVectorEnv
from numpy.typing import NDArray

from rlcore_gymnasium.saved_wrappers import Env
from rlcore_gymnasium.spaces import ActionCodec, MismatchedValue, ObservationCodec
from rlcore_gymnasium.spaces.values import allowed_at_end

log = logging.getLogger(__name__)

ACTION_MASK = "action_mask"  # the entry of an info, or of a Dict observation
METHOD = "action_masks"

Flags = NDArray[np.bool_]
Rows = NDArray[np.intp]


class Masks:
    """Masks of N environments, and which of their episodes have some.

    Attributes:
        allowed: [N, options] what the latest observation of each environment allows; None until one gave a mask.
    """

    def __init__(self, acting: ActionCodec, observing: ObservationCodec, num_envs: int) -> None:
        self.allowed: Flags | None = None
        self._acting = acting
        self._in_observation = observing.has_mask
        self._masked = np.zeros(num_envs, np.bool_)  # whether each episode has masks
        self._warned = False

    def forget(self) -> None:
        """All environments start again."""
        # Whether there are masks is looked up again, so that a resumed run, which begins here, has the same batches.
        self.allowed = None
        self._masked[:] = False

    def _everything(self, rows: int) -> Flags:
        options = sum(self._acting.discrete)
        return np.ones((rows, options), np.bool_)

    def _allow(self, rows: Any, masks: Flags | None) -> None:
        """Store the masks of ``rows``; None allows everything."""
        if self.allowed is None:
            if masks is None:
                return
            num_envs = len(self._masked)
            self.allowed = self._everything(num_envs)
        self.allowed[rows] = True if masks is None else masks

    def _check(self, missing: bool, late: bool) -> None:
        """Refuse a mask that is missing within an episode, and warn of one that the first observation did not have."""
        if missing:
            raise MismatchedValue(f"an info without {ACTION_MASK!r}, although the infos of this episode before had one")
        if late and not self._warned:
            self._warned = True
            log.warning(
                "step returns an action_mask and reset returned none: the first action of these episodes may be any; "
                "return one with the first observation too (reported once)"
            )


class MaskedEnvironments(Masks):
    """The masks of N environments that are stepped one by one."""

    def __init__(self, acting: ActionCodec, observing: ObservationCodec, envs: Sequence[Env]) -> None:
        """``envs`` is the list of the environments, which may be replaced in it."""
        super().__init__(acting, observing, len(envs))
        self._envs = envs
        self._asks = bool(acting.discrete) and envs[0].has_wrapper_attr(METHOD)
        self._final = self._everything(len(envs))

    def read(self, index: int, observation: Any, info: Mapping[str, Any], first: bool = False) -> None:
        """Read the mask at an observation after which the agent acts; ``first`` of an episode.

        Raises MismatchedValue for a mask that does not fit the actions, and for one that is missing.
        """
        value = self._value(index, observation, info)
        has_one = value is not None
        had_before = bool(self._masked[index])
        if not first and has_one != had_before:
            self._check(missing=had_before, late=has_one)
        mask = self._acting.mask(value) if has_one else None
        self._allow(index, mask)
        self._masked[index] = has_one

    def read_final(self, row: int, index: int, observation: Any, info: Mapping[str, Any], truncated: bool) -> None:
        """Read the mask at the last observation of an episode, the one of ``row`` among those that ended."""
        if self.allowed is None:
            return
        # A terminal state has no next action, so the method may not expect to be asked there.
        may_ask = truncated or not self._asks
        value = self._value(index, observation, info) if may_ask else info.get(ACTION_MASK)
        self._final[row] = True
        if value is not None:
            mask = self._acting.mask(value)
            self._final[row] = allowed_at_end(mask, self._acting.discrete)

    def final(self, rows: int) -> Flags | None:
        """Return the masks [K, options] of the first K = ``rows`` rows that were read; None without masks."""
        if self.allowed is None:
            return None
        return self._final[:rows]

    def _value(self, index: int, observation: Any, info: Mapping[str, Any]) -> Any:
        """Return what an environment says it allows; None if it says nothing."""
        value = info.get(ACTION_MASK)
        if value is not None:
            return value
        if self._in_observation:
            if ACTION_MASK not in observation:
                raise MismatchedValue(f"an observation without its entry {ACTION_MASK!r}")
            return observation[ACTION_MASK]
        if not self._asks:
            return None
        action_masks = self._envs[index].get_wrapper_attr(METHOD)  # not kept: the environment may be replaced
        return action_masks()


class MaskedBatches(Masks):
    """The masks of N environments that are stepped in one call."""

    def __init__(self, acting: ActionCodec, observing: ObservationCodec, vector: Any) -> None:
        super().__init__(acting, observing, vector.num_envs)
        self._ask = _method_of(vector)

    def read(self, observations: Any, info: Any, begun: Rows, rows: Flags | None = None) -> None:
        """Read the masks of ``rows`` [N], all by default, whose agents act next; those of ``begun`` begin an episode.

        ``observations`` and ``info`` have a row for each environment. Raises MismatchedValue for masks that do not fit
        the actions, and for one that is missing.
        """
        if not self._acting.discrete:
            return
        if rows is None:
            rows = np.ones_like(self._masked)
        masks, has_one = self._found(observations, info)
        self._masked[begun] = False
        late = rows & has_one & ~self._masked
        late[begun] = False
        missing = rows & self._masked & ~has_one
        self._check(bool(missing.any()), bool(late.any()))
        self._masked |= rows & has_one
        if masks is not None:
            masks = masks[rows]
        self._allow(rows, masks)

    def read_final(self, observations: Any, info: Any, rows: Rows) -> Flags | None:
        """Return the masks [K, options] at the last observations of the episodes that ended in ``rows`` [K].

        ``observations`` and ``info`` have a row for each environment. None without masks.
        """
        if self.allowed is None or not rows.size:
            return None
        # The method is not asked: it may speak of the next episodes already.
        masks, _ = self._found(observations, info, method=False)
        if masks is None:
            return self._everything(len(rows))
        final = masks[rows]
        return allowed_at_end(final, self._acting.discrete)

    def _found(self, observations: Any, info: Any, method: bool = True) -> tuple[Flags | None, Flags]:
        """Return the masks [N, options], if there are any, and which environments gave one, [N]."""
        has_one = np.ones_like(self._masked)
        if isinstance(info, Mapping) and info.get(ACTION_MASK) is not None:
            # Gymnasium's vectorized forms write into `_NAME` which environments have the entry NAME.
            has_one[:] = info.get(f"_{ACTION_MASK}", True)
            values = info[ACTION_MASK]
        elif self._in_observation and isinstance(observations, Mapping):
            values = observations[ACTION_MASK]
        elif self._in_observation and observations is not None:  # an array of mappings, of the episodes that ended
            values = [None if final is None else final[ACTION_MASK] for final in observations]
        elif method and self._ask is not None:
            values = self._ask()
        else:
            return None, np.zeros_like(has_one)
        masks = self._acting.masks(values, len(has_one))
        masks[~has_one] = True
        return masks, has_one


def _method_of(vector: Any) -> Callable[[], Any] | None:
    """Return a function for the masks of all environments: the method of the vectorized form, or those of its parts."""
    method: Callable[[], Any] | None = getattr(vector, METHOD, None)
    if callable(method):
        return method
    if not isinstance(vector, SyncVectorEnv):
        return None
    envs = vector.envs
    if not all(env.has_wrapper_attr(METHOD) for env in envs):
        return None
    return lambda: [env.get_wrapper_attr(METHOD)() for env in envs]
