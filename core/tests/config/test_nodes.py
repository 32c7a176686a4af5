"""Nodes: data that keeps its origin wherever it is moved."""

from __future__ import annotations

from typing import Any

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
)
from rlcore.config.reading import parse_document

TEXT = "base:\n  a: 1\n  deep: {b: 2}\n  list: [3, {c: 4}]\nown:\n  deep:\n    d: 5\n"
plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


def place(node: Any, *path: str | int) -> tuple[str, tuple[str | int, ...]]:
    origin = nearest_origin(node, path)
    assert origin is not None
    return origin.place, origin.path


def test_a_moved_node_keeps_the_lines_and_paths_of_everything_in_it() -> None:
    data = parse_document(TEXT, "c.yaml").data
    moved = Block([("new", data["base"], data.origins["base"])])
    assert place(moved, "new") == ("c.yaml:1", ("base",))
    assert place(moved, "new", "deep", "b") == ("c.yaml:3", ("base", "deep", "b"))
    assert place(moved, "new", "list", 1, "c") == ("c.yaml:4", ("base", "list", 1, "c"))
    assert place(moved, "new", "deep", "missing", "x") == ("c.yaml:3", ("base", "deep", "missing", "x"))
    assert nearest_origin(moved, ("elsewhere",)) is None


def test_merging_keeps_the_origin_of_each_key_and_changes_neither_side() -> None:
    data = parse_document(TEXT, "c.yaml").data
    both = merged(data["own"], data["base"])
    assert both == {"deep": {"d": 5, "b": 2}, "a": 1, "list": [3, {"c": 4}]}
    assert place(both, "deep", "d") == ("c.yaml:7", ("own", "deep", "d"))
    assert place(both, "deep", "b") == ("c.yaml:3", ("base", "deep", "b"))
    assert place(both, "deep") == ("c.yaml:6", ("own", "deep"))
    assert place(both, "a") == ("c.yaml:2", ("base", "a"))
    assert data == {"base": {"a": 1, "deep": {"b": 2}, "list": [3, {"c": 4}]}, "own": {"deep": {"d": 5}}}


def test_defaults_beside_written_keys_have_the_place_of_the_block_around_them() -> None:
    written = parse_document("a: {b: '1e3'}\n", "c.yaml").data
    complete = Block([("x", placed_like({"a": {"b": 1000, "default": 2}}, written), Origin("c.yaml:9", 9, ("x",)))])
    assert complete == {"x": {"a": {"b": 1000, "default": 2}}}
    assert place(complete, "x", "a", "b") == ("c.yaml:1", ("a", "b"))
    assert place(complete, "x", "a", "default") == ("c.yaml:1", ("a", "default"))


def test_a_changed_value_leaves_the_original_and_the_origins_around_it_alone() -> None:
    data = parse_document(TEXT, "c.yaml").data
    changed = with_value(data, ("base", "deep"), lambda deep: deep.with_entry("b", 7, Origin("--set x", 1, ("x",))))
    assert changed["base"]["deep"] == {"b": 7} and data["base"]["deep"] == {"b": 2}
    assert place(changed, "base", "deep", "b") == ("--set x", ("x",))
    assert place(changed, "base", "deep") == ("c.yaml:3", ("base", "deep"))
    assert with_value(data, ("base", "missing", "key"), lambda _: 1) == data
    assert with_value(data, ("base", "a", "key"), lambda _: 1) == data
    assert data["base"].without("a") == {"deep": {"b": 2}, "list": [3, {"c": 4}]}


@given(data=st.dictionaries(st.text(max_size=3), plain, max_size=3))
def test_placed_data_is_the_same_data_and_every_path_in_it_leads_back(data: dict[str, Any]) -> None:
    nodes = placed(data, Origin("here", 3, ("start",)))
    assert nodes == data and without_origins(nodes) == data

    def check(node: Any, path: tuple[str | int, ...]) -> None:
        entries = node.items() if isinstance(node, Block) else enumerate(node) if isinstance(node, Items) else ()
        for key, value in entries:
            assert nearest_origin(nodes, (*path, key)) == Origin("here", 3, ("start", *path, key))
            check(value, (*path, key))

    check(nodes, ())


@given(data=plain)
def test_data_without_origins_has_ordinary_containers_only(data: Any) -> None:
    def check(value: Any) -> None:
        assert type(value) not in (Block, Items)
        for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            check(each)

    check(without_origins(placed(data, Origin("", 0, ()))))
