"""Lives that an agent loses within an episode: trainers learn as if the episode had terminated there.

The episode itself goes on, so its return and its length, which rlcore reports, are those of the whole game.
"""

from __future__ import annotations

import attrs
import numpy as np

from rlcore import AgentBatch

__all__ = ["lives_as_episodes"]


def lives_as_episodes(batch: AgentBatch) -> AgentBatch:
    """Return ``batch`` with an end of the episode where a life was lost, as trainers learn from it.

    The observation after the life is the final one, and also the one with which the next life begins. ``life_lost`` is
    None in the result, which a second call therefore leaves as it is.
    """
    if batch.life_lost is None or not batch.life_lost.any():
        return batch
    terminated = batch.terminated | (batch.life_lost & ~batch.truncated)
    ended = np.flatnonzero(terminated | batch.truncated)
    finals = {name: array[ended] for name, array in batch.observations.items()}
    masks = None if batch.action_mask is None else batch.action_mask[ended]
    episodes = np.searchsorted(ended, batch.ended)  # rows of `ended` whose episode has ended, not a life alone
    for name, array in (batch.final_observations or {}).items():
        finals[name][episodes] = array
    if masks is not None and batch.ended.size:
        masks[episodes] = True if batch.final_action_mask is None else batch.final_action_mask
    return attrs.evolve(
        batch,
        terminated=terminated,
        ended=ended,
        final_observations=finals,
        final_info=None,
        final_action_mask=masks,
        life_lost=None,
    )
