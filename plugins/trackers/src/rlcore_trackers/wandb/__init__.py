"""Weights & Biases as a statistics writer of rlcore."""
