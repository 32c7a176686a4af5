"""One thread or two within the operations of a gradient step of DQN, whichever takes less time."""

from __future__ import annotations

from rlcore_dqn.trainer import DQNTrainer
from rlcore_torch import Acceleration
from rlcore_torch.acceleration.registry import every_method
from rlcore_torch.acceleration.update_threads import chosen_threads

# All steps have the same operations, but for copies of the network, which take no time.
THREADS = Acceleration[DQNTrainer](
    piece="update_threads", methods=every_method(DQNTrainer), make=chosen_threads(lambda trainer: 1)
)
