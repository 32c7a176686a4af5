"""Curricula that choose environment parameters from the agent's results."""
