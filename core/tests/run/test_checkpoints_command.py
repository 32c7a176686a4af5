"""``rlcore checkpoints``: the list, the verification of every file, and what a pruning never deletes."""

from __future__ import annotations

import json
import os
import random
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlcore.contracts.states import FrozenState
from rlcore.storage.checkpoint import FORMAT_VERSION, load_checkpoint
from rlcore.storage.checkpoints import save_checkpoint
from rlcore_devkit.fixtures import RunRlcore

pytest.importorskip("rlcore_study", reason="has the command")

EVALUATED = {"evaluation": {"interval": 40, "episodes": 1}}
ALL = {"keep_checkpoints": 0}  # checkpoints 40, 80, 120, 160 and 200


@pytest.fixture
def run_checkpoints(run_rlcore: RunRlcore, files: Any) -> Any:
    """``run_checkpoints("list")``: ``rlcore checkpoints list`` of the run."""
    return lambda command, *words: run_rlcore("checkpoints", command, files().path, *words)


@pytest.fixture
def evaluated(make_run: Any, files: Any, script: Any) -> Path:
    """The checkpoints of a run whose best evaluation was that of step 80."""
    script(1, 9, 2, 3, 4)
    make_run(EVALUATED, **ALL).train()
    place: Path = files().path / "checkpoints"
    return place


def rows(listed: Any) -> list[dict[str, Any]]:
    """The checkpoints as ``list --json`` prints them."""
    found: list[dict[str, Any]] = json.loads(listed.stdout)["checkpoints"]
    return found


def damage(path: Path, draw: random.Random) -> None:
    content = bytearray(path.read_bytes())
    content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
    path.write_bytes(content)


def test_the_list_has_steps_sizes_scores_promise_and_format(evaluated: Path, files: Any, run_checkpoints: Any) -> None:
    found = rows(run_checkpoints("list", "--json"))
    steps = [40, 80, 120, 160, 200]
    assert [(each["step"], each["best"]) for each in found] == [*((step, False) for step in steps), (80, True)]
    assert [each["score"] for each in found] == [1, 9, 2, 3, 4, 9]
    assert [each["best_step"] for each in found] == [40, 80, 80, 80, 80, None]
    assert [each["resume"]["promise"] for each in found] == ["exact"] * 5 + ["weights only"]
    for each in found:
        sizes = sum(file.stat().st_size for file in Path(each["path"]).iterdir())
        assert (each["size"], each["own"]) == (sizes, sizes) and each["format_version"] == FORMAT_VERSION
        assert abs(each["created"] - time.time()) < 600 and not each["held"] and not each["problem"]
    rewards = [entry["reward"] for entry in files().status["Agent"]["checkpoints"]]
    assert [each["rewards"]["Agent"] for each in found[:5]] == pytest.approx(rewards)
    text = run_checkpoints("list").stdout
    assert "best evaluation" in text and "newest" in text and "weights only" in text


def test_shared_files_count_once_and_go_with_their_last_one(make_run: Any, files: Any, run_checkpoints: Any) -> None:
    """Two pairs of checkpoints share a file; that of the newer pair stays with the checkpoint that prune keeps."""
    make_run(**ALL).train()
    place = files().path / "checkpoints"
    old = FrozenState({"weights": np.ones(1000)})
    new = FrozenState({"weights": np.zeros(2000)})
    for step, part in ((40, old), (80, old), (120, new), (200, new)):
        loaded = load_checkpoint(place / str(step))
        loaded["Agent"]["part"] = part
        save_checkpoint(place, step, loaded)

    def on_disk() -> int:
        stats = [file.stat() for file in place.rglob("*") if file.is_file()]
        return sum({each.st_ino: each.st_size for each in stats}.values())

    before = on_disk()
    found = json.loads(run_checkpoints("list", "--json").stdout)
    assert found["on_disk"] == before < sum(each["size"] for each in found["checkpoints"]) - 8000 - 16000
    keep = ("prune", "--keep", "1", "--json")
    dry, pruned = (json.loads(run_checkpoints(*keep, *flags).stdout) for flags in (["--dry-run"], []))
    assert files().steps == [200] and dry["freed"] == pruned["freed"] == before - on_disk()


