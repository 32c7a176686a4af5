"""Disks that are full, limited or not ours; and files that were damaged."""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from rlcore_devkit.fixtures import RunRlcore

pytestmark = pytest.mark.faults

MEGABYTE = 1 << 20


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of one megabyte; only root may mount one."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)], capture_output=True, text=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip(f"no tmpfs can be mounted: {mounted.stderr.strip()} (the file size limit below is tested instead)")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


ONE_LINE = re.compile(
    r"error: checkpoint of step (?P<step>\d+) in \S+ cannot be written: (?P<cause>[^;]+); "
    r"(the last intact one is of step (?P<good>\d+); (?P<fix>.*) and resume with --resume"
    r"|there is no earlier one; (?P<first_fix>.*) and start the run again)\n"
)


def refused(place: Any) -> re.Match[str]:
    """The one line on standard error, its step being the one after the last intact one."""
    match = ONE_LINE.fullmatch(place.stderr)
    assert match, place.stderr
    assert place.leftovers() == []
    good = place.verify()
    assert int(match["good"]) == good[-1] < int(match["step"]) == good[-1] + 400
    assert place.json("result.json")["outcome"] in ("failed", "interrupted")
    return match


def test_a_disk_that_fills_up_stops_the_run_at_a_checkpoint_and_costs_nothing_old(
    workplace: Any, whole_run: Any, assert_equal_from: Any, small_disk: Path
) -> None:
    whole, place = whole_run(), workplace(results=small_disk / "results")
    pages = sum(-(-file.stat().st_size // 4096) for file in (whole.checkpoints / "800").iterdir())
    (small_disk / "filler").write_bytes(bytes(MEGABYTE - (pages * 5 // 2 + 5) * 4096))  # two and a half checkpoints
    assert place.finish() == 5
    match = refused(place)
    assert (match["cause"], match["fix"]) == ("No space left on device", "free some space")
    assert place.finish("--resume") == 5  # still full: the same again
    refused(place)
    (small_disk / "filler").unlink()
    last = place.steps[-1]
    assert place.finish("--resume") == 0, place.stderr
    assert_equal_from(place, whole, last)


def test_every_byte_at_which_a_disk_may_be_full_leaves_the_old_checkpoints(
    workplace: Any, small_disk: Path, trial: Any, deep: bool
) -> None:
    """Room for less than one checkpoint at first, and 16 KiB more each time; 4 KiB in a deep run."""
    place = workplace(results=small_disk / "results", max_steps=1200)
    seen = set()
    for pages in range(12, 40, 1 if deep else 4):
        trial()
        shutil.rmtree(place.run, ignore_errors=True)
        (small_disk / "filler").unlink(missing_ok=True)
        (small_disk / "filler").write_bytes(bytes(MEGABYTE - pages * 4096))
        code = place.finish()
        assert place.leftovers() == []
        seen.add(len(place.verify()) if place.run.exists() else 0)
        assert code == 5 or place.steps == [400, 800, 1200]
        errors = [line for line in place.stderr.splitlines() if not line.startswith("warning: writer ")]
        assert code == 0 or (len(errors) == 1 and "No space left on device" in errors[0])
    assert len(seen) > 2


def test_a_file_size_limit_stops_the_run_at_a_checkpoint(
    workplace: Any, whole_run: Any, assert_equal_from: Any
) -> None:
    """A full disk that needs no root: RLIMIT_FSIZE."""
    whole, place = whole_run(), workplace()
    shutil.copytree(whole.run, place.run)
    for step in whole.steps[1:]:
        shutil.rmtree(place.checkpoints / str(step))
    assert place.finish("--resume", largest_file=6000) == 5
    assert refused(place)["cause"] == "File too large"
    assert place.finish("--resume") == 0, place.stderr
    assert_equal_from(place, whole, 400)


def test_a_first_checkpoint_that_cannot_be_written_leaves_a_run_to_be_started_again(workplace: Any) -> None:
    place = workplace()
    assert place.finish(largest_file=6000) == 5
    match = ONE_LINE.fullmatch(place.stderr)
    assert match and match["step"] == "400" and match["first_fix"] == "fix the cause", place.stderr
    assert place.finish() == 0, place.stderr  # as the message says


@pytest.fixture
def forbid() -> Iterator[Callable[[Path], None]]:
    """``forbid(directory)``: no process may write there until the test is over."""
    forbidden: list[Path] = []

    def make(path: Path) -> None:
        path.chmod(0o555)
        forbidden.append(path)

    yield make
    for path in forbidden:
        path.chmod(0o755)


def test_a_directory_without_permission_is_refused(workplace: Any, forbid: Any) -> None:
    place = workplace()
    place.results.mkdir()
    forbid(place.results)
    assert place.finish(drop_capabilities=True) == 5
    assert place.stderr == f"error: {place.shown(place.run)}: cannot be written to: Permission denied\n"
    assert list(place.results.iterdir()) == []


def test_checkpoints_that_become_read_only_stop_the_run(
    workplace: Any, whole_run: Any, assert_equal_from: Any, forbid: Any
) -> None:
    whole, place = whole_run(), workplace()
    shutil.copytree(whole.run, place.run)
    for step in whole.steps[1:]:
        shutil.rmtree(place.checkpoints / str(step))
    forbid(place.checkpoints)
    assert place.finish("--resume", drop_capabilities=True) == 5
    match = refused(place)
    assert (match["cause"], match["fix"]) == ("Permission denied", "give this user permission to write there")
    place.checkpoints.chmod(0o755)
    assert place.finish("--resume", drop_capabilities=True) == 0, place.stderr
    assert_equal_from(place, whole, 400)


def test_a_results_directory_that_cannot_be_looked_into_is_refused(workplace: Any) -> None:
    place = workplace()
    place.results.mkdir()
    place.results.chmod(0o000)
    try:
        assert place.finish(drop_capabilities=True) == 5
        assert place.stderr == f"error: {place.shown(place.run)}: cannot be written to: Permission denied\n"
    finally:
        place.results.chmod(0o755)


# ---------------------------------------------------------------- damaged files


def flip(path: Path, other: Path, draw: random.Random) -> None:
    content = bytearray(path.read_bytes())
    content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
    path.write_bytes(content)


def truncate(path: Path, other: Path, draw: random.Random) -> None:
    os.truncate(path, draw.randrange(1, path.stat().st_size))


def blank(path: Path, other: Path, draw: random.Random) -> None:
    """A page of zeros, as a file system gives back after a power cut."""
    content = path.read_bytes()
    path.write_bytes(bytes(min(4096, len(content))) + content[4096:])


def empty(path: Path, other: Path, draw: random.Random) -> None:
    path.write_bytes(b"")


def remove(path: Path, other: Path, draw: random.Random) -> None:
    path.unlink()


def swap(path: Path, other: Path, draw: random.Random) -> None:
    shutil.copy(other, path)


FILES = ["Agent.safetensors", "run.safetensors", "state.json", "manifest.json"]
DAMAGES = [*[flip] * 3, *[truncate] * 2, blank, empty, remove, swap]


@pytest.fixture
def nearly_done(workplace: Any, whole_run: Any) -> Callable[[], Any]:
    """A copy of a run that was killed before its last checkpoint: 400 to 2000 are there."""
    made = []

    def make() -> Any:
        whole = whole_run()
        place = workplace(f"damaged{len(made)}")
        made.append(place)
        shutil.copytree(whole.run, place.run)
        shutil.rmtree(place.checkpoints / "2400")
        return place

    return make


@pytest.mark.parametrize("name", FILES)
def test_every_damage_is_noticed_named_and_made_good_by_an_older_checkpoint(
    nearly_done: Any, whole_run: Any, assert_equal_from: Any, run_rlcore: RunRlcore, trial: Any, name: str
) -> None:
    whole, draw = whole_run(), random.Random(name)
    for damage in DAMAGES:
        trial()
        place = nearly_done()
        newest = place.checkpoints / "2000"
        damage(newest / name, place.checkpoints / "1600" / name, draw)
        result = run_rlcore("run", place.path / "config.yaml", "--resume")
        assert result.exit_code == 0, (damage.__name__, result.stderr)
        (line,) = result.stderr.splitlines()
        assert line.startswith(f"warning: checkpoint {newest}: ") and line.endswith("an older checkpoint is used")
        # A manifest may be damaged in what it says of another file, which is then the one that does not fit it.
        assert name in line or name == "manifest.json", (damage.__name__, line)
        assert_equal_from(place, whole, 1600)
        shutil.rmtree(place.path)


def test_several_damaged_checkpoints_are_passed_over_one_by_one(
    nearly_done: Any, whole_run: Any, assert_equal_from: Any, run_rlcore: RunRlcore
) -> None:
    place = nearly_done()
    for step in (1200, 1600, 2000):
        (place.checkpoints / str(step) / "state.json").unlink()
    result = run_rlcore("run", place.path / "config.yaml", "--resume")
    assert result.exit_code == 0
    assert sum(line.startswith("warning: ") for line in result.stderr.splitlines()) == 3
    assert_equal_from(place, whole_run(), 800)


@pytest.mark.parametrize("damage", [flip, *(pytest.param(each, marks=pytest.mark.deep) for each in (empty, truncate))])
@pytest.mark.parametrize("name", FILES)
def test_when_all_are_damaged_nothing_starts(
    nearly_done: Any, run_rlcore: RunRlcore, name: str, damage: Callable[[Path, Path, random.Random], None]
) -> None:
    place = nearly_done()
    for step in place.steps:
        damage(place.checkpoints / str(step) / name, place.path, random.Random(step))
    before = {path: path.read_bytes() for path in place.run.rglob("*") if path.is_file()}
    result = run_rlcore("run", place.path / "config.yaml", "--resume")
    assert result.exit_code == 5 and result.stdout == ""
    *warnings, error = result.stderr.splitlines()
    assert len(warnings) == 5
    assert error.startswith(
        f"error: {place.run}: there is no usable checkpoint in {place.checkpoints} (checkpoint {place.checkpoints}"
    )
    assert error.endswith("; restore one from a backup or start over with --force")
    assert {path: path.read_bytes() for path in place.run.rglob("*") if path.is_file()} == before


def test_a_configuration_that_is_written_down_runs_again_to_the_same_first_checkpoint(
    workplace: Any, whole_run: Any
) -> None:
    whole, place = whole_run(), workplace()
    config = yaml.safe_load((whole.run / "configuration.yaml").read_text())
    assert config["env_settings"]["seed"] == 11
    shutil.copy(whole.run / "configuration.yaml", place.path / "again.yaml")
    assert place.finish("--results-dir", str(place.results), config="again.yaml") == 0, place.stderr
    assert place.steps == whole.steps
    assert place.content(400) == whole.content(400)
    assert place.content(2400) == whole.content(2400)
