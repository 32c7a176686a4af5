"""Paths that users write, and how messages show them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rlcore.cli.terminal import ShortPaths
from rlcore.errors import ConfigError
from rlcore.files.paths import user_path, working_directory


def test_only_a_leading_tilde_means_a_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    assert user_path("~/a") == user_path(Path("~/a")) == Path("/home/me/a")
    assert user_path("a/~/b") == Path("a/~/b")
    with pytest.raises(ConfigError, match=r"^'~no-such-user/a': ~no-such-user has no home directory"):
        user_path("~no-such-user/a")


def test_a_name_that_no_file_can_have_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"^'a\\x00b': no path has a NUL character"):
        user_path("a\0b")
    ascii_only = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    program = "from rlcore.files.paths import user_path; user_path('r\\xe9')"
    ended = subprocess.run([sys.executable, "-c", program], env=ascii_only, capture_output=True, check=False)
    assert rb"ConfigError: 'r\xe9': file names are in ascii here; set PYTHONUTF8=1" in ended.stderr


def test_a_working_directory_that_was_deleted_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    gone = tmp_path / "gone"
    gone.mkdir()
    os.chdir(gone)
    gone.rmdir()
    assert working_directory() == Path()
    assert ShortPaths()("/somewhere/else") == "/somewhere/else"


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("{here}/results/run: this run exists", "results/run: this run exists"),
        ("'{here}/a b/c' and ({here}/d), x={here}/e", "'a b/c' and (d), x=e"),
        ("{here}: is empty; {here}/ too", "{here}: is empty; {here}/ too"),
        ("/other{here}/results and {here}er/results", "/other{here}/results and {here}er/results"),
        ("file://{here}/results", "file://{here}/results"),
    ],
)
def test_what_lies_in_the_directory_of_the_command_is_shown_from_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, message: str, shown: str
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    shorten = ShortPaths()
    monkeypatch.chdir(tmp_path)
    assert shorten(message.format(here=here)) == shown.format(here=here)
