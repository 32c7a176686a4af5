"""The versions of what a run computes with."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from types import MappingProxyType

from rlcore._version import __version__


@cache
def library_versions() -> Mapping[str, str]:
    """The versions of rlcore, and of torch and numpy where they are installed.

    They are looked up once: metadata of packages is mail, and reading it takes as long as a fifth of a checkpoint.
    """
    found = {"rlcore": __version__}
    for library in ("torch", "numpy"):
        try:
            found[library] = version(library)
        except PackageNotFoundError:
            continue
    return MappingProxyType(found)
