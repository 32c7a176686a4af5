"""Ratings from the match log of a run, for ``rlcore ratings``; training imports nothing from here."""
