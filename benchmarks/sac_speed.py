"""SAC's agent steps per second, end to end, against Stable-Baselines3 and forty lines, on one core and on two.

One environment, Pendulum-v1 or HalfCheetah-v5, and one gradient step with 256 transitions on networks of 256-256 for
each of its steps. rlcore runs without a key for its threads. ``plain`` is the update of ``plain_sac.py`` in the
shortest loop that trains, with critics as modules and as one stack.
"""

from __future__ import annotations

from off_policy_speed import OURS, PEER, SpeedBenchmark
from sac_trainings import MODULES, STACK, SACCase

PENDULUM = SACCase(env_id="Pendulum-v1", steps=4_000, random_steps=256, learning_rate=1e-3, buffer_size=100_000)
HALFCHEETAH = SACCase(env_id="HalfCheetah-v5", steps=4_000, random_steps=256, buffer_size=100_000)
main = SpeedBenchmark(
    "sac",
    [(PENDULUM, (3, 1)), (HALFCHEETAH, (17, 6))],
    targets={"pinned": 1.35, "free": 1.4},
    entrants={
        "pinned": [(OURS, None), (PEER, 1), (MODULES, 1), (STACK, 1)],
        "free": [(OURS, None), *((library, threads) for library in (PEER, MODULES, STACK) for threads in (1, 2))],
    },
).command(__doc__)

if __name__ == "__main__":
    main()
