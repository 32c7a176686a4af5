"""Games that fail: one message, no process left behind, and a new start within the limits."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import godot_player
import numpy as np
import psutil
import pytest
import yaml
from godot_worlds import begun, idle

from rlcore import ConfigError, Environment, EnvironmentEnded, EnvironmentFailed, Tag

Make = Callable[..., Environment]
DATA = Path(__file__).parent / "data"
MESSAGES: dict[str, str] = yaml.safe_load((DATA / "faults.yaml").read_text("utf-8"))
WRONG_GAMES = yaml.safe_load((DATA / "wrong_games.yaml").read_text("utf-8"))
QUICK = ("start_exit", "crash", "half", "huge", "obs_godot_nan", "image_short", "two_answers", "info_names_path")
NO_RESTARTS = {"max_lifetime_restarts": 0}


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    """Set up before the fixture ``make``, and so checked after it has closed its games."""
    before = {each.pid for each in psutil.Process().children(recursive=True)}
    yield
    left = [each for each in psutil.Process().children(recursive=True) if each.pid not in before]
    assert psutil.wait_procs(left, 10)[1] == []


def failed(make: Make, fault: str, **settings: Any) -> EnvironmentFailed:
    """The error of a game with this fault, which is not started again."""
    limits = {**NO_RESTARTS, "timeout_wait": 3} if fault in ("start_silent", "info_hang") else NO_RESTARTS

    def one_step() -> None:
        environment = make(f"--fault={fault}", limits=limits, timeout=1.0, **settings)
        begun(environment)
        idle(environment)

    with pytest.raises(EnvironmentFailed) as caught:
        one_step()
    return caught.value


def test_every_fault_has_a_message() -> None:
    assert {*MESSAGES, "leave"} == {"start_exit", "start_silent", *godot_player.FAULTS}


@pytest.mark.parametrize(
    "fault", [each if each in QUICK else pytest.param(each, marks=pytest.mark.faults) for each in MESSAGES]
)
def test_a_fault_is_one_message_with_the_last_lines_of_the_game(make: Make, fault: str) -> None:
    error = failed(make, fault)
    first = str(error)
    log = str(error.__cause__)
    assert MESSAGES[fault] in first
    where = "its start" if fault.startswith(("start", "info")) and fault not in godot_player.OF_ENDS else "step"
    assert f"godot_player.py failed in {where}: " in first
    assert len(first) < 900 and first.isprintable()
    assert "; its log ends with: a game begins, with" in first
    assert "The last lines of its log, " in log and "a game begins, with" in log


def test_a_game_that_does_not_start_leaves_the_directory_of_its_run_empty(make: Make, tmp_path: Path) -> None:
    """The run can then be started again under its name."""
    failed(make, "start_exit", num_envs=2)
    assert not (tmp_path / "run_logs").exists()


def test_a_game_that_dies_is_started_again_and_only_its_episodes_are_dropped(
    make: Make, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The first start of one of two games has the fault."""
    times = tmp_path / "times"
    times.write_text("1")
    environment = make("--fault=exit", "--at=2", f"--times={times}", num_envs=2)
    begun(environment)
    idle(environment)
    with caplog.at_level(logging.WARNING):
        batches = idle(environment)
    walker = batches["walker"]
    assert walker.aborted is not None
    lost = int(np.flatnonzero(walker.aborted)[0] // 2)
    assert walker.aborted.tolist() == [env == lost for env in (0, 0, 1, 1)]
    observed = [row[2] for row in walker.observations["obs"].tolist()]
    assert observed == [0 if env == lost else 2 for env in (0, 0, 1, 1)]
    assert walker.reward.tolist() == [0.0 if env == lost else 2.0 for env in (0, 0, 1, 1)]
    assert not walker.ended.size
    assert environment.episodes.tolist() == [int(env == lost) for env in (0, 1)]
    (said,) = [each.getMessage() for each in caplog.records]
    assert "failed in step: ended with exit code 4; its log ends with: a game begins, with" in said
    assert said.endswith("; it is started again, and its open episodes are dropped")
    assert environment.stats() == {Tag.WORKER_RESTARTS: 1.0, Tag.ABORTED_EPISODES: 3.0}
    for _ in range(6):
        batches = idle(environment)
        assert batches["walker"].aborted is None


def test_a_game_that_is_closed_is_not_started_again_and_no_failure(make: Make) -> None:
    environment = make("--fault=leave", "--at=2")
    begun(environment)
    idle(environment)
    with pytest.raises(EnvironmentEnded, match=r"godot_player\.py was closed$"):
        idle(environment)


def test_a_game_has_time_to_close_its_files(make: Make, tmp_path: Path) -> None:
    """More than the two seconds that one has which does not answer."""
    environment = make("--linger=3")
    begun(environment)
    environment.close()
    assert "closed its files" in (tmp_path / "run_logs/godot-0.log").read_text()


def test_a_game_that_fails_too_often_ends_the_run_with_the_limit(make: Make) -> None:
    environment = make("--fault=exit", limits={"max_lifetime_restarts": 1, "restarts_rate_limit_n": -1})
    begun(environment)
    idle(environment)
    with pytest.raises(EnvironmentFailed, match=r"not started again, because env_settings.max_lifetime_restarts is 1"):
        idle(environment)


def test_a_port_that_is_taken_is_an_error_of_the_file(make: Make) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(ConfigError, match=r"is not free .*; leave port out to have free ones"):
            make(port=taken.getsockname()[1])


def test_a_game_in_the_editor_is_waited_for(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO), pytest.raises(EnvironmentFailed, match="press Play in Godot's editor"):
        make(executable=None, limits={"timeout_wait": 1}, port=_free_port())
    assert "press Play in Godot's editor" in caplog.text


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@pytest.mark.parametrize(("settings", "message"), WRONG_GAMES)
def test_a_game_that_is_not_there_is_an_error_of_the_file(
    make: Make, tmp_path: Path, settings: dict[str, Any], message: str
) -> None:
    game = tmp_path / "game"
    game.write_text("#!/bin/sh\necho 3.2.1.stable\n")
    game.chmod(0o755)
    (tmp_path / "text").write_text("")
    (tmp_path / "game.pck").write_text("")
    (tmp_path / "empty").mkdir()
    (tmp_path / "folder").mkdir()
    ticks = "[physics]\n\ncommon/physics_ticks_per_second=120\n"
    (tmp_path / "folder" / "project.godot").write_text(f"config_version=5\n\n{ticks}")
    with pytest.raises(ConfigError, match=message) as caught:
        make(**settings)
    assert caught.value.key[0] == "environment"


def test_a_file_that_cannot_be_run_is_one_message(make: Make, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.write_bytes(b"\x7fELF" + os.urandom(100))
    broken.chmod(0o755)
    with pytest.raises(EnvironmentFailed, match="cannot be started: Exec format error"):
        make(executable=str(broken))
