from __future__ import annotations

from rlcore.testing.fixtures import plugins

__all__ = ["plugins"]
