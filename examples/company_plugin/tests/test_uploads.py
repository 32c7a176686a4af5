"""Copies of checkpoints: complete, held while they are made, and never waited for by the training."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from acme_rl import uploads
from acme_rl.uploads import Uploader

from rlcore import read_checkpoint, read_run
from rlcore_devkit import CommandResult, RunRlcore

Train = Callable[..., CommandResult]


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def kept(place: Path) -> dict[str, Path]:
    return {str(each.step): each.path for each in read_run(place / "results/run").checkpoints}


def test_a_directory_gets_every_checkpoint(train: Train, place: Path) -> None:
    assert train(acme={"upload_to": "copies"}).exit_code == 0
    checkpoints = kept(place)
    assert set(checkpoints) == {"500", "1000", "1500", "2000"}
    for step, path in checkpoints.items():
        assert contents(place / "copies/run" / step) == contents(path)
    assert sorted(path.name for path in (place / "copies/run").iterdir()) == sorted(checkpoints)


def test_a_server_gets_every_file_and_the_manifest_of_a_checkpoint_last(train: Train, server: Any, place: Path) -> None:
    assert train(acme={"upload_to": f"{server.url}/copies/"}).exit_code == 0
    for step, path in kept(place).items():
        sent = [name for name in server.files if name.startswith(f"/copies/run/{step}/")]
        assert {name.rpartition("/")[2]: server.files[name] for name in sent} == contents(path)
        assert sent[-1].endswith("/manifest.json")


def test_a_resumed_run_trains_from_a_copy(train: Train, run_rlcore: RunRlcore, place: Path) -> None:
    assert train(acme={"upload_to": "copies"}).exit_code == 0
    for path in kept(place).values():
        path.rename(path.with_name("x" + path.name))
    (place / "copies/run/1000").rename(place / "results/run/checkpoints/1000")
    assert read_checkpoint(place / "results/run").step == 1000
    assert train("--resume", acme={"upload_to": "copies"}).exit_code == 0
    assert "2000" in kept(place)


def test_the_checkpoint_that_is_uploaded_is_held_and_at_most_one_waits(
    train: Train, place: Path, config: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first upload ends after the last checkpoint was saved; two others were skipped in the meantime."""
    config["behaviors"]["Pole"]["keep_checkpoints"] = 1
    finished = threading.Event()
    there = []
    copied = []
    left: set[str] = set()

    def slow(checkpoint: Path, target: Path) -> None:
        assert finished.wait(60)
        there.append(checkpoint.is_dir())
        copied.append(checkpoint.name)

    def close(self: Uploader, seconds: float, original: Any = Uploader.close) -> None:
        left.update(path.name for path in (place / "results/run/checkpoints").glob("[0-9]*"))
        finished.set()
        original(self, seconds)

    monkeypatch.setattr(uploads, "copy", slow)
    monkeypatch.setattr(Uploader, "close", close)
    answer = train(acme={"upload_to": "copies"})
    assert (answer.exit_code, there, copied) == (0, [True, True], ["500", "2000"])
    assert left == {"500", "1500", "2000"}  # 1500 was held until 2000 was saved, and goes with the next one
    assert "acme: not uploaded: 1000, 1500; `rlcore acme upload RUN`" in answer.stderr
    config["behaviors"]["Pole"]["max_steps"] = 2500
    assert train("--resume").exit_code == 0
    assert set(kept(place)) == {"2500"}  # the holds were released


def test_a_server_that_hangs_delays_the_end_of_a_run_for_a_bounded_time(train: Train, server: Any) -> None:
    server.open.clear()
    answer = train(acme={"upload_to": server.url, "upload_seconds": 0.1})
    assert answer.exit_code == 0
    assert "acme: not uploaded: 500, 1000, 1500, 2000; `rlcore acme upload RUN`" in answer.stderr


def test_a_place_that_cannot_be_written_is_reported_and_the_run_continues(
    train: Train, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uploads, "PAUSE", 0.0)
    (place / "copies").write_text("a file")
    answer = train(acme={"upload_to": "copies"})
    assert answer.exit_code == 0
    assert "acme: checkpoint 2000 was not uploaded: " in answer.stderr
    assert "acme: not uploaded: " in answer.stderr and (place / "copies").read_text() == "a file"


@pytest.fixture
def uploader(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Uploader]:
    """``uploader(error, ...)``: its attempts fail with these errors, and then succeed."""
    monkeypatch.setattr(uploads, "PAUSE", 0.0)

    def make(*errors: Exception) -> Uploader:
        left = list(errors)

        def upload(path: Path) -> None:
            if left:
                raise left.pop(0)

        return Uploader(upload, logging.getLogger("rlcore.plugin.acme"))

    return make


class Hold:
    released = False

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        self.released = True


@pytest.mark.parametrize(
    ("errors", "missing"),
    [
        ([], False),
        ([OSError("busy"), uploads.RequestFailed("answer 503")], False),
        ([OSError("busy")] * 3, True),
        ([uploads.RequestFailed("answer 403", permanent=True)], True),
    ],
)
def test_an_upload_has_three_attempts_unless_it_is_refused(
    errors: list[Exception],
    missing: bool,
    uploader: Callable[..., Uploader],
    caplog: pytest.LogCaptureFixture,
) -> None:
    made = uploader(*errors)
    hold = Hold()
    made.add(hold, Path("checkpoints/500"))  # type: ignore[arg-type]
    made.close(10.0)
    assert hold.released and list(made.missing) == (["500"] if missing else [])
    assert len(caplog.messages) == 2 * missing


def test_a_copy_replaces_the_remains_of_a_run_that_was_killed(tmp_path: Path) -> None:
    checkpoint = tmp_path / "500"
    target = tmp_path / "copies/500"
    for directory in (checkpoint, target, tmp_path / "copies/.500.part"):
        directory.mkdir(parents=True)
    (target / "old").touch()
    (checkpoint / "manifest.json").write_text("{}")
    uploads.copy(checkpoint, target)
    assert contents(target) == {"manifest.json": b"{}"}
    assert [path.name for path in (tmp_path / "copies").iterdir()] == ["500"]


# ---------------------------------------------------------------- by hand


def test_the_command_uploads_the_intact_checkpoints_of_a_run(
    train: Train, run_rlcore: RunRlcore, server: Any, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert train().exit_code == 0
    (place / "results/run/checkpoints/1000/state.json").write_text("damaged")
    answer = run_rlcore("acme", "upload", "run")
    assert answer.exit_code == 2 and "the run has no acme.upload_to; pass --to" in answer.stderr
    assert run_rlcore("acme", "upload", "run", "--to", "gopher://acme.example").exit_code == 2
    monkeypatch.setenv("ACME_TOKEN", "t0ken")
    answer = run_rlcore("acme", "upload", "run", "--to", server.url)
    assert answer.exit_code == 0 and answer.stdout.splitlines() == [f"{n}: uploaded" for n in (500, 1500, 2000)]
    assert answer.stderr.startswith("1000: skipped, ")
    assert {path.split("/")[2] for path in server.files} == {"500", "1500", "2000"}
    assert {authorization for _, _, authorization in server.requests} == {"Bearer t0ken"}
    server.answer = 507
    failed = run_rlcore("acme", "upload", "run", "--to", server.url)
    assert failed.exit_code == 5 and "checkpoint 500 was not uploaded: answer 507" in failed.stderr
