"""Nodes: data that keeps its origin wherever it is moved."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlcore.config.document import (
    Block,
    Items,
    Origin,
    merged,
    nearest_origin,
    placed,
    placed_like,
    with_value,
    without_origins,
)  # fmt: skip
from rlcore.config.reading import parse_document
from rlcore.config.rewriting import apply_overrides
from rlcore.errors import ConfigError

TEXT = "base:\n  a: 1\n  deep: {b: 2}\n  list: [3, {c: 4}]\nown:\n  deep:\n    d: 5\n"
plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@pytest.fixture
def data() -> Block:
    return parse_document(TEXT, "c.yaml").data


def place(node: Any, *path: str | int) -> tuple[str, tuple[str | int, ...]]:
    origin = nearest_origin(node, path)
    assert origin is not None
    return origin.place, origin.path


def test_merging_keeps_the_origin_of_each_key_and_changes_neither_side(data: Block) -> None:
    both = merged(data["own"], data["base"])
    assert both == {"deep": {"d": 5, "b": 2}, "a": 1, "list": [3, {"c": 4}]}
    found = [place(both, *path) for path in (("deep", "d"), ("deep", "b"), ("deep",), ("a",), ("list", 1, "c"))]
    assert [line for line, _ in found] == ["c.yaml:7", "c.yaml:3", "c.yaml:6", "c.yaml:2", "c.yaml:4"]
    assert [path[0] for _, path in found] == ["own", "base", "own", "base", "base"]
    assert nearest_origin(both, ("elsewhere",)) is None
    assert data == {"base": {"a": 1, "deep": {"b": 2}, "list": [3, {"c": 4}]}, "own": {"deep": {"d": 5}}}


def test_defaults_beside_written_keys_have_the_place_of_the_block_around_them() -> None:
    written = parse_document("a: {b: '1e3'}\n", "c.yaml").data
    complete = Block([("x", placed_like({"a": {"b": 1000, "default": 2}}, written), Origin("c.yaml:9", 9, ("x",)))])
    assert complete == {"x": {"a": {"b": 1000, "default": 2}}}
    assert place(complete, "x", "a", "b") == ("c.yaml:1", ("a", "b"))
    assert place(complete, "x", "a", "default") == ("c.yaml:1", ("a", "default"))


def test_a_changed_value_leaves_the_original_and_the_origins_around_it_alone(data: Block) -> None:
    changed = with_value(data, ("base", "deep"), lambda deep: deep.with_entry("b", 7, Origin("--set x", 1, ("x",))))
    assert changed["base"]["deep"] == {"b": 7} and data["base"]["deep"] == {"b": 2}
    assert place(changed, "base", "deep", "b") == ("--set x", ("x",))
    assert place(changed, "base", "deep") == ("c.yaml:3", ("base", "deep"))
    for path in (("base", "missing", "key"), ("base", "a", "key")):
        assert with_value(data, path, lambda _: 1) == data
    assert data["base"].without("a") == {"deep": {"b": 2}, "list": [3, {"c": 4}]}


def test_overrides_leave_the_document_itself_alone() -> None:
    document = parse_document("behaviors:\n  B: {max_steps: 10}\n", "c.yaml")
    changed = apply_overrides(document, ["behaviors.B.max_steps=1"], {})
    assert document.data["behaviors"]["B"]["max_steps"] == 10
    assert changed.where(("behaviors", "B", "max_steps")) == "--set behaviors.B.max_steps"
    assert changed.where(("behaviors", "B")) == "c.yaml:2"
    with pytest.raises(ConfigError):
        apply_overrides(document, ["x"], {})


@given(data=st.dictionaries(st.text(max_size=3), plain, max_size=3))
def test_placed_data_is_the_same_data_and_every_path_in_it_leads_back(data: dict[str, Any]) -> None:
    nodes = placed(data, Origin("here", 3, ("start",)))
    bare = without_origins(nodes)
    assert nodes == data and bare == data

    def check(node: Any, ordinary: Any, path: tuple[str | int, ...]) -> None:
        assert type(ordinary) not in (Block, Items)
        entries = node.items() if isinstance(node, Block) else enumerate(node) if isinstance(node, Items) else ()
        for key, value in entries:
            assert nearest_origin(nodes, (*path, key)) == Origin("here", 3, ("start", *path, key))
            check(value, ordinary[key], (*path, key))

    check(nodes, bare, ())
