"""How numbers, and colons after keys, are written in a configuration, where YAML 1.1, which PyYAML reads, surprises.

``1e-3`` is a number, as in YAML 1.2 and in Python; YAML 1.1 asks for a dot and a sign, and reads a text. ``010`` is
refused: YAML 1.1 reads the octal 8, YAML 1.2 ten. Reader and writer have the same rules, so a text that looks like
such a number is written in quotes.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import yaml

FLOAT = re.compile(r"[-+]?(?:[0-9][0-9_]*(?:\.[0-9_]*)?|\.[0-9][0-9_]*)[eE][-+]?[0-9]+\Z")
_KEY_AND_VALUE = re.compile(r"([A-Za-z_][\w.-]*):([^\s:/\\].*)")
_LONGEST = 200  # letters of a text that is repeated in a message
LEADING_ZERO = re.compile(r"[-+]?0[0-9_]+\Z")

_TAG = "tag:yaml.org,2002:"
_FIRST_OF_FLOAT = list("-+.0123456789")
_FIRST_OF_LEADING_ZERO = list("-+0")


@cache
def loader_class() -> type[yaml.SafeLoader]:
    """Return the class that reads configurations, with the numbers of this module."""
    import yaml

    base = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    cls: type[yaml.SafeLoader] = _with_forms("ConfigurationLoader", base)
    return cls


def yaml_text(data: Any, **options: Any) -> str:
    """Return plain data as YAML that a configuration may contain: every text is read back as the same text.

    ``options`` are those of ``yaml.dump``.
    """
    import yaml

    text: str = yaml.dump(data, Dumper=_dumper_class(), **options)
    return text


@cache
def _dumper_class() -> Any:
    import yaml

    return _with_forms("ConfigurationDumper", yaml.SafeDumper)


def _with_forms(name: str, base: Any) -> Any:
    """A subclass of a loader or dumper that resolves the plain scalars of this module as numbers."""
    cls: Any = type(name, (base,), {})
    cls.add_implicit_resolver(f"{_TAG}float", FLOAT, _FIRST_OF_FLOAT)
    cls.add_implicit_resolver(f"{_TAG}int", LEADING_ZERO, _FIRST_OF_LEADING_ZERO)
    return cls


def missing_space(text: str) -> str:
    """Return what to write instead of ``key:value``, which is one text in YAML; empty for any other text."""
    match = _KEY_AND_VALUE.fullmatch(text.strip())
    if match is None or len(text) > _LONGEST:
        return ""
    key, value = match.groups()
    return f"write a space after the colon: {key}: {value}"
