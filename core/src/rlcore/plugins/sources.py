"""The text of a plugin's module, read without importing it."""

from __future__ import annotations

from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path


def is_file(module: str) -> bool:
    """Whether a local plugin is a file (``./hooks.py``) rather than a module (``acme.hooks``)."""
    return module.endswith(".py") or "/" in module or "\\" in module


def module_text(module: str) -> str:
    """The text of a module or of a local file; empty if it is not found."""
    with suppress(Exception):  # a package that is looked into may be broken in any way
        return _place(module).read_text(encoding="utf-8")
    return ""


def _place(module: str) -> Path:
    if is_file(module):
        return Path(module)
    package, *inner = module.split(".")
    spec = find_spec(package)  # imports no package, because it is not inside one
    assert spec is not None and spec.origin is not None
    path = Path(spec.origin)
    if not inner:
        return path
    path = path.parent.joinpath(*inner)
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
