"""Trainers that learn from stored transitions."""
