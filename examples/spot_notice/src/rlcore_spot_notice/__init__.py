"""Saves a checkpoint and ends a run before its spot machine is taken away."""
