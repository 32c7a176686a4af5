"""``environment_parameters`` brought to one shape: ``{NAME: {curriculum: {type: ..., ...}}}``.

ML-Agents has three shapes more, which all mean lessons: a number, a sampler, and ``{curriculum: [lessons]}``. Each part
keeps its origin, so that an error points to where and as what it is written.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from rlcore.config.document import Document
from rlcore.config.problems import KeyPath
from rlcore.config.structure import INVALID, to_float
from rlcore.plugins.known import LESSONS

PLACES: tuple[KeyPath, ...] = (("environment_parameters",), ("evaluation", "environment_parameters"))


def with_parameter_blocks(document: Document) -> Document:
    """The document with every block of ``environment_parameters`` in the one shape, as far as it has a known one."""
    data, taken = dict(document.data), dict(document.taken)
    for place in PLACES:
        above: Any = data
        for key in place[:-1]:
            above = above.get(key) if isinstance(above, Mapping) else None
        if not isinstance(above, Mapping) or not isinstance(above.get(place[-1]), Mapping):
            continue
        blocks = {}
        for name, block in above[place[-1]].items():
            blocks[name], moved = _one_shape(name, block)
            for old, new in moved:
                taken[(*place, name, *new)] = (*place, name, *old)
        data = _with(data, place, blocks)
    return attrs.evolve(document, data=data, taken=taken)


def _one_shape(name: str, block: Any) -> tuple[Any, list[tuple[KeyPath, KeyPath]]]:
    """The block in the one shape, and which of its paths went where."""
    if isinstance(block, Mapping) and isinstance(block.get("curriculum"), list):
        lessons = block["curriculum"]
        rest = {key: value for key, value in block.items() if key != "curriculum"}
        return {"curriculum": {"type": LESSONS, "lessons": lessons}, **rest}, [
            (("curriculum",), ("curriculum", "lessons")),
            (("curriculum",), ("curriculum", "type")),
        ]
    is_sampler = isinstance(block, Mapping) and not {"sampler_type", "sampler_parameters"}.isdisjoint(block)
    if is_sampler or to_float(block) is not INVALID:
        lesson = {"name": name, "value": block}
        return {"curriculum": {"type": LESSONS, "lessons": [lesson]}}, [
            ((), ("curriculum", "lessons", 0, "value")),
            ((), ("curriculum", "type")),
        ]
    return block, []


def _with(data: Mapping[str, Any], place: KeyPath, value: Any) -> dict[str, Any]:
    """A copy of ``data`` with ``value`` at ``place``."""
    key, *rest = place
    return {**data, str(key): _with(data[str(key)], tuple(rest), value) if rest else value}
