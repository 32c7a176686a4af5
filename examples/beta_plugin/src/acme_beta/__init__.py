"""A Beta distribution for the continuous actions of policies."""
