"""Nested blocks: of a class that only a plugin knows, and fields that take one block or a list of blocks."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from rlcore import Problems, SettingError, setting
from rlcore.config.reading import parse_document
from rlcore.config.structure import build, read_settings


@attrs.frozen(kw_only=True)
class Gate:
    width: float = setting(1.0, "How wide.", exclusive_minimum=0)
    posts: tuple[int, ...] = setting((1,), "Where.")

    def __attrs_post_init__(self) -> None:
        if len(self.posts) > 2:
            raise SettingError("posts", "there are two at most")


@attrs.frozen(kw_only=True)
class Field:
    gate: float | Gate | tuple[Gate, ...] | None = setting(None, "One, several, or a width.")


def test_a_block_of_a_plugin_is_read_with_its_defaults_or_gives_problems_with_paths() -> None:
    assert read_settings(Gate, {"width": "2e-1"}) == (Gate(width=0.2), ())
    assert read_settings(Gate, {"widht": 3, "posts": [1, "x"], "width": 0}) == (
        None,
        (
            (("widht",), "unknown key; did you mean 'width'? (allowed: width, posts)"),
            (("width",), "must be greater than 0, not 0"),
            (("posts", 1), "must be a whole number, not 'x'"),
        ),
    )
    assert read_settings(Gate, {"posts": [1, 2, 3]}) == (None, ((("posts",), "there are two at most"),))
    assert read_settings(Gate, [1]) == (None, (((), "must be a mapping of settings, not [1]"),))


@pytest.mark.parametrize(
    ("text", "gate"),
    [
        ("gate: 2", 2.0),
        ("gate: {width: 3}", Gate(width=3.0)),
        ("gate: [{width: 3}, {}]", (Gate(width=3.0), Gate())),
        ("gate: []", ()),
        ("gate: null", None),
        ("gate: {width: -3}", "c.yaml:1: gate.width: must be greater than 0, not -3"),
        ("gate:\n  - {}\n  - {width: x}", "c.yaml:3: gate[1].width: must be a finite number, not 'x'"),
        (
            "gate: wide",
            "c.yaml:1: gate: must be a finite number or a mapping of settings or a list or null, not 'wide'",
        ),
    ],
)
def test_one_field_may_take_a_number_a_block_or_a_list_of_blocks(text: str, gate: Any) -> None:
    document = parse_document(text, "c.yaml")
    problems = Problems(document)
    found = build(Field, document.data, (), problems)
    assert (str(problems.errors()) if found is None else found.gate) == gate
