"""TD3's agent steps per second, end to end, against Stable-Baselines3, on one core and on two.

One environment, Pendulum-v1, and one gradient step with 256 transitions on networks of 256-256 for each of its steps,
of which every second one moves the actor.
"""

from __future__ import annotations

from off_policy_speed import SpeedBenchmark
from td3_trainings import TD3Case

PENDULUM = TD3Case(env_id="Pendulum-v1", steps=4_000, random_steps=256, widths=(256, 256), buffer_size=100_000)
main = SpeedBenchmark("td3", [(PENDULUM, (3, 1))], targets={"pinned": 1.4, "free": 1.4}).command(__doc__)

if __name__ == "__main__":
    main()
