"""Read what a settings class declares: its fields by their keys in a file, their types and their defaults."""

from __future__ import annotations

import typing
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import attrs

from rlcore.errors import PluginError
from rlcore.settings.fields import Choice, field_info


def chosen_by(cls: Any) -> Choice | None:
    """What chooses the class of a block that is declared as ``cls``; None if it is ``cls``.

    A class derived from one with a choice is the class of a record, and is itself.
    """
    choice = vars(cls).get("chosen") if isinstance(cls, type) else None
    return choice if isinstance(choice, Choice) else None


def settings_fields(cls: type) -> dict[str, attrs.Attribute[Any]]:
    """The fields of a settings class by the key they have in a file."""
    if not attrs.has(cls):
        raise PluginError(f"{cls.__module__}.{cls.__qualname__}: a settings class must be an attrs class")
    own = (attribute for attribute in attrs.fields(cls) if attribute.init and field_info(attribute).key)
    return {attribute.alias or attribute.name: attribute for attribute in own}


@lru_cache(maxsize=256)
def field_types(cls: type) -> Mapping[str, Any]:
    """The types of a settings class by attribute, with string annotations resolved."""
    try:
        return typing.get_type_hints(cls)
    except NameError as error:
        raise PluginError(
            f"{cls.__module__}.{cls.__qualname__}: {error}; a settings class needs its types at run time, "
            "so import them outside TYPE_CHECKING"
        ) from error


def default_of(attribute: attrs.Attribute[Any]) -> Any:
    """The default of a field; attrs.NOTHING if the field has none."""
    default: Any = attribute.default
    if isinstance(default, attrs.Factory):  # type: ignore[arg-type]
        return attrs.NOTHING if default.takes_self else default.factory()
    return default
