"""Execute a page: its titled blocks become files, and its rlcore commands run in order."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from pages import BLOCKS, RunPage, commands_of

from rlcore.cli.main import main

SHORTER = yaml.safe_load((Path(__file__).parent / "data/shorter_trainings.yaml").read_text("utf-8"))


@pytest.fixture
def run_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunPage:
    monkeypatch.chdir(tmp_path)

    def run(page: str) -> Path:
        for block in BLOCKS:
            if block.page == page and block.title:
                (tmp_path / block.title).write_text(block.text)
        for block in BLOCKS:
            if block.page != page or block.language != "sh":
                continue
            for words in commands_of(block):
                extra = [f"--set={each}" for each in SHORTER.get(page, ()) if words[0] == "run"]
                assert main([*words, *extra]) == 0, f"{block}: rlcore {' '.join(words)}"
        return tmp_path

    return run