def test_verify_names_every_damaged_file_and_ends_with_5(evaluated: Path, run_checkpoints: Any) -> None:
    intact = run_checkpoints("verify", "--json")
    assert intact.exit_code == 0 and [row["problems"] for row in rows(intact)] == [[]] * 6
    draw = random.Random(3)
    for name in ("80/Agent.safetensors", "80/state.json", "best/80/Agent.safetensors"):
        damage(evaluated / name, draw)
    (evaluated / "120" / "configuration.yaml").unlink()
    ended = run_checkpoints("verify")
    assert ended.exit_code == 5
    lines = ended.stdout.splitlines()
    states = [line.partition(":")[0] for line in lines if not line.startswith(" ")]
    assert states == ["intact", "damaged", "damaged", "intact", "intact", "damaged"]
    named = [line for line in lines if line.startswith(" ")]
    for line, file in zip(
        named, ("80: Agent.saf", "80: state.json", "configuration.yaml", "80: Agent.saf"), strict=True
    ):
        assert file in line


def test_pruning_keeps_the_newest_the_best_and_what_rlcore_did_not_write(
    files: Any, evaluated: Path, run_checkpoints: Any
) -> None:
    (evaluated / "120" / "notes.txt").write_text("mine")
    before = files().everything()
    dry = run_checkpoints("prune", "--keep", "1", "--dry-run").stdout.splitlines()
    assert files().everything() == before
    assert [line.split(":")[0] for line in dry] == ["would delete"] * 3 + ["kept"] * 2 + ["would free"]
    report = json.loads(run_checkpoints("prune", "--keep", "1", "--json").stdout)
    assert [each["step"] for each in report["deleted"]] == [40, 120, 160]
    reasons = [(each["step"], each["reason"]) for each in report["kept"]]
    assert reasons == [(80, "of the best evaluation"), (200, "the newest intact one")]
    assert sorted(path.name for path in evaluated.iterdir()) == ["120", "200", "80", "best"] and files().best == [80]
    assert [path.name for path in (evaluated / "120").iterdir()] == ["notes.txt"]
    # The status lists what is left, and still says that the training is done.
    section = files().status["Agent"]
    assert [entry["steps"] for entry in section["checkpoints"]] == [80, 200] and "final_checkpoint" in section


def test_a_run_that_trains_has_no_intact_checkpoint_or_no_mark_is_not_pruned(
    make_run: Any, files: Any, run_checkpoints: Any
) -> None:
    def refused(said: str) -> None:
        steps = files().steps
        ended = run_checkpoints("prune", "--keep", "1")
        assert ended.exit_code == 5 and said in ended.stderr and files().steps == steps

    with make_run(**ALL) as run:
        next(run)
        refused("another process is writing")
        run.train()
    place = files().path / "checkpoints"
    for step in (80, 200):
        damage(place / str(step) / "Agent.safetensors", random.Random(step))
    assert run_checkpoints("prune", "--keep", "1").exit_code == 0 and files().steps == [160, 200]
    damage(place / "160" / "Agent.safetensors", random.Random(0))
    refused("no checkpoint is intact")
    (files().path / "rlcore_run.json").unlink()
    refused("rlcore_run.json")


def test_pruning_needs_a_limit_and_all_limits_must_hold(make_run: Any, files: Any, run_checkpoints: Any) -> None:
    make_run(**ALL).train()
    for step, hours in ((40, 50), (80, 30), (120, 30), (160, 1)):
        old = time.time() - 3600 * hours
        os.utime(files().path / "checkpoints" / str(step) / "manifest.json", (old, old))
    for options, said, left in (
        ((), "say what to delete", [40, 80, 120, 160, 200]),
        (("--keep", "0"), "--keep", [40, 80, 120, 160, 200]),
        (("--older-than", "7"), "is not a duration", [40, 80, 120, 160, 200]),
        (("--older-than", "2d"), "", [80, 120, 160, 200]),
        (("--older-than", "24h", "--keep", "3"), "", [120, 160, 200]),
        (("--older-than", "24h"), "", [160, 200]),
    ):
        ended = run_checkpoints("prune", *options)
        assert ended.exit_code == (2 if said else 0) and said in ended.stderr and files().steps == left
    assert "not old enough" in run_checkpoints("prune", "--older-than", "24h").stdout
