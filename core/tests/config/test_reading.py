"""Reading YAML: strict, and every key remembers its line."""

from __future__ import annotations

import os
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from rlcore import ConfigError, Document
from rlcore.config.reading import MAX_BYTES, document_from_mapping, parse_document, read_document


def refused(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        parse_document(text, "c.yaml")
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_every_key_and_list_element_knows_its_line() -> None:
    document = parse_document("a:\n  b:\n    - 1\n    - 2\n  c: {d: 3}\n", "c.yaml")
    assert document.data == {"a": {"b": [1, 2], "c": {"d": 3}}}
    paths = (("a",), ("a", "b", 1), ("a", "c", "d"), ("a", "c", "missing", "deep"), ("nowhere",))
    assert [document.where(path) for path in paths] == ["c.yaml:1", "c.yaml:4", "c.yaml:5", "c.yaml:5", "c.yaml"]


# Aliases expand to 9**29 values, to 50,001 values, or to 2,000,000 letters, or are as deep as they are many.
ALIASES = "aliases (*) expand this to"
REFUSED = {
    "no text": ("a: \ud800\n", "c.yaml: not UTF-8 text"),
    "no YAML": ("a: \x01\n", "c.yaml: not valid YAML"),
    "many digits": ("a: " + "9" * 5000, "is not a valid int"),
    "a large number": (f"a: {2**65}", "is not a valid int"),
    "a small number": (f"a: {-(2**65)}", "is not a valid int"),
    "many values": (
        "".join(f"k{i}: 1\n" for i in range(30_000)),
        "c.yaml:25000: holds more than 50,000 values; no configuration does",
    ),
    "lists": (
        "a0: &a0 [x]\n" + "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 30)), ALIASES
    ),
    "merges": (
        "a0: &a0 {x: 1}\n"
        + "".join(f"a{i}: &a{i} {{<<: *a{i - 1}, b{i}: *a{i - 1}, c{i}: *a{i - 1}}}\n" for i in range(1, 30)),
        ALIASES,
    ),
    "values": (f"a: &a [{', '.join(['1'] * 999)}]\nb: [{', '.join(['*a'] * 50)}]\n", ALIASES),
    "letters": (f"a: &a {'x' * 20_000}\nb: [{', '.join(['*a'] * 100)}]\n", ALIASES),
    "keys": (f"a: &a {{{'x' * 900}: 1}}\nb: [{', '.join(['*a'] * 1_200)}]\n", ALIASES),
    "depth": ("a0: &a0 [x]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}]\n" for i in range(1, 60)), ALIASES),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_text_or_too_much_is_refused_at_once(case: str) -> None:
    text, message = REFUSED[case]
    start = time.process_time()
    assert message in refused(text)
    assert time.process_time() - start < 2


def test_an_alias_repeats_a_value_with_the_line_it_is_written_on_and_the_path_it_is_used_at() -> None:
    text = "behaviors:\n  A: &a\n    max_steps: 5\n    list: [1, 2]\n  B: *a\n  C: {list: [*a]}\n"
    document = parse_document(text, "c.yaml")
    own = {"max_steps": 5, "list": [1, 2]}
    assert document.data == {"behaviors": {"A": own, "B": own, "C": {"list": [own]}}}
    assert document.where(("behaviors", "B")) == "c.yaml:5"
    origin = document.origin(("behaviors", "B", "max_steps"))
    assert (origin.place, origin.path) == ("c.yaml:3", ("behaviors", "B", "max_steps"))
    assert document.data["behaviors"]["A"] is not document.data["behaviors"]["B"]


def test_own_keys_win_over_merged_ones_and_the_first_of_several_mappings_wins() -> None:
    text = (
        "one: &one {a: 1, b: 1, deep: {x: 1}}\n"
        "two: &two {b: 2, c: 2}\n"
        "both:\n  b: 3\n  <<: [*two, *one]\n  deep: {y: 3}\n"
        "single:\n  <<: *one\n"
        "written: {<<: {a: 4}, b: 4}\n"
    )
    document = parse_document(text, "c.yaml")
    both = document.data["both"]
    assert both == {"a": 1, "b": 3, "c": 2, "deep": {"y": 3}}  # not merged deeply, as in YAML
    assert list(both) == ["a", "b", "deep", "c"]
    assert document.data["single"] == document.data["one"] and document.data["written"] == {"a": 4, "b": 4}
    assert [document.where(("both", key)) for key in ("a", "b", "c")] == ["c.yaml:1", "c.yaml:4", "c.yaml:2"]


def test_dates_and_times_are_text_and_an_empty_file_an_empty_document() -> None:
    assert parse_document("a: 2026-01-01\nb: 1:30\n", "c.yaml").data == {"a": "2026-01-01", "b": "1:30"}
    assert parse_document("# nothing\n", "c.yaml").data == {}
    assert read_document(None) == Document(None)


def test_a_byte_order_mark_is_not_part_of_the_first_key(tmp_path: Path) -> None:
    (tmp_path / "bom.yaml").write_bytes(b"\xef\xbb\xbfa: 1\n")
    assert read_document(tmp_path / "bom.yaml").data == {"a": 1}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("none.yaml", r"none\.yaml: no such file"),
        ("", "cannot be read: Is a directory; this is not a conf"),
        ("pipe.yaml", r"pipe\.yaml: is not a regular file"),
        ("walker", "is a run; resume it with --resume --run-id walker"),
        ("CartPole", r"CartPole: no such file; did you mean '.*cartpole\.yaml'\?"),
        ("latin.yaml", r"latin\.yaml:2: not UTF-8"),
        ("big.yaml", r"big\.yaml: is larger than 1,000,000 bytes; this is not"),
    ],
)
def test_unreadable_files_are_named(tmp_path: Path, name: str, message: str) -> None:
    os.mkfifo(tmp_path / "pipe.yaml")
    (tmp_path / "walker").mkdir()
    contents = {"walker/configuration.yaml": b"", "cartpole.yaml": b"", "latin.yaml": b"a: 1\nb: \xe9\n"}
    for file, content in {**contents, "big.yaml": b"#" * (MAX_BYTES + 1)}.items():
        (tmp_path / file).write_bytes(content)
    with pytest.raises(ConfigError, match=message):
        read_document(tmp_path / name)


ENVIRONMENT = SimpleNamespace(reset=None, step=None)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"a": {"b": object()}}, r"a\.b: must be plain data"),
        (
            {"environment": ENVIRONMENT},
            r"^environment: must be plain data.*; give an environment, or a function that makes it, beside",
        ),
        ({"a": {1: 2}}, "a: keys must be text, not 1"),
        ({"a": -(2**65)}, "a: .* is too large a whole number"),
    ],
)
def test_python_data_must_be_plain(data: dict[str, object], message: str) -> None:
    assert document_from_mapping({"a": (1, 2)}).data == {"a": [1, 2]}
    with pytest.raises(ConfigError, match=message):
        document_from_mapping(data)
