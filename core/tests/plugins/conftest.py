"""The fixtures that authors of plugins use: rlcore's own tests are their first user."""

from __future__ import annotations

from rlcore.testing.fixtures import clean_import, hook_calls, installed_plugin, plugins, run_rlcore

__all__ = ["clean_import", "hook_calls", "installed_plugin", "plugins", "run_rlcore"]
