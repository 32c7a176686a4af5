"""Leaves out tests whose libraries rlcore-ghost itself does not require, where these are absent."""

from importlib.util import find_spec

NEEDS = {"test_actor_stack.py": "rlcore_torch", "test_match.py": "rlcore_offline"}
collect_ignore = [name for name, library in NEEDS.items() if find_spec(library) is None]
