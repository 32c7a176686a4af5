"""SIGKILL at every call of a save and a rotation in which checkpoints share files."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from forks import FORKS, ended
from frozen_child import policy, save, save_until_killed

from rlcore import load_checkpoint
from rlcore.storage.checkpoints import find_checkpoints
from rlcore.storage.files.access import sweep

pytestmark = pytest.mark.faults


def steps_of_whole_checkpoints(directory: Path) -> list[int]:
    """The steps of all checkpoints, each of which must have the three policies around its step."""
    steps = [checkpoint.step for checkpoint in find_checkpoints(directory)]
    for step in steps:
        pool = load_checkpoint(directory / str(step))["Agent"]["pool"]
        assert pool == [policy(seed) for seed in range(step - 1, step + 2)]
    return steps


def shared_files(directory: Path) -> dict[str, set[int]]:
    """The inodes of each name in all checkpoints."""
    found: dict[str, set[int]] = {}
    for file in directory.rglob("_frozen-*"):
        found.setdefault(file.name, set()).add(file.stat().st_ino)
    return found


def test_a_kill_at_any_call_leaves_whole_checkpoints_and_no_bytes_that_none_of_them_has(
    fork_server: None, tmp_path: Path
) -> None:
    calls, exit_code, seen = 0, -signal.SIGKILL, set()
    while exit_code == -signal.SIGKILL:
        directory = tmp_path / str(calls)
        process = FORKS.Process(target=save_until_killed, args=(str(directory), calls))
        process.start()
        exit_code = ended(process)
        steps = steps_of_whole_checkpoints(directory)
        assert steps in ([1, 2], [1, 2, 3], [2, 3]), calls
        seen.add((tuple(steps), bool(list(directory.glob(".rlcore-tmp-*")))))
        sweep(directory)  # as the next process of the run does
        assert steps_of_whole_checkpoints(directory) == steps
        inodes = shared_files(directory)
        assert len(inodes) == len({seed for step in steps for seed in range(step - 1, step + 2)})
        assert all(len(each) == 1 for each in inodes.values()), "the bytes of a policy are on disk once"
        save(directory, 4)
        assert steps_of_whole_checkpoints(directory) == [steps[-1], 4]
        assert all(len(each) == 1 for each in shared_files(directory).values())
        calls += 1
    assert exit_code == 0 and steps == [2, 3] and calls > 25
    assert seen == {((1, 2), True), ((1, 2), False), ((1, 2, 3), False), ((2, 3), True), ((2, 3), False)}
