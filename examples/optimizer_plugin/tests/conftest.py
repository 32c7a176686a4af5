"""Needs this package, `rlcore-ppo`, `rlcore-sac`, `rlcore-gymnasium` and pytest installed."""

from __future__ import annotations

pytest_plugins = ["rlcore_devkit"]
