"""One thread or two within the operations of a gradient step of DQN, whichever takes less time."""

from __future__ import annotations

from rlcore_dqn.trainer import DQNTrainer
from rlcore_torch import chosen_threads

# All steps have the same operations, but for copies of the network, which take no time.
THREADS = chosen_threads(DQNTrainer)
