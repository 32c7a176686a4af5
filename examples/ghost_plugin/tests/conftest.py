"""Needs this package, `rlcore-ppo`, `rlcore-sac` and pytest installed."""

from __future__ import annotations

pytest_plugins = ["rlcore_devkit"]
