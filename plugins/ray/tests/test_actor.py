"""Actors return errors, and refuse another version of rlcore; ranks start again. No test here starts Ray."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from rlcore import ConfigError
from rlcore_ray.actor import PartActor
from rlcore_ray.ranks import Rank, RankJob
from rlcore_workers import WorkerFailed

pytestmark = pytest.mark.smoke


def test_hosts_need_the_same_version_of_rlcore(tmp_path: Path) -> None:
    failure = PartActor(0).create(b"never read", "99.0", {"dir": str(tmp_path)})
    sent = pickle.loads(pickle.dumps(failure))
    assert isinstance(sent, WorkerFailed) and sent.final and isinstance(sent.raised, ConfigError)
    assert "the run has rlcore 99.0; install the same version" in str(sent)


@pytest.mark.parametrize("method", ["attach", "call"])
def test_errors_are_answers(method: str) -> None:
    arguments = {"attach": (None,), "call": ("close", (), b"")}[method]
    failure = getattr(PartActor(0), method)(*arguments)
    assert isinstance(failure, WorkerFailed) and "AttributeError" in str(failure) and failure.details


class Killed(RankJob):
    """A job whose second rank is killed in every attempt."""

    def _attempt(self, *given: Any) -> list[Rank]:
        return [Rank(None, None, -9, killed=True), Rank(None, None, -9)]  # type: ignore[arg-type]


def test_ranks_start_again_as_often_as_the_command_says(capsys: pytest.CaptureFixture[str]) -> None:
    assert Killed(2, {}, 1.0, max_restarts=2).run([]) == 128 + 9
    again = [f"; all ranks start again (restarts left: {left})" for left in (1, 0)]
    assert capsys.readouterr().err.splitlines() == [f"rank 1 ended (signal 9){more}" for more in (*again, "")]
