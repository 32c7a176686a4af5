"""Trackio as a statistics writer of rlcore."""
