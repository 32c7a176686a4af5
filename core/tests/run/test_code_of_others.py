"""Code that the configuration of a run names is not imported if another user wrote the run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rlcore.config.reading import read_document
from rlcore.errors import ConfigError
from rlcore.run.saved import provenance
from rlcore.run.saved.saved_run import SavedRun
from rlcore_devkit.fixtures import RunRlcore

NAMED = {
    "id": ("environment: {id: 'acme:World-v0'}", ["acme:World-v0"]),
    "id of the evaluation": ("evaluation: {environment: {id: 'acme.zoo:make'}}", ["acme.zoo:make"]),
    "wrapper": ("environment: {id: x, options: {wrappers: ['acme.w:wrap', {wrapper: 'b:c'}]}}", ["acme.w:wrap", "b:c"]),
    "each once": ("environment: {id: 'a:b', options: {wrappers: ['a:b']}}", ["a:b"]),
    "nothing": ("environment: {id: CartPole-v1, options: {title: 'Note: all is well', ratio: '3:4'}}", []),
}


@pytest.mark.parametrize("case", NAMED)
def test_ids_and_wrappers_of_environments_are_named(tmp_path: Path, case: str) -> None:
    text, names = NAMED[case]
    file = tmp_path / "configuration.yaml"
    file.write_text(text)
    assert provenance.environment_modules(read_document(file)) == names


def test_a_run_of_another_user_is_opened_only_if_that_is_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "configuration.yaml").write_text("environment: {type: x, options: {wrappers: ['acme.w:wrap']}}")
    # Another user may write a file in a directory of this user.
    monkeypatch.setattr(provenance, "written_by_this_user", lambda *paths: all(map(Path.is_dir, paths)))
    with pytest.raises(ConfigError, match=r"was written by another user.*'acme\.w:wrap'; --allow-local allows it"):
        SavedRun.open(tmp_path)
    with pytest.raises(ConfigError, match="behaviors: missing"):
        SavedRun.open(tmp_path, allow_local=True)


def test_commands_ask_before_they_run_code_of_another_user(
    make_run: Any, files: Any, bare_run_rlcore: RunRlcore, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_run({"environment.id": "acme:World"}).train()
    monkeypatch.setattr(provenance, "written_by_this_user", lambda *paths: False)
    path = files().path
    for words in (("evaluate", path), ("run", "--resume", "--run-id", "run", "--results-dir", path.parent)):
        refused = bare_run_rlcore(*words)
        assert refused.exit_code == 2 and "was written by another user, and its configuration has" in refused.stderr
