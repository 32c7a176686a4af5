"""DQN's agent steps per second, end to end, against Stable-Baselines3, on one core and on two.

One environment, CartPole-v1, with RL Zoo's values: one gradient step with 64 transitions on a network of 256-256 for
each two steps.
"""

from __future__ import annotations

import attrs
from learning_tasks import DQN
from off_policy_speed import SpeedBenchmark

CARTPOLE = attrs.evolve(DQN["dqn-cartpole"], steps=10_000, evaluated_at=())
main = SpeedBenchmark("dqn", [(CARTPOLE, (4, 2))], targets={"pinned": 1.4, "free": 1.4}).command(__doc__)

if __name__ == "__main__":
    main()
