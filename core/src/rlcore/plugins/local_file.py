"""A plugin that is one Python file: how it is told from a module, its absolute path, and which names it may have."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

from rlcore.plugins.plugin import LOCAL_PREFIX
from rlcore.storage.files.paths import user_path


def anchored(reference: str, base: Path | None) -> str:
    """A reference to a local file with its absolute path, from ``base`` or from here; any other reference unchanged."""
    module = reference.removeprefix(LOCAL_PREFIX)
    if module == reference or not is_file(module):
        return reference
    return LOCAL_PREFIX + str(((base or Path()) / user_path(module)).resolve())


def is_file(module: str) -> bool:
    """Whether a local plugin is a file (``./hooks.py``) rather than a module (``acme.hooks``)."""
    return module.endswith(".py") or "/" in module or "\\" in module


def import_file(path: Path) -> object:
    """Import a file as a module with its name, so that its records can name targets in it: ``"hooks:MyReward"``.

    The directory of the file is added to the end of the module search path, so that the file can import its siblings,
    now and when a target is used. A sibling with the name of an installed module is not found.
    """
    path = path.resolve()
    name = path.stem
    if not path.is_file():
        raise FileNotFoundError(f"no file {path}")
    present = sys.modules.get(name)
    if present is not None and getattr(present, "__file__", None) == str(path):
        return present
    taken = importlib.util.find_spec(name) if name.isidentifier() else None
    if not name.isidentifier() or (taken is not None and taken.origin != str(path)):
        raise ImportError(f"{path.name} must be renamed: {name!r} is not a free module name")
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
