"""``rlcore export`` and ``rlcore.export_policies``: policies of a checkpoint as files, without an environment."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

import rlcore.run.state
from rlcore import export_policies
from rlcore.config.plugins_block import load_plugins_for
from rlcore.config.reading import document_from_mapping
from rlcore.errors import ConfigError, ExitCode, RunStateError, UnsupportedExport
from rlcore_devkit.fixtures import CommandResult, RunRlcore

STUBS = [str(Path(__file__).parent / name) for name in ("stub_plugin.py", "stub_exporter.py")]


@pytest.fixture
def directory(make_run: Any, files: Any, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of a finished run without an ``export`` block; no environment can be made any more."""
    make_run({"plugins.local": STUBS}).train()
    monkeypatch.setattr("rlcore.run.components.make_environment", None)
    path: Path = files().path
    return path


@pytest.fixture
def export(run_rlcore: RunRlcore, tmp_path: Path) -> Any:
    """``export(...)``: the command, run in the directory ``tmp_path / "working"``."""

    def run(*arguments: str | Path, expect: int = 0) -> CommandResult:
        ended = run_rlcore("export", *arguments)
        assert ended.exit_code == expect, ended.stderr
        assert not list((tmp_path / "working").glob(".rlcore-tmp-*"))
        return ended

    return run


def about(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text())["about"]  # type: ignore[no-any-return]


def test_the_policies_of_the_last_checkpoint_are_written_to_the_working_directory(
    export: Any, directory: Path, tmp_path: Path
) -> None:
    before = {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}
    done = export(directory, "--format", "weights")
    assert done.stdout == "Agent: exported to Agent.json (checkpoint 200)\n" and not done.stderr
    written = tmp_path / "working/Agent.json"
    checksum = (directory / "configuration.yaml").read_text().partition("\n")[0].rpartition(" ")[2]
    assert about(written) == {
        "run_id": "run", "step": 200, "behavior_steps": 200, "trainer_type": "numpy",
        "rlcore_version": rlcore.__version__, "configuration_sha256": checksum,
    }  # fmt: skip
    assert {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()} == before
    for checkpoint, step in (("last", 200), ("160", 160)):
        export(directory, "--format", "weights", "--force", "--checkpoint", checkpoint)
        assert about(written)["step"] == step
    content = written.read_text()
    wrong = ("--set", "export.weights.wrong=disk")
    export(directory, "--format", "weights", "--force", *wrong, expect=ExitCode.PLUGIN)
    assert written.read_text() == content, "a failed export keeps the file that it was to replace"


def test_a_checkpoint_is_enough(export: Any, directory: Path, tmp_path: Path) -> None:
    copied = shutil.copytree(directory / "checkpoints/120", tmp_path / "elsewhere/120")
    shutil.rmtree(directory)
    chosen = ("--format", "weights", "-o", tmp_path / "mine.json", "--set", "export.weights.report=all is well")
    shown = json.loads(export(copied, *chosen, "--json").stdout)
    assert shown == {
        "exporter": "stub_exporter/weights", "step": 120, "files": {"Agent": str(tmp_path / "mine.json")},
        "reports": {"Agent": "all is well"},
    }  # fmt: skip
    said = export(copied, *chosen, "--force").stdout
    assert said == f"Agent: exported to {tmp_path / 'mine.json'} (checkpoint 120): all is well\n"
    assert about(tmp_path / "mine.json")["step"] == 120
    refused = export(copied, "--format", "weights", "--checkpoint", "best", expect=ExitCode.CONFIG)
    assert "is a single checkpoint, so 'best' cannot be chosen; name the directory of the run" in refused.stderr


