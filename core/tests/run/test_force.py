"""``--force`` replaces a run only when the new one can start."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rlcore import hookimpl
from rlcore.errors import PluginError
from rlcore.run_directory import RunDirectory
from rlcore.testing.fixtures import RunRlcore

FORCE = {"checkpoint_settings": {"force": True}}
RESUME = {"checkpoint_settings": {"resume": True}}


class NoNetwork:
    """A plugin that cannot do its part of a start."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    @hookimpl
    def rlcore_create_stats_writer(self, spec: Any) -> None:
        raise self.error


class Refuses(NoNetwork):
    rlcore_create_stats_writer = None  # type: ignore[assignment]

    @hookimpl
    def rlcore_run_started(self, run: Any) -> None:
        (run.directory / "notes.txt").write_text("of the new run")
        raise self.error


def test_a_forced_start_that_fails_costs_no_old_run(make_run: Any, files: Any) -> None:
    make_run().train()
    before = files().everything()
    with pytest.raises(Exception, match="port"):
        make_run({**FORCE, "environment.options": {"fault": "raise in reset"}}).train()
    assert files().everything() == before


@pytest.mark.parametrize(
    ("plugin", "error"),
    [
        (NoNetwork(OSError("no network")), PluginError),
        (Refuses(OSError("no network")), PluginError),
        (Refuses(KeyboardInterrupt()), KeyboardInterrupt),
    ],
)
def test_a_forced_start_that_fails_after_it_wrote_costs_no_old_run(
    make_run: Any, files: Any, plugin: Any, error: type[BaseException]
) -> None:
    make_run().train()
    before = files().everything()
    run = make_run({**FORCE, "env_settings.seed": 6})
    run.plugins._dispatch._strict = True
    run.plugins.register(plugin, "cloud")
    with pytest.raises(error):
        run.train()
    assert files().everything() == before
    make_run(RESUME).train()  # the lock is free


def test_a_first_start_that_fails_after_it_wrote_leaves_the_name_free(make_run: Any, files: Any) -> None:
    run = make_run()
    run.plugins.register(NoNetwork(OSError("no network")), "cloud")
    with pytest.raises(PluginError, match="no network"):
        run.train()
    assert not files().path.exists()
    make_run().train()


class Killed(BaseException):
    """Stands for SIGKILL: nothing is tidied up after it."""


@pytest.mark.parametrize("renames", range(6))  # five entries, and what gives them up
def test_a_forced_start_killed_at_any_rename_costs_no_old_run(
    make_run: Any, files: Any, monkeypatch: pytest.MonkeyPatch, renames: int
) -> None:
    make_run().train()
    before = files().everything()
    kill_after(monkeypatch, renames)
    with pytest.raises(Killed):
        make_run({**FORCE, "env_settings.seed": 6}, max_steps=20).train()
    monkeypatch.undo()
    make_run(RESUME).train()  # it had ended: nothing is left to do
    for name in set(before) - {"run_logs/timers.json", "result.json"}:
        assert files().everything()[name] == before[name]
    assert not list(files().path.glob(".old*")) and not list(files().path.glob(".tmp*"))


def test_a_run_that_a_killed_start_moved_aside_is_resumed_by_its_name(
    make_run: Any, files: Any, monkeypatch: pytest.MonkeyPatch, run_rlcore: RunRlcore
) -> None:
    make_run(keep_checkpoints=0).train()
    kill_after(monkeypatch, 5)
    with pytest.raises(Killed):
        make_run(FORCE).train()
    monkeypatch.undo()
    result = run_rlcore("run", "--resume", "--run-id", "run", "--results-dir", files().path.parent)
    assert result.exit_code == 0, result.stderr
    assert files().steps == [40, 80, 120, 160, 200]


@pytest.mark.parametrize("renames", range(5))
def test_bringing_back_a_run_may_itself_be_killed(
    make_run: Any, files: Any, monkeypatch: pytest.MonkeyPatch, renames: int
) -> None:
    make_run().train()
    before = files().everything()
    kill_after(monkeypatch, 5)
    with pytest.raises(Killed):
        make_run(FORCE).train()
    monkeypatch.undo()
    kill_after(monkeypatch, renames)
    with pytest.raises(Killed):
        make_run(RESUME).train()
    monkeypatch.undo()
    make_run(RESUME).train()
    for name in set(before) - {"run_logs/timers.json", "result.json"}:
        assert files().everything()[name] == before[name]


@pytest.mark.parametrize("changes", [{}, FORCE])
def test_a_kill_during_the_first_write_of_the_configuration_leaves_the_name_free(
    make_run: Any, files: Any, monkeypatch: pytest.MonkeyPatch, changes: Any
) -> None:
    def killed(self: Path, target: Any) -> Path:
        raise Killed

    monkeypatch.setattr(Path, "replace", killed)
    monkeypatch.setattr(Path, "unlink", lambda self, missing_ok=False: None)
    monkeypatch.setattr(RunDirectory, "close", lambda self: self._lock.release())
    with pytest.raises(Killed):
        make_run(changes).train()
    monkeypatch.undo()
    assert not (files().path / "configuration.yaml").exists() and list(files().path.glob(".*.tmp-*"))
    make_run(changes).train()
    assert files().result["outcome"] == "done" and not list(files().path.glob(".*.tmp-*"))


def kill_after(monkeypatch: pytest.MonkeyPatch, renames: int) -> None:
    """Renaming raises from that call on, and closing does nothing, as if the process were gone."""
    rename, calls = Path.rename, 0

    def count(self: Path, target: Any) -> Path:
        nonlocal calls
        calls += 1
        if calls > renames:
            raise Killed
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", count)
    monkeypatch.setattr(RunDirectory, "close", lambda self: self._lock.release())
