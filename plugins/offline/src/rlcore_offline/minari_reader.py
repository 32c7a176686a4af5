"""All episodes of a Minari dataset."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from minari.dataset.minari_storage import MinariStorage

from rlcore import ConfigError, NotInstalled, Recording, RlcoreError, one_line
from rlcore_gymnasium.spaces import MismatchedValue
from rlcore_offline.containment import require_contained
from rlcore_offline.layout import Layout
from rlcore_torch import require_memory

ACTION_MASK = "action_mask"  # the info entry in which Gymnasium environments, and our writer, list what is allowed


def read_episodes(path: Path, metadata: Mapping[str, Any], layout: Layout) -> Recording:
    """The dataset as one recording."""
    transitions = metadata["total_steps"]
    episodes = metadata["total_episodes"]
    where = f"Minari dataset {path}"
    require_memory(layout.behavior, transitions + episodes, what=where)
    try:
        require_contained(path / "data" / "main_data.hdf5", where, episodes, transitions)
        stored = MinariStorage.read(path / "data").get_episodes(range(episodes))
        parts = [part for number, each in enumerate(stored) if (part := _episodes_of(each, number, layout, where))]
    except RlcoreError:
        raise
    except ImportError as error:  # Minari says which of its extras it needs
        raise NotInstalled(f"{where}: {error}") from error
    except Exception as error:  # h5py, Minari and PIL raise errors of many kinds for files that are damaged
        raise ConfigError(f"{where} cannot be read: {one_line(error)}") from error
    found = sum(part.transitions for part in parts)
    if found != transitions or not found:
        raise ConfigError(
            f"{where}: it has {found} transitions where its metadata promises {transitions}; it is damaged or was not "
            "written to its end"
        )
    return Recording.joined(parts)


def _episodes_of(stored: Mapping[str, Any], number: int, layout: Layout, where: str) -> Recording | None:
    """The transitions of an episode; None if it has none.

    An episode that stops without an end was cut off. One with an end in its midst is as many episodes: what was seen
    after that end is where the one led and where the next begins.
    """
    reward = np.asarray(stored["rewards"], np.float32).reshape(-1)
    length = len(reward)
    try:
        seen = layout.observing.convert(stored["observations"])
    except MismatchedValue as error:
        raise ConfigError(f"{where}: episode {number} has {error}") from error
    if any(len(array) != length + 1 for array in seen.values()):
        raise ConfigError(f"{where}: episode {number} has {length} rewards, which do not fit its observations")
    if not length:
        return None
    actions = layout.acting.empty(length)
    layout.acting.read(stored["actions"], actions, slice(None))
    terminated, truncated = (np.array(stored[name], np.bool_).reshape(-1) for name in ("terminations", "truncations"))
    truncated[-1] = True
    truncated &= ~terminated
    ends = np.flatnonzero(terminated | truncated)
    kept = np.insert(np.arange(length), ends + 1, ends + 1)
    mask = (stored.get("infos") or {}).get(ACTION_MASK)
    if layout.observing.has_mask:
        mask = layout.acting.masks(stored["observations"][ACTION_MASK], length + 1)
    if not isinstance(mask, np.ndarray) or mask.shape != (length + 1, layout.behavior.mask_size):
        mask = None
    return Recording(
        layout.behavior,
        {o.name: seen[o.name][kept].astype(o.dtype, copy=False) for o in layout.observing.specs},
        actions,
        reward,
        terminated,
        truncated,
        np.diff(ends, prepend=-1),
        None if mask is None else mask[kept].astype(np.bool_),
    )
