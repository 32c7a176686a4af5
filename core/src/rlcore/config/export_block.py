"""The short form of the ``export`` block: ``export: [onnx]`` stands for ``export: {onnx: {}}``."""

from __future__ import annotations

from typing import Any

from rlcore.config.nodes import Block, Items, with_value

EXPORT = "export"


def with_export_block(data: Block) -> Block:
    """The data of a document with a list of exporters rewritten as a mapping. A wrong list stays as it is."""
    return with_value(data, (EXPORT,), _mapping)


def _mapping(block: Any) -> Any:
    if not isinstance(block, Items) or not all(isinstance(name, str) for name in block):
        return block
    if len(set(block)) < len(block):
        return block
    return Block((name, Block(), origin) for name, origin in zip(block, block.origins, strict=True))
