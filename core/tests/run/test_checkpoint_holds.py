"""Deleted checkpoints are reported to plugins, which can keep a checkpoint while they need it."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import pytest

from rlcore import RunContext, hookimpl
from rlcore.errors import RunStateError
from rlcore.plugins.holds import CheckpointHold, CheckpointHolds
from rlcore.run.run import Run


class Mirror:
    """Records saved and removed checkpoints; holds those of ``hold``, and releases each when ``release`` is saved."""

    def __init__(self, *hold: int, release: int | None = None) -> None:
        self.events: list[tuple[str, int]] = []
        self.hold, self.release_at, self.held = hold, release, list[CheckpointHold]()

    @hookimpl
    def rlcore_checkpoint_saved(self, run: RunContext, step: int, path: Path) -> None:
        self.events.append(("saved", step))
        assert path == run.directory / "checkpoints" / str(step)
        if step in self.hold:
            self.held.append(run.hold_checkpoint(step))
        if step == self.release_at:
            for hold in self.held:
                hold.release()

    @hookimpl
    def rlcore_checkpoint_removed(self, run: RunContext, step: int, path: Path) -> None:
        assert path == run.directory / "checkpoints" / str(step) and not path.exists()
        self.events.append(("removed", step))


def test_other_processes_can_read_which_checkpoints_a_run_holds(make_run: Any, files: Any) -> None:
    run = make_run()
    seen = []
    run.plugins.register(Mirror(40, release=160), "mirror")
    for _ in run:
        file = files().path / "run_logs" / "held_checkpoints.json"
        seen.append(json.loads(file.read_text()) if file.exists() else None)
    assert seen == [{"held": [40]}] * 3 + [None]


def train(make_run: Any, mirror: Mirror, changes: Any = None, **behavior: Any) -> Run:
    run: Run = make_run(changes, **{"max_steps": 200, "keep_checkpoints": 2, **behavior})
    run.plugins.register(mirror, "mirror")
    run.train()
    return run


@pytest.mark.parametrize(
    ("mirror", "last"),
    [
        (
            Mirror(),
            [("saved", 120), ("removed", 40), ("saved", 160), ("removed", 80), ("saved", 200), ("removed", 120)],
        ),
        # 40 was due when 120 was saved; 160 released it after its own deletions.
        (
            Mirror(40, release=160),
            [("saved", 120), ("saved", 160), ("removed", 80), ("saved", 200), ("removed", 40), ("removed", 120)],
        ),
    ],
)
def test_each_deleted_checkpoint_is_reported_after_the_newer_one_and_a_held_one_stays_until_its_release(
    make_run: Any, files: Any, mirror: Mirror, last: Any
) -> None:
    train(make_run, mirror)
    assert mirror.events == [("saved", 40), ("saved", 80), *last]
    assert files().steps == [160, 200]


def test_a_checkpoint_that_is_held_at_the_end_is_listed_and_a_resumed_run_deletes_it(make_run: Any, files: Any) -> None:
    train(make_run, Mirror(40))
    assert files().steps == [40, 160, 200]
    assert [entry["run_steps"] for entry in files().status["Agent"]["checkpoints"]] == [40, 160, 200]
    mirror = Mirror()
    train(make_run, mirror, {"checkpoint_settings.resume": True}, max_steps=240)
    assert mirror.events == [("saved", 240), ("removed", 40), ("removed", 160)]


# ---------------------------------------------------------------- holds


def test_a_checkpoint_with_two_holds_waits_for_both(tmp_path: Path) -> None:
    holds = CheckpointHolds()
    (tmp_path / "1").mkdir()
    first = holds.hold(tmp_path / "1", 1)
    second = holds.hold(tmp_path / "1", 1)
    for _ in range(2):  # the second call does nothing
        first.release()
    with holds.unheld([1, 2]) as free:
        assert free == [2]
    with second:
        pass
    with holds.unheld([1, 2]) as free:
        assert free == [1, 2]
    with pytest.raises(RunStateError, match="step 3"):
        holds.hold(tmp_path / "3", 3)


def test_another_thread_cannot_hold_what_is_being_deleted(tmp_path: Path) -> None:
    holds = CheckpointHolds()
    (tmp_path / "1").mkdir()
    with ThreadPoolExecutor() as pool:
        with holds.unheld([1]) as free:
            asked = pool.submit(holds.hold, tmp_path / "1", 1)
            wait([asked], 0.1)
            assert free == [1] and not asked.done()
            (tmp_path / "1").rmdir()
        assert isinstance(asked.exception(10), RunStateError)
