"""The short form of the ``export`` block: ``export: [onnx]`` stands for ``export: {onnx: {}}``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rlcore.config.nodes import Block, Items, with_value
from rlcore.config.problems import shown

if TYPE_CHECKING:
    from rlcore.config.collected import Problems

EXPORT = "export"


def with_export_block(data: Block) -> Block:
    """The data of a document with a list of exporters rewritten as a mapping. A wrong list stays as it is."""
    return with_value(data, (EXPORT,), _mapping)


def add_problems(block: Any, problems: Problems) -> None:
    """Add what is wrong with an ``export`` block that is not a mapping."""
    if not isinstance(block, list):
        problems.add(
            (EXPORT,), f"must be a list of exporters, or a mapping from exporters to settings, not {shown(block)}"
        )
        return
    first: dict[str, int] = {}
    for index, name in enumerate(block):
        if isinstance(name, str):
            if first.setdefault(name, index) != index:
                problems.add((EXPORT, index), f"{name!r} is in the list already; delete one of them")
        else:
            problems.add(
                (EXPORT, index),
                f"must be the name of an exporter, not {shown(name)}; to give settings, write export as a mapping from "
                "exporters to settings",
            )


def _mapping(block: Any) -> Any:
    if not isinstance(block, Items) or not all(isinstance(name, str) for name in block):
        return block
    if len(set(block)) < len(block):
        return block
    return Block((name, Block(), origin) for name, origin in zip(block, block.origins, strict=True))
