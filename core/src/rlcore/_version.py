"""The version of rlcore, apart from the package so that its own modules may import it."""

__version__ = "0.1.0"
"""The version of rlcore."""
