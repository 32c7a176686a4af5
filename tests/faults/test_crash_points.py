"""SIGKILL at each named point of a save and of a resume: the run ends as the run that was never killed."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest
from fault_cases import ATTACKED, SELF_PLAY

pytestmark = pytest.mark.faults

DIRECTORY = "rlcore.storage.checkpoints"
STORE = "rlcore.storage.store"
# A function, a call of it within the nth save, and whether the call has ended. A save flushes five files or more.
POINTS: dict[str, tuple[str, str, bool]] = {
    "before a save": (f"{STORE}:CheckpointSave", "n", False),
    "with an empty temporary directory": (f"{DIRECTORY}:write_checkpoint", "n", False),
    "with a file that is not flushed": ("rlcore.storage.checkpoint:fsync_file", "5 * n - 3", False),
    "with a file that is flushed, and others that are not": ("rlcore.storage.checkpoint:fsync_file", "5 * n - 3", True),
    "before the rename": (f"{DIRECTORY}:write_checkpoint", "n", True),
    "after the rename, before the directory is flushed": (f"{DIRECTORY}:fsync_directory", "n", False),
    "before it is verified": (f"{DIRECTORY}:verify_checkpoint", "n", False),
    "before old ones are deleted": (f"{STORE}:rotate", "n", False),
    "with an old one that is renamed and not deleted": (f"{DIRECTORY}:_set_aside", "n - 1", True),
    "before the training status": ("rlcore.plugins.call:Plugins.write_status", "n", False),
}
KINDS: dict[str, dict[str, Any]] = {
    "PPO": ATTACKED["PPO, CartPole-v1"],
    "SAC": ATTACKED["SAC, CartPole-v1"],
    "TD3": ATTACKED["TD3, Pendulum-v1"],
    "DQN": ATTACKED["DQN, CartPole-v1"],
    "lessons": ATTACKED["lessons"],
    "self-play": SELF_PLAY["PPO"],
}
SAVES = (2, 3, 4)
QUICK = list(zip([list(POINTS)[at] for at in (2, 4, 3, 7, 5, 8)], KINDS, strict=True))


def trials() -> Iterator[Any]:
    """Each point, kind and save, waited for and in the background, whose thread is killed with its process.

    Part of every run of the tests are six points, each with another kind of run, and three in the background.
    """
    for (i, point), kind, save, background in product(enumerate(POINTS), KINDS, SAVES, (False, True)):
        often = (kind == "SAC" and i % 3 == 1) if background else (point, kind) in QUICK
        yield pytest.param(point, kind, save, background, marks=[] if often and save == 3 else [pytest.mark.deep])


def kept(settings: dict[str, Any]) -> dict[str, Any]:
    return settings | {"keep_checkpoints": 2}


@pytest.mark.parametrize(("point", "kind", "save", "background"), list(trials()))
def test_a_run_killed_at_a_point_of_a_save_resumes_from_a_whole_checkpoint_and_ends_equal(
    workplace: Any, whole_run: Any, point: str, kind: str, save: int, background: bool
) -> None:
    function, call, after = POINTS[point]
    whole = whole_run(**kept(KINDS[kind]))
    place = workplace(**kept(KINDS[kind]), checkpoint_settings={"asynchronous": background})
    number = {"n": save, "n - 1": save - 1, "5 * n - 3": 5 * save - 3}[call]
    process = place.start(signalled=(function, number, after, signal.SIGKILL))
    process.join(60)
    assert process.exitcode == -signal.SIGKILL, place.stderr
    assert place.verify(), "a save that is not the first leaves an older checkpoint"
    assert place.finish("--resume") == 0, place.stderr
    equal(place, whole)


def equal(place: Any, whole: Any) -> None:
    assert place.verify() == whole.steps
    assert [place.content(step) for step in place.steps] == [whole.content(step) for step in whole.steps]
    assert place.metrics() == whole.metrics()
    assert place.json("result.json")["behaviors"] == whole.json("result.json")["behaviors"]
    assert place.leftovers() == []


# Points of a resume, up to its first save.
RESUMES: dict[str, tuple[str, int, bool]] = {
    "before the checkpoint is read": (f"{DIRECTORY}:load_checkpoint", 1, False),
    "with the checkpoint read": (f"{DIRECTORY}:load_checkpoint", 1, True),
    "with the state restored": ("rlcore.run.state:TrainingState.restore", 1, True),
    "in the first update": ("rlcore.run.behaviors.behavior:TrainedBehavior.add_update", 1, False),
    "in the first save": (f"{DIRECTORY}:write_checkpoint", 1, True),
}


@pytest.mark.parametrize(
    "kind", ["PPO", *(pytest.param(kind, marks=pytest.mark.deep) for kind in KINDS if kind != "PPO")]
)
def test_a_resume_that_is_killed_at_each_of_its_points_costs_nothing(workplace: Any, whole_run: Any, kind: str) -> None:
    """One run is killed at all points in turn, and then resumed to its end."""
    whole = whole_run(**KINDS[kind])
    place = workplace(**KINDS[kind])
    place.copy_until(whole, whole.steps[1])
    for point in RESUMES.values():
        before = place.steps
        process = place.start("--resume", signalled=(*point, signal.SIGKILL))
        process.join(60)
        assert process.exitcode == -signal.SIGKILL, (point, place.stderr)
        assert place.verify()[: len(before)] == before
    assert place.finish("--resume") == 0, place.stderr
    assert place.verify() == whole.steps
    assert [place.content(step) for step in place.steps] == [whole.content(step) for step in whole.steps]
    shutil.rmtree(place.path)
