"""Output files of commands replace no file of a run, and no other file without ``--force``."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from rlcore.errors import ConfigError
from rlcore.files.writing import write_atomically
from rlcore.storage.output import require_output

OWN = [
    "result.json", "RESULT.json", "rlcore_run.json", "configuration.yaml", ".lock", "x/../metrics.jsonl",
    "run_logs/training_status.json", "metrics.jsonl", "checkpoints/40/state.json", "checkpoints/40/new.html",
    "checkpoints/new.html", "Checkpoints/40/state.json", "checkpoints/best/100/manifest.json", "declared/any/x.html",
    ".rlcore-tmp-0123456789abcdef",
]  # fmt: skip


@pytest.fixture
def run(make_run: Any, files: Any) -> Path:
    make_run({"evaluation": {"interval": 100, "episodes": 1}}, keep_checkpoints=0).train()
    path: Path = files().path
    mark = path / "rlcore_run.json"
    mark.write_text(mark.read_text().replace('"files": [', '"files": ["declared/an*",'))
    (path / "x").mkdir()
    return path


@pytest.mark.parametrize("force", [False, True])
def test_no_file_of_a_run_is_an_output_on_whatever_way(run: Path, tmp_path: Path, force: bool) -> None:
    (tmp_path / "linked").symlink_to(run)
    (tmp_path / "step").symlink_to(run / "checkpoints/40")
    ways = [run / name for name in OWN] + [tmp_path / "linked" / name for name in OWN]
    ways += [tmp_path / "step/state.json", tmp_path / "step/../40/new", Path(os.path.relpath(run / "result.json"))]
    for path in ways:
        with pytest.raises(ConfigError, match=rf"^{re.escape(str(path))}: (lies|is a file of the run).*another place$"):
            require_output(path, force)
    (run / "rlcore_run.json").unlink()  # as in a copy
    with pytest.raises(ConfigError, match="is a file of the run"):
        require_output(run / "result.json", force)
    (run / "rlcore_run.json").write_text("{")
    with pytest.raises(ConfigError, match=r"whose rlcore_run\.json cannot be read"):
        require_output(run / "metrics.jsonl", force)
    shutil.copytree(run / "checkpoints/40", tmp_path / "alone/40")
    with pytest.raises(ConfigError, match=r"lies in the checkpoint \S+/alone/40"):
        require_output(tmp_path / "alone/40/report.html", force)


def test_files_beside_those_of_a_run_are_outputs(run: Path) -> None:
    for name in ("report.html", "Agent/Agent.onnx", "run_logs/page.html", "checkpoints.html", "result.json.html"):
        (run / name).parent.mkdir(exist_ok=True)
        require_output(run / name, False)


def test_a_file_of_someone_else_is_replaced_only_by_force_and_a_link_never(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    link = tmp_path / "link"
    away = tmp_path / "away"
    mine.write_text("mine")
    link.symlink_to("mine")
    away.symlink_to("nowhere")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ConfigError, match=r"mine: exists; replace it with --force, or name another file$"):
        require_output(mine, False)
    require_output(mine, True)
    refused = {link: f"is a symbolic link; name the file that it leads to, {mine}", away: "is a symbolic link"}
    refused |= {tmp_path / "pipe": "is not a regular file", tmp_path: "is a directory"}
    for path, problem in refused.items():
        for force in (False, True):
            with pytest.raises(ConfigError, match=re.escape(f"{path}: {problem}")):
                require_output(path, force)


def test_a_file_is_written_beside_its_place_under_a_name_that_no_link_can_wait_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = tmp_path / "mine"
    shared = tmp_path / "shared"
    page = tmp_path / "page"
    mine.write_text("mine")
    shared.hardlink_to(mine)
    write_atomically(page, b"one")
    write_atomically(shared, b"two")
    assert [path.read_bytes() for path in (page, shared, mine)] == [b"one", b"two", b"mine"]
    # If a name is guessed all the same, the write fails instead of following the link.
    monkeypatch.setattr("secrets.token_hex", lambda count: "0" * 2 * count)
    (tmp_path / ".rlcore-tmp-0000000000000000").symlink_to(mine)
    with pytest.raises(FileExistsError):
        write_atomically(page, b"three")
    assert mine.read_bytes() == b"mine" and (tmp_path / ".rlcore-tmp-0000000000000000").is_symlink()
