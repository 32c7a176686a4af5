"""A run in several processes, its *ranks*: what they exchange in a step, and their one checkpoint."""
