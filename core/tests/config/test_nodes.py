"""Nodes: data that keeps its origin wherever it is moved."""

from __future__ import annotations

import pytest

from rlcore.config.document import Block, Document, Origin, merged, placed_like, with_value
from rlcore.config.reading import parse_document
from rlcore.config.rewriting import apply_overrides
from rlcore.errors import ConfigError

TEXT = "base:\n  a: 1\n  deep: {b: 2}\n  list: [3, {c: 4}]\nown:\n  deep:\n    d: 5\n"


def places(block: Block, *paths: str) -> list[str]:
    """Where the values at dotted paths were written, each as ``LINE PATH``."""
    origins = [
        Document(None, block).origin(tuple(int(key) if key.isdigit() else key for key in path.split(".")))
        for path in paths
    ]
    return [f"{each.place} {'.'.join(map(str, each.path))}" for each in origins]


def test_merging_keeps_the_origin_of_each_key_and_no_step_changes_the_data_it_is_given() -> None:
    data = parse_document(TEXT, "f").data
    both = merged(data["own"], data["base"])
    assert both == {"deep": {"d": 5, "b": 2}, "a": 1, "list": [3, {"c": 4}]}
    assert places(both, "deep.d", "deep.b", "deep", "a", "list.1.c", "elsewhere") == [
        "f:7 own.deep.d", "f:3 base.deep.b", "f:6 own.deep", "f:2 base.a", "f:4 base.list.1.c", " elsewhere",
    ]  # fmt: skip
    changed = with_value(data, ("base", "deep"), lambda deep: deep.with_entry("b", 7, Origin("--set x", 1, ("x",))))
    assert places(changed, "base.deep.b", "base.deep") == ["--set x x", "f:3 base.deep"]
    assert with_value(data, ("base", "a", "key"), lambda _: 1) == data
    assert data == {"base": {"a": 1, "deep": {"b": 2}, "list": [3, {"c": 4}]}, "own": {"deep": {"d": 5}}}


def test_defaults_beside_written_keys_have_the_place_of_the_block_around_them() -> None:
    written = parse_document("a: {b: '1e3'}\n", "f").data
    assert places(placed_like({"a": {"b": 1000, "default": 2}}, written), "a.b", "a.default") == [
        "f:1 a.b", "f:1 a.default",
    ]  # fmt: skip


def test_overrides_leave_the_document_itself_alone() -> None:
    document = parse_document("behaviors:\n  B: {max_steps: 10}\n", "c.yaml")
    changed = apply_overrides(document, ["behaviors.B.max_steps=1"], {})
    assert document.data["behaviors"]["B"]["max_steps"] == 10
    assert changed.where(("behaviors", "B", "max_steps")) == "--set behaviors.B.max_steps"
    assert changed.where(("behaviors", "B")) == "c.yaml:2"
    with pytest.raises(ConfigError):
        apply_overrides(document, ["x"], {})
