"""Leaves out tests whose libraries rlcore-torch itself does not require, where these are absent."""

from importlib.util import find_spec

collect_ignore = [] if find_spec("rlcore_offline") else ["test_imitation_step.py"]
