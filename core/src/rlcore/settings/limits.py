"""The largest values that settings accept.

The limits are far above what training needs, and low enough to refuse a typing error or a hostile file before memory is
requested. A value within the limits that does not fit into memory is refused later, with its name.
"""

MAX_STEPS = 10**15
MAX_NUM_ENVS = 100_000
MAX_WORKERS = 1_024
MAX_RESTARTS = 1_000_000
MAX_SECONDS = 10_000_000
MAX_EPISODES = 1_000_000
MAX_CHECKPOINTS = 1_000_000
MAX_THREADS = 1_024
# Longer than the episodes of any known benchmark, so that no result changes; it bounds episodes that never end.
MAX_EPISODE_STEPS = 100_000
