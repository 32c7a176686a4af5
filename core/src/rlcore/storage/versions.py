"""The versions of the libraries and plugins of a run, compared with those of a checkpoint."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from rlcore._version import __version__

if TYPE_CHECKING:
    from rlcore.plugins.calls import Plugins

log = logging.getLogger(__name__)


@cache
def library_versions() -> Mapping[str, str]:
    """The versions of rlcore, and of torch and numpy where they are installed.

    They are looked up once, because reading a package's metadata takes a fifth of the time of a checkpoint.
    """
    found = {"rlcore": __version__}
    for library in ("torch", "numpy"):
        try:
            found[library] = version(library)
        except PackageNotFoundError:
            continue
    return MappingProxyType(found)


def run_versions(plugins: Plugins) -> dict[str, dict[str, str]]:
    """The versions of libraries, and distribution and version of every loaded plugin by its name."""
    loaded = {each.name: f"{each.distribution} {each.version}".strip() for each in plugins.loaded}
    return {"libraries": dict(library_versions()), "plugins": loaded}


def warn_of_other_versions(saved: Mapping[str, Any], now: Mapping[str, Mapping[str, str]]) -> None:
    """Warns of every library and plugin whose version differs between a checkpoint (``saved``) and this process."""
    for kind, what in (("libraries", "%s"), ("plugins", "plugin %r")):
        before, after = saved.get(kind, {}), now[kind]
        for name in sorted(before.keys() | after.keys() if before else ()):
            if before.get(name) != after.get(name):
                was, is_now = (side.get(name, "not loaded") or "without a version" for side in (before, after))
                log.warning(f"{what}: %s when the run was saved, %s now", name, was, is_now)
