"""The fingerprint of a checkpoint, and the promise that a resume with another one can keep."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from rlcore.storage import fingerprint as fingerprint_module
from rlcore.storage.checkpoint import load_checkpoint
from rlcore.storage.fingerprint import library_versions

RESUME = {"checkpoint_settings.resume": True}


def test_one_line_says_what_differs_from_the_checkpoint_and_what_that_does_to_the_promise(
    make_run: Any, files: Any, abandon: Any, caplog: Any, monkeypatch: Any
) -> None:
    """``stub_plugin.py`` names two libraries whose versions matter; one that is not installed is left out."""
    run = make_run()
    next(run)
    abandon(run)
    before = load_checkpoint(files().path / "checkpoints" / str(files().steps[-1]))["run"]["fingerprint"]
    assert before["environment"] == {"attrs": version("attrs")}
    assert before["processes"] == {"ranks": "1", "workers": "0"}
    others = {"numpy": "9.9", "rlcore": "0.9", "torch": "3.0"}
    own = library_versions()
    found = fingerprint_module.installed
    monkeypatch.setattr(fingerprint_module, "library_versions", lambda: others)
    monkeypatch.setattr(
        fingerprint_module, "installed", lambda names: {"attrs": "0.1"} if "attrs" in names else found(names)
    )
    resumed = make_run({**RESUME, "torch_settings.num_threads": 2})
    promise = str(resumed.describe().resume)
    resumed.train()
    (told,) = [text for text in caplog.messages if " resumes with " in text]
    told, end = told.removeprefix(f"{files().path}: resumes with ").split("; ")
    assert end == "this resume is statistical instead of exact"
    assert sorted(told.split(", ")) == sorted([
        *(f"{name} {value} instead of {own.get(name, 'not loaded')}" for name, value in others.items()),
        "threads 2 instead of 1", f"attrs 0.1 instead of {version('attrs')}",
    ])  # fmt: skip
    assert promise == f"statistical, because this process has {told}"
    assert files().result["resume"]["promise"] == "statistical"
    # Its own checkpoints carry the promise of the configuration again.
    saved = load_checkpoint(files().path / "checkpoints" / str(files().steps[-1]))["run"]
    assert saved["resume"] == {"promise": "exact", "reasons": [], "notes": []}
    assert saved["fingerprint"]["libraries"] == others and saved["fingerprint"]["computing"]["threads"] == "2"


def test_the_number_of_ranks_is_no_difference() -> None:
    sections: dict[str, dict[str, str]] = {name: {} for name in ("libraries", "environment", "plugins", "computing")}
    alike = {**sections, "configuration": {"sha256": "1"}}
    now = {**alike, "processes": {"ranks": "2", "workers": "0"}}
    saved = {**alike, "processes": {"ranks": "1", "workers": "4"}}
    assert fingerprint_module.differences(saved, now) == ["workers 0 instead of 4"]


SECTIONS = """
import attrs
from rlcore import ConfigSection, hookimpl

@hookimpl
def rlcore_config_sections():
    records = [("shaping", {}), ("upload", {"affects_learning": False})]
    return [ConfigSection(name=name, target="two_sections:Block", **more) for name, more in records]

@attrs.frozen
class Block:
    url: str = "a"
"""


@pytest.mark.parametrize(
    ("change", "promise"),
    [
        ({"upload": {"url": "b"}}, "exact"),
        ({"torch_settings.num_threads": 1}, "exact"),  # null computes what one thread does
        ({"torch_settings.bf16": False}, "exact"),
        ({"torch_settings.bf16": True}, "another configuration (torch_settings.bf16 is true instead of nothing)"),
        (
            {"shaping": {"url": "b"}},
            "plugin 'two_sections' without a version instead of not loaded, another configuration (shaping.url is 'b' "
            "instead of nothing)",
        ),
        (
            {"behaviors.Agent.max_steps": 300, "evaluation.interval": 300, "torch_settings.num_threads": 2},
            "threads 2 instead of 1, another configuration (behaviors.Agent.max_steps is 300 instead of 200)",
        ),
    ],
)
def test_a_resume_names_the_changed_keys_that_a_training_depends_on(
    make_run: Any, abandon: Any, tmp_path: Path, change: dict[str, Any], promise: str
) -> None:
    (tmp_path / "two_sections.py").write_text(SECTIONS)
    local = {"plugins.local": [str(Path(__file__).parent / "stub_plugin.py"), str(tmp_path / "two_sections.py")]}
    run = make_run(local)
    next(run)
    abandon(run)
    resumed = make_run(local | RESUME | change)
    said = str(resumed.describe().resume)
    assert said == (promise if promise == "exact" else f"statistical, because this process has {promise}")
    resumed.close()
