"""Read what a settings class declares: its fields by their keys in a file, their types and their defaults."""

from __future__ import annotations

import typing
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import attrs

from rlcore.errors import PluginError
from rlcore.settings import OpponentSettings, OptimizerSettings, ReplaySamplerSettings, WorkerSettings
from rlcore.settings.fields import field_info

# Blocks whose key ``type``, or ``executor`` of workers, names a record, by the base class of their settings; the record
# names the class itself.
# Where the class has no default type, a block without the key has the type that it is named after.
TYPED_BLOCKS: Mapping[type, str] = {
    ReplaySamplerSettings: "replay_sampler",
    OptimizerSettings: "optimizer",
    OpponentSettings: "opponent",
    WorkerSettings: "executor",
}


def type_key(base: type) -> str:
    """The key of one of :data:`TYPED_BLOCKS` that names the record."""
    return "executor" if base is WorkerSettings else "type"


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
