"""The page about hooks for other plugins: its plugins take part in a run, in the order that it states."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pages import BLOCKS, RunPage
from workspace import ROOT

from rlcore.cli.main import main

pytestmark = pytest.mark.documentation

PAGE = "docs/how-to/hooks-for-others.md"


def test_plugins_of_a_plugin_are_called_in_the_order_of_the_page(run_page: RunPage) -> None:
    lines = (run_page(PAGE) / "results/peaks/peaks.txt").read_text().splitlines()
    names = [line.split()[0] for line in lines]
    assert names and names == ["early", "flag", "late"] * (len(names) // 3)
    rewards = [float(line.split()[1]) for line in lines if line.startswith("flag ")]
    assert rewards == sorted(rewards)


def test_without_marks_the_last_local_plugin_is_called_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for block in BLOCKS:
        if block.page == PAGE and block.title:
            (tmp_path / block.title).write_text(re.sub(r"\(try\w+=True\)", "", block.text))
    assert main(["run", "peaks.yaml"]) == 0
    names = [line.split()[0] for line in (tmp_path / "results/peaks/peaks.txt").read_text().splitlines()]
    assert names[:3] == ["late", "flag", "early"]


def test_the_registry_that_the_page_shows_is_the_zoos() -> None:
    page = (ROOT / PAGE).read_text(encoding="utf-8")
    (shown,) = (block.partition("```")[0] for block in page.split("```py\n")[1:])
    assert shown.strip() in (ROOT / "plugins/zoo/src/rlcore_zoo/hookspecs.py").read_text(encoding="utf-8")
