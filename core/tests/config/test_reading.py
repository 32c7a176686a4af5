"""Reading YAML: strict, and every key remembers its line."""

from __future__ import annotations

import os
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from rlcore import ConfigError, ConfigErrors, Document, apply_overrides, yaml_text
from rlcore.config.reading import MAX_BYTES, document_from_mapping, parse_document, read_document
from rlcore.config.yaml_forms import FLOAT, LEADING_ZERO


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


@pytest.mark.parametrize("written", ["1e-3", "5E5", "-2e+4", "1.5e3", ".5e2", "1.e4", "1e05"])
def test_a_number_with_an_exponent_is_a_number_in_every_place(written: str) -> None:
    text = f"options: {{g: {written}, wrappers: [{written}], text: '{written}', tagged: !!str {written}}}\n"
    options = parse_document(text, "c.yaml").data["options"]
    assert options == {"g": float(written), "wrappers": [float(written)], "text": written, "tagged": written}
    assert type(options["g"]) is float
    changed = apply_overrides(Document(None), [f"environment.options.g={written}"])
    assert changed.data == {"environment": {"options": {"g": float(written)}}}


@pytest.mark.parametrize(
    ("written", "meant"), [("010", "10"), ("0200", "200"), ("08", "8"), ("-0_7", "-7"), ("00", "0")]
)
def test_a_leading_zero_is_refused(written: str, meant: str) -> None:
    with pytest.raises(ConfigErrors, match=f"c.yaml:2: options.level: '{written}' has a leading zero; write {meant}, "):
        parse_document(f"options:\n  level: {written}\n", "c.yaml")
    quoted = parse_document(f"a: '{written}'\nb: 0\nc: 0.5\nd: 0x1f\ne: yes\n", "c.yaml").data
    assert quoted == {"a": written, "b": 0, "c": 0.5, "d": 31, "e": True}


def test_a_number_that_is_too_large_is_refused_instead_of_read_as_infinite() -> None:
    with pytest.raises(ConfigErrors, match="'1e999' is not a valid float"):
        parse_document("options: {level: 1e999}\n", "c.yaml")
    assert parse_document("a: .inf\n", "c.yaml").data == {"a": float("inf")}


NUMBERS = st.from_regex(FLOAT) | st.from_regex(LEADING_ZERO) | st.floats().map(repr) | st.integers().map(str)


@given(text=st.text() | NUMBERS)
@example("1e-3")
@example("089")
def test_any_text_survives_being_written_and_read(text: str) -> None:
    assume("\0" not in text and text.isprintable())
    for options in ({}, {"default_flow_style": True}, {"allow_unicode": True}):
        written = yaml_text({"key": [text], "deep": {"value": text}}, **options)
        assert parse_document(written, "c.yaml").data == {"key": [text], "deep": {"value": text}}


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
