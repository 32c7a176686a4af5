from __future__ import annotations

from rlcore_devkit.fixtures import plugins

__all__ = ["plugins"]
