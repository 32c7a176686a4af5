"""Execute a page: its titled blocks become files, and its rlcore commands run in order."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from pages import BLOCKS, RunPage, commands_of

from rlcore.cli.main import main

# A tutorial trains until the agent has learned; this test only checks that every command works.
SHORTER: Mapping[str, tuple[str, ...]] = {
    "docs/tutorial/first-training.md": (
        "--set=behaviors.Pole.max_steps=2000",
        "--set=behaviors.Pole.checkpoint_interval=1000",
    ),
    "docs/tutorial/tour.md": (
        "--set=behaviors.Pole.max_steps=2048",
        "--set=behaviors.Pole.checkpoint_interval=1024",
        "--set=behaviors.Pole.summary_freq=1024",
    ),
    "docs/how-to/rewards-that-learn.md": (
        "--set=behaviors.Diver.max_steps=2048",
        "--set=behaviors.Diver.checkpoint_interval=2048",
    ),
    "docs/how-to/explore-and-imitate.md": (
        "--set=behaviors.Pole.max_steps=2048",
        "--set=behaviors.Pole.summary_freq=1024",
    ),
    "docs/how-to/stable-baselines3.md": ("--set=behaviors.CartPole.max_steps=4096", "--set=evaluation.interval=4096"),
    "docs/how-to/tianshou.md": ("--set=behaviors.CartPole.max_steps=4000", "--set=evaluation.interval=4000"),
    "docs/how-to/offline.md": ("--set=behaviors.Pole.max_steps=1100", "--set=behaviors.Pole.summary_freq=550"),
}


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
                extra = SHORTER.get(page, ()) if words[0] == "run" else ()
                assert main([*words, *extra]) == 0, f"{block}: rlcore {' '.join(words)}"
        return tmp_path

    return run
