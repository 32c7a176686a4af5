"""Noise for acting."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore.environment import BehaviorSpec
from rlcore.saved_values import saved_array
from rlcore.torch.actions import gumbel_noise


class ActionNoise:
    """Noise for acting, drawn for a whole rollout at once: per step a draw costs as much as the network."""

    def __init__(self, behavior: BehaviorSpec, rows: int, generator: np.random.Generator) -> None:
        self._generator = generator
        self._continuous = (rows, behavior.slots, behavior.continuous)
        self._logits = (rows, behavior.slots, behavior.mask_size)
        self._row = rows
        self._gaussian = np.empty(self._continuous, np.float32)
        self._gumbel = np.empty(self._logits, np.float32)

    def next(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Gaussian noise [S, continuous] and Gumbel noise [S, logits]."""
        if self._row == len(self._gaussian):
            self._gaussian = self._generator.standard_normal(self._continuous, dtype=np.float32)
            self._gumbel = gumbel_noise(self._generator, self._logits)
            self._row = 0
        row = self._row
        self._row = row + 1
        return self._gaussian[row], self._gumbel[row]

    def state_dict(self) -> dict[str, Any]:
        """The noise that was drawn and not used yet."""
        return {"gaussian": self._gaussian[self._row :].copy(), "gumbel": self._gumbel[self._row :].copy()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        # As long as it was drawn, which may be more than this run draws at once: its buffer_size may have changed.
        gaussian = saved_array(state, "gaussian", np.float32, (None, *self._continuous[1:]))
        self._gumbel = saved_array(state, "gumbel", np.float32, (len(gaussian), *self._logits[1:])).copy()
        self._gaussian = gaussian.copy()
        self._row = 0
