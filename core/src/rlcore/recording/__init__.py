"""Recorded episodes: cutting whole episodes out of a run, and finding and reading recordings."""
