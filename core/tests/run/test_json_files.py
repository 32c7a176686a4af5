"""Files that are read within bounds, and text that cannot steer a terminal."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rlcore.cli.terminal import printable
from rlcore.files.paths import is_file_name
from rlcore.files.reading import DamagedFile, read_object
from rlcore.plugins.core import keep_until


def test_what_is_no_object_of_json_is_damaged_and_named(tmp_path: Path) -> None:
    for content, said in (
        (b"{", "is not JSON"),
        (b"[" * 100_000, "nested deeper than 100 levels"),
        (b"[" * 101 + b"]" * 101, "nested deeper than 100 levels"),
        (b'"\xff"', "is not JSON: 'utf-8' codec"),
        (b"[" + b"1," * 1_000_000 + b"1]", "more than 1,000,000 values"),
        (b" " * 32_000_001, "larger than 32,000,000 bytes"),
        (b"[]", "is not a JSON object"),
    ):
        (tmp_path / "file.json").write_bytes(content)
        with pytest.raises(DamagedFile, match=f"file.json: .*{said}"):
            read_object(tmp_path / "file.json")


def test_what_is_no_regular_file_or_too_large_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "file.json")
    for path, said in (
        (tmp_path / "file.json", "is not a regular file"),
        (tmp_path, "cannot be read: Is a directory"),
        (Path("/dev/zero"), "is not a regular file"),
        (tmp_path / ("n" * 5_000), "cannot be read"),
    ):
        with pytest.raises(DamagedFile, match=said):
            read_object(path)
    with pytest.raises(FileNotFoundError):
        read_object(tmp_path / "missing.json")
    with (tmp_path / "metrics.jsonl").open("wb") as file:
        file.truncate(20 * 2**30)
    with pytest.raises(DamagedFile, match=r"metrics.jsonl: is larger than 1,000,000,000 bytes"):
        keep_until(tmp_path / "metrics.jsonl", {}, print)


def test_a_path_out_of_the_directory_is_no_file_name() -> None:
    for name in ("", ".", "..", "a/b", "/a", "a\\b", "a\0", "n" * 256, 5, None):
        assert not is_file_name(name), name
    assert is_file_name("state.json")


def test_what_could_steer_a_terminal_is_written_out() -> None:
    assert printable("\x1b[31m\x07a\u202e\x9b\ud800 \u00e9\n\t") == "\\x1b[31m\\x07a\\u202e\\x9b\\ud800 \u00e9\n\t"
