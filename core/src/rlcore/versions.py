"""The versions of what a run computes with."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def library_versions() -> dict[str, str]:
    """The versions of rlcore, and of torch and numpy where they are installed."""
    import rlcore

    found = {"rlcore": rlcore.__version__}
    for library in ("torch", "numpy"):
        try:
            found[library] = version(library)
        except PackageNotFoundError:
            continue
    return found
