"""Workers on Ray equal workers in processes, fail like them, and can be reached from this machine only."""

from __future__ import annotations

import importlib.util
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from checked_workers import Checked, fault, make
from compared_runs import EQUAL, assert_ends_equal, train
from ray_jobs import listening, runs, wait_until_gone

from rlcore import EnvironmentFailed

if importlib.util.find_spec("ray") is None:
    pytest.skip("ray is not installed", allow_module_level=True)

from rlcore_workers.ray.session import connection
from rlcore_workers.ray.settings import RaySettings

pytestmark = [pytest.mark.distributed, pytest.mark.xdist_group("ray")]


def children() -> list[psutil.Process]:
    """The processes that this one started, and those that they started."""
    return [each for each in psutil.Process().children(recursive=True) if runs(each)]


@pytest.fixture(scope="module")
def own_ray(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[psutil.Process]]:
    """One Ray for all tests; returns its processes, none of which is left after the tests."""
    before = children()
    variables = dict(os.environ)
    handler = signal.getsignal(signal.SIGTERM)
    connection.open(RaySettings(count=3))
    started = [each for each in children() if each not in before]
    assert signal.getsignal(signal.SIGTERM) is handler
    yield started
    connection.close()
    wait_until_gone(started)
    assert [name for name in os.environ if name not in variables and ("RAY" in name or "BREAKPOINT" in name)] == []


@pytest.fixture
def opened(own_ray: list[psutil.Process]) -> Iterator[list[Any]]:
    """Environments to close after the test."""
    environments: list[Any] = []
    yield environments
    for environment in environments:
        environment.close()


@pytest.mark.usefixtures("own_ray")
@pytest.mark.parametrize("name", ["workers, PPO", pytest.param("workers, self-play", marks=pytest.mark.deep)])
def test_a_run_on_ray_equals_one_in_one_process(tmp_path: Path, name: str) -> None:
    train(tmp_path / "one", EQUAL[name], {})
    train(tmp_path / "ray", EQUAL[name], {"environment.workers": {"executor": "ray", "count": 2}})
    assert_ends_equal(tmp_path / "ray", tmp_path / "one", EQUAL[name])


@pytest.mark.daily
def test_the_first_actors_that_answer_are_not_mixed_up(tmp_path: Path, opened: list[Any]) -> None:
    opened.append(make(tmp_path, {"executor": "ray", "count": 3, "wait_for": 1, "cpus": 0.1}, 5))
    checked = Checked(opened[-1])
    deadline = time.monotonic() + 240
    while checked.episode.min() < 2:
        assert time.monotonic() < deadline
        checked.play(1)


def test_only_the_open_episodes_of_a_failing_actor_are_lost(
    tmp_path: Path, opened: list[Any], caplog: pytest.LogCaptureFixture
) -> None:
    faults = [fault("raise", 0, 0, 1), fault("kill", 2, 0, 1), fault("unpicklable", 4, 0, 3), fault("hang", 1, 2, 2)]
    opened.append(make(tmp_path, {"executor": "ray", "count": 3, "step_timeout": 6.0}, 6, faults))
    checked = Checked(opened[-1])
    checked.play(25)
    assert checked.aborts[:2] == [(0, 1, 2, 3), (4, 5)] and (0, 1) in checked.aborts[2:]
    stats = opened[-1].stats()
    assert stats["Environment/Worker Restarts"] == 4
    assert stats["Environment/Aborted Episodes"] == 8
    for cause in (
        "worker 0 (environments 0 to 1) failed in step: ValueError: the pole is broken",
        "worker 1 (environments 2 to 3) failed in step: its process ",
        "did not finish step within 6 s; it is process ",
    ):
        assert cause in caplog.text


@pytest.mark.deep
@pytest.mark.usefixtures("own_ray")
def test_a_cluster_without_room_is_named_at_the_deadline(tmp_path: Path) -> None:
    limits = {"timeout_wait": 3}
    with pytest.raises(EnvironmentFailed, match=r"within 3 s: Ray has not started it; .* \(environment.workers.cpus\)"):
        make(tmp_path, {"executor": "ray", "count": 2, "cpus": 1000}, 4, limits=limits)


def test_an_own_ray_listens_on_this_machine_only(own_ray: list[psutil.Process], opened: list[Any]) -> None:
    assert listening(own_ray) == {"127.0.0.1"}
