"""Needs this package, `rlcore[torch]`, `rlcore-ppo`, `rlcore-gymnasium`, `rlcore-curriculum` and pytest installed."""

from __future__ import annotations

pytest_plugins = ["rlcore.testing"]
