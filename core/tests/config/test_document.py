"""Reading YAML: strict, and every key remembers its line."""

from __future__ import annotations

import os
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from rlcore.config.document import Document
from rlcore.config.reading import MAX_BYTES, document_from_mapping, parse_document, read_document
from rlcore.errors import ConfigError
from rlcore.run.run import Run


def refused(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        parse_document(text, "c.yaml")
    return str(caught.value)


def test_every_key_and_list_element_knows_its_line() -> None:
    document = parse_document("a:\n  b:\n    - 1\n    - 2\n  c: {d: 3}\n", "c.yaml")
    assert document.data == {"a": {"b": [1, 2], "c": {"d": 3}}}
    assert document.where(("a",)) == "c.yaml:1"
    assert document.where(("a", "b", 1)) == "c.yaml:4"
    assert document.where(("a", "c", "d")) == "c.yaml:5"
    assert document.where(("a", "c", "missing", "deep")) == "c.yaml:5"
    assert document.where(("nowhere",)) == "c.yaml"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: \ud800\n", "c.yaml: not UTF-8 text"),
        ("a: \x01\n", "c.yaml: not valid YAML"),
        ("a: " + "9" * 5000, "is not a valid int"),
    ],
)
def test_what_no_text_of_a_file_holds_is_refused(text: str, message: str) -> None:
    assert message in refused(text)
    assert "\n" not in refused(text)


# Each expands to 9**29 values, 50,001 values, or 2,000,000 letters; the last one is as deep as its aliases are many.
BOMBS = {
    "lists": "a0: &a0 [x]\n" + "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 30)),
    "merges": "a0: &a0 {x: 1}\n" + "".join(
        f"a{i}: &a{i} {{<<: *a{i - 1}, b{i}: *a{i - 1}, c{i}: *a{i - 1}}}\n" for i in range(1, 30)
    ),
    "values": f"a: &a [{', '.join(['1'] * 999)}]\nb: [{', '.join(['*a'] * 50)}]\n",
    "text": f"a: &a {'x' * 20_000}\nb: [{', '.join(['*a'] * 100)}]\n",
    "keys": f"a: &a {{{'x' * 900}: 1}}\nb: [{', '.join(['*a'] * 1_200)}]\n",
    "depth": "a0: &a0 [x]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}]\n" for i in range(1, 60)),
}  # fmt: skip


@pytest.mark.parametrize("bomb", BOMBS)
def test_an_alias_bomb_is_refused_at_once(bomb: str) -> None:
    start = time.process_time()
    assert "aliases (*) expand this to" in refused(BOMBS[bomb])
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
    assert document.data["both"] == {"a": 1, "b": 3, "c": 2, "deep": {"y": 3}}  # not merged deeply, as in YAML
    assert document.data["single"] == document.data["one"]
    assert document.data["written"] == {"a": 4, "b": 4}
    assert [document.where(("both", key)) for key in ("a", "b", "c")] == ["c.yaml:1", "c.yaml:4", "c.yaml:2"]
    assert {key: list(block) for key, block in document.data.items()}["both"] == ["a", "b", "deep", "c"]


def test_dates_and_times_are_text_and_an_empty_file_an_empty_document() -> None:
    assert parse_document("a: 2026-01-01\nb: 1:30\n", "c.yaml").data == {"a": "2026-01-01", "b": "1:30"}
    assert parse_document("# nothing\n", "c.yaml").data == {}
    assert read_document(None) == Document(None)


def test_unreadable_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.yaml: no such file"):
        read_document(tmp_path / "none.yaml")
    with pytest.raises(ConfigError, match="is a directory, not a regular file; this is not a conf"):
        read_document(tmp_path)
    os.mkfifo(tmp_path / "pipe.yaml")
    with pytest.raises(ConfigError, match=r"pipe\.yaml: is a named pipe, not a regular file"):
        read_document(tmp_path / "pipe.yaml")
    (tmp_path / "walker").mkdir()
    (tmp_path / "walker/configuration.yaml").write_text("")
    with pytest.raises(ConfigError, match="is a run; resume it with --resume --run-id walker"):
        read_document(tmp_path / "walker")
    (tmp_path / "cartpole.yaml").write_text("")
    with pytest.raises(ConfigError, match=r"CartPole: no such file; did you mean '.*cartpole\.yaml'\?"):
        read_document(tmp_path / "CartPole")
    (tmp_path / "latin.yaml").write_bytes(b"a: 1\nb: \xe9\n")
    with pytest.raises(ConfigError, match=r"latin\.yaml:2: not UTF-8"):
        read_document(tmp_path / "latin.yaml")
    (tmp_path / "big.yaml").write_bytes(b"#" * (MAX_BYTES + 1))
    with pytest.raises(ConfigError, match=r"big\.yaml: is larger than 1,000,000 bytes; this is not"):
        read_document(tmp_path / "big.yaml")


def test_a_byte_order_mark_is_not_part_of_the_first_key(tmp_path: Path) -> None:
    (tmp_path / "bom.yaml").write_bytes(b"\xef\xbb\xbfa: 1\n")
    assert read_document(tmp_path / "bom.yaml").data == {"a": 1}


def test_python_data_must_be_plain() -> None:
    assert document_from_mapping({"a": (1, 2)}).data == {"a": [1, 2]}
    with pytest.raises(ConfigError, match=r"a\.b: must be plain data"):
        document_from_mapping({"a": {"b": object()}})
    environment = SimpleNamespace(reset=None, step=None)
    with pytest.raises(ConfigError, match=r"^environment: must be plain data.*; name the environment, so that every"):
        document_from_mapping({"environment": environment})
    with pytest.raises(ConfigError, match=r"^a run is made from a configuration: .*; name the environment, so that"):
        Run(environment)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="a: keys must be text, not 1"):
        document_from_mapping({"a": {1: 2}})
