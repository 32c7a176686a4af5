"""The most that settings accept.

The limits are far above any training, and low enough that a typing error or a hostile file is refused before memory is
requested. A value within the limits that does not fit into memory is refused later, by name.
"""

MAX_UNITS = 65_536
MAX_LAYERS = 256
MAX_ROWS = 1_000_000_000
MAX_ROLLOUT = 100_000_000
MAX_N_STEPS = 10_000
MAX_PASSES = 100_000
MAX_STEPS = 10**15
MAX_COPIES = 100_000
MAX_EPISODES = 1_000_000
MAX_CHECKPOINTS = 1_000_000
MAX_THREADS = 1_024
# More than any known benchmark lets an episode last, so that no result changes; a bound for one that has no end.
MAX_EPISODE_STEPS = 100_000
