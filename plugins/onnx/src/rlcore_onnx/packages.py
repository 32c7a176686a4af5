"""Packages that are imported only when they are needed."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module

__all__ = ["missing_packages"]


def missing_packages(names: Iterable[str]) -> list[str]:
    """Import packages, and return those that cannot be imported, each with the reason."""
    missing = []
    for name in names:
        try:
            import_module(name)
        except ImportError as error:
            missing.append(f"{name} ({error})")
    return missing