def test_several_behaviors_are_exported_into_a_directory(
    export: Any, make_run: Any, files: Any, tmp_path: Path
) -> None:
    make_run({"plugins.local": STUBS, "environment.type": "pair"}, behaviors=("Left", "Right")).train()
    place = tmp_path / "out"
    run = files().path
    weights = ("--format", "weights")
    refused = export(run, *weights, "-o", tmp_path / "both.json", expect=ExitCode.CONFIG)
    assert "both.json: is not a directory; name one for the files of Left, Right, or name one of them" in refused.stderr
    for _ in range(2):  # a new directory, and an existing one
        export(run, *weights, "-o", place, "--force")
        assert {path.name for path in place.iterdir()} == {"Left.json", "Right.json"}
    refused = export(run, *weights, "-o", run / "checkpoints/out", expect=ExitCode.CONFIG)
    assert "lies among the checkpoints" in refused.stderr and not (run / "checkpoints/out").exists()
    export(run, *weights, "--behavior", "Right", "-o", tmp_path / "right.json")
    assert (tmp_path / "right.json").read_text() == (place / "Right.json").read_text()
    refused = export(run, *weights, "--behavior", "Lfet", expect=ExitCode.CONFIG)
    assert "checkpoint 400 has no behavior 'Lfet'; it has Left, Right; did you mean 'Left'?" in refused.stderr


@pytest.mark.parametrize("kind", ["file", "link", "folder"])
def test_what_is_there_is_not_replaced(export: Any, directory: Path, tmp_path: Path, kind: str) -> None:
    path = tmp_path / "working/Agent.json"
    other = tmp_path / "other"
    other.write_text("mine")
    if kind == "file":
        path.write_text("mine")
    elif kind == "link":
        path.symlink_to(other)
    else:
        path.mkdir()
        (path / "file").write_text("mine")
    refused = export(directory, "--format", "weights", expect=ExitCode.CONFIG)
    assert "Agent.json: " in refused.stderr and other.read_text() == "mine"
    state = directory / "checkpoints/200/state.json"
    before = state.read_bytes()
    refused = export(directory, "--format", "weights", "-o", state, "--force", expect=ExitCode.CONFIG)
    assert "lies in the checkpoint" in refused.stderr and state.read_bytes() == before
    ended = export(directory, "--format", "weights", "--force", expect=0 if kind == "file" else ExitCode.CONFIG)
    assert other.read_text() == "mine" and (kind != "folder" or (path / "file").read_text() == "mine")
    assert ("exported" in ended.stdout) == (kind == "file")


REFUSALS = yaml.safe_load((Path(__file__).parent / "data/refusals.yaml").read_text())["exports"]


def test_what_cannot_be_exported_leaves_no_file(export: Any, directory: Path, tmp_path: Path) -> None:
    for arguments, code, message in REFUSALS:
        refused = export(directory, *arguments.split(), expect=code)
        assert message in refused.stderr and not list((tmp_path / "working").iterdir()), arguments


@pytest.mark.parametrize("how", [("--profile", "dense"), ("--set", "export.weights.profile=dense")])
def test_a_profile_is_a_setting_of_the_exporter(
    export: Any, make_run: Any, files: Any, tmp_path: Path, how: tuple[str, ...]
) -> None:
    make_run({"plugins.local": STUBS, "export": {"stub_exporter/weights": {"profile": "sparse"}}}).train()
    export(files().path)  # with the exporter of the run's block
    assert (tmp_path / "working/Agent.json").read_text() == (files().path / "Agent.json").read_text()
    how = tuple(text.replace("weights", '"stub_exporter/weights"') for text in how)
    for arguments, profile in (((), "sparse"), (how, "dense"), (("--format", "weights", *how), "dense")):
        export(files().path, *arguments, "--force")
        assert json.loads((tmp_path / "working/Agent.json").read_text())["profile"] == profile


# ------------------------------------------------------------ from Python


def test_a_program_exports_with_one_call(directory: Path, tmp_path: Path) -> None:
    plugins = load_plugins_for(document_from_mapping({"plugins": {"autoload": False, "local": STUBS}}))
    place = tmp_path / "agent.json"
    found = export_policies(directory, "weights", place, checkpoint="80", plugins=plugins)
    assert found == {"Agent": place} and about(place)["step"] == 80
    with pytest.raises(ConfigError, match="exists; replace it with --force"):
        export_policies(directory, "weights", place, plugins=plugins)
    assert export_policies(directory, "weights", place, force=True, plugins=plugins) == found
    assert about(place)["step"] == 200
    with pytest.raises(UnsupportedExport):
        export_policies(directory, "weights", settings={"wrong": "refuses"}, plugins=plugins)
    with pytest.raises(RunStateError):
        export_policies(tmp_path / "nowhere", "weights", plugins=plugins)
