"""A run in several processes, its *ranks*: how they start, what they exchange in a step, and their one checkpoint."""
