"""Trainers that learn from rollouts of the current policy."""
