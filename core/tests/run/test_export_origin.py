"""The origin that an exported file states: the checksum of the configuration that the policy was trained with."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from rlcore.errors import EXIT_RUN_STATE
from rlcore_devkit.fixtures import RunRlcore

STUBS = [str(Path(__file__).parent / name) for name in ("stub_plugin.py", "stub_exporter.py")]
EXPORTING = {"export": {"weights": {"checkpoints": True}}, "plugins.local": STUBS}


def checksum(path: Path) -> str:
    """``configuration_sha256`` of an exported file."""
    return str(json.loads(path.read_text())["about"]["configuration_sha256"])


def checksum_of_configuration(directory: Path) -> str:
    """SHA-256 of all lines of ``configuration.yaml`` but the first, which has the same digits."""
    first, _, rest = (directory / "configuration.yaml").read_bytes().partition(b"\n")
    digits = hashlib.sha256(rest).hexdigest()
    assert first.decode().endswith(f": {digits}")
    return digits


def test_every_export_of_a_run_and_of_the_command_has_the_checksum_of_the_configuration(
    make_run: Any, files: Any, run_rlcore: RunRlcore, tmp_path: Path
) -> None:
    make_run(EXPORTING).train()
    directory = files().path
    expected = checksum_of_configuration(directory)
    exports = [directory / "Agent.json", *directory.glob("Agent/*.json")]
    assert len(exports) == 6 and {checksum(path) for path in exports} == {expected}
    for number, place in enumerate((directory, directory / "checkpoints/120")):
        output = tmp_path / f"{number}.json"
        ended = run_rlcore("export", place, "-o", output, "--set", "torch_settings.num_threads=1")
        assert ended.exit_code == 0, ended.stderr
        assert checksum(output) == expected, "--set of the command did not change what the policy was trained with"


def test_an_edited_configuration_of_the_run_does_not_change_the_checksum_of_a_checkpoint(
    make_run: Any, files: Any, run_rlcore: RunRlcore, tmp_path: Path
) -> None:
    make_run(EXPORTING).train()
    before = checksum_of_configuration(files().path)
    configuration = files().path / "configuration.yaml"
    configuration.write_text(configuration.read_text().replace("max_steps: 200", "max_steps: 300"))
    run_rlcore("export", files().path, "-o", tmp_path / "agent.json")
    assert checksum(tmp_path / "agent.json") == before


@pytest.mark.parametrize("damage", ["missing", "folder"])
def test_a_checkpoint_without_a_configuration_is_an_error(
    make_run: Any, files: Any, run_rlcore: RunRlcore, tmp_path: Path, damage: str
) -> None:
    make_run(EXPORTING).train()
    copy = files().path / "checkpoints/200/configuration.yaml"
    manifest = copy.with_name("manifest.json")
    entries = json.loads(manifest.read_text())
    del entries["files"][copy.name]
    manifest.write_text(json.dumps(entries))
    copy.unlink()
    if damage == "folder":
        copy.mkdir()
    ended = run_rlcore("export", files().path, "-o", tmp_path / "agent.json")
    assert ended.exit_code == EXIT_RUN_STATE and f"{copy}: " in ended.stderr
    assert not (tmp_path / "agent.json").exists()
