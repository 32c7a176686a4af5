"""Actors return errors, and refuse another version of rlcore. No test here starts Ray."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from rlcore import ConfigError
from rlcore_ray.actor import PartActor
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
