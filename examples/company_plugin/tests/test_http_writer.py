"""The statistics writer against a real server that answers, fails, hangs, goes away and comes back."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import attrs
import pytest
import yaml
from acme_rl.http_writer import HttpWriter
from acme_rl.settings import HttpSettings

from rlcore import StatSummary, read_run
from rlcore_devkit import CommandResult, StatsWriterConformance

Make = Callable[..., HttpWriter]
DOWN = "http://127.0.0.1:9"  # the port of `discard`, where nothing listens


def until(condition: Callable[[], object], seconds: float = 10.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.005)


class TestHttpWriter(StatsWriterConformance):
    writer = "acme-rl/acme-http"

    @pytest.fixture(autouse=True)
    def _server(self, server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(type(self), "settings", {"url": server.url, "batch_seconds": 0})
        self.server = server
        self.made: list[HttpWriter] = []

    def make(self, resumed_steps: Mapping[str, int] | None = None) -> Any:
        self.made.append(super().make(resumed_steps))  # type: ignore[arg-type]
        return self.made[-1]

    def read(self, directory: Path) -> list[tuple[str, int, Mapping[str, float]]]:
        until(lambda: all(each.delivered == each.written for each in self.made))
        return [(behavior, step, stats) for (_, behavior, step), stats in sorted(self.server.rows.items())]


@pytest.fixture
def make(server: Any) -> Iterator[Make]:
    """Make a writer that sends to the server, and close it."""
    made: list[HttpWriter] = []
    context = SimpleNamespace(run_id="run", logger=lambda name: logging.getLogger(f"rlcore.plugin.{name}"))

    def make(**settings: Any) -> HttpWriter:
        quick = HttpSettings(url=server.url, retry_seconds=0.01, close_seconds=5.0, batch_seconds=0.0)
        made.append(HttpWriter(attrs.evolve(quick, **settings), context))  # type: ignore[arg-type]
        return made[-1]

    yield make
    server.open.set()
    for writer in made:
        writer.close()


def write(writer: HttpWriter, *steps: int) -> None:
    for step in steps:
        writer.write("Pole", step, {"Losses/Value Loss": StatSummary.of([float(step)])})


def steps(server: Any) -> list[int]:
    return [step for _, _, step in server.rows]


def test_summaries_are_sent_in_batches(make: Make, server: Any) -> None:
    writer = make(batch_size=3, batch_seconds=60.0)
    write(writer, 1, 2)
    time.sleep(0.05)
    assert server.batches == []  # a batch is neither full nor old enough
    write(writer, 3, 4)
    until(lambda: len(server.batches) == 1)
    writer.close()
    assert [[row["step"] for row in batch] for batch in server.batches] == [[1, 2, 3], [4]]
    row = server.batches[1][0]
    assert row.pop("time") == pytest.approx(time.time(), abs=60)
    assert row == {"run": "run", "behavior": "Pole", "step": 4, "stats": {"Losses/Value Loss": 4.0}}


def test_a_batch_is_sent_when_its_first_summary_has_waited(make: Make, server: Any) -> None:
    write(make(batch_size=100, batch_seconds=0.05), 1)
    until(lambda: steps(server) == [1])


@pytest.mark.parametrize("answer", [500, 503, 429])
def test_a_server_that_fails_gets_everything_later_and_each_failure_is_said_once(
    answer: int, make: Make, server: Any, caplog: pytest.LogCaptureFixture
) -> None:
    server.answer = answer
    writer = make()
    write(writer, 1, 2, 3)
    until(lambda: len(server.requests) > 3)
    server.answer = 200
    until(lambda: writer.delivered == 3)
    writer.close()
    assert steps(server) == [1, 2, 3]
    (said,) = caplog.messages
    assert said.startswith(f"{server.url}: answer {answer} ") and said.endswith("the training continues")


def test_a_server_that_is_down_costs_nothing_and_what_is_lost_is_said(
    make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    writer = make(url=DOWN, queue_size=10)
    began = time.perf_counter()
    write(writer, *range(1000))
    assert time.perf_counter() - began < 0.5
    assert len(writer.waiting) <= 10
    writer.close()
    first, last = caplog.messages
    assert first.startswith(f"{DOWN}: ") and "refused" in first
    assert last.startswith(f"1000 of 1000 summaries were not sent to {DOWN}: ") and "refused" in last


def test_a_full_queue_drops_the_oldest_and_counts_them(
    make: Make, server: Any, caplog: pytest.LogCaptureFixture
) -> None:
    server.open.clear()
    writer = make(queue_size=3, batch_size=2)
    write(writer, 1)
    until(lambda: server.requests)  # the first batch is under way
    write(writer, *range(2, 9))
    server.open.set()
    writer.close()
    assert steps(server) == [1, 6, 7, 8]
    assert caplog.messages == [f"4 of 8 summaries were not sent to {server.url}: the queue was full"]


def test_a_server_that_hangs_never_makes_the_run_wait(
    make: Make, server: Any, caplog: pytest.LogCaptureFixture
) -> None:
    server.open.clear()
    writer = make(close_seconds=0.2, timeout=60.0)
    assert writer.thread.daemon  # a process does not wait for it either
    began = time.perf_counter()
    write(writer, *range(5))
    assert time.perf_counter() - began < 0.1
    writer.close()
    assert 0.2 <= time.perf_counter() - began < 2.0
    assert caplog.messages == [f"5 of 5 summaries were not sent to {server.url}: not confirmed within 0.2 s"]


def test_a_request_without_an_answer_fails_at_its_time_out_and_is_repeated(
    make: Make, server: Any, caplog: pytest.LogCaptureFixture
) -> None:
    server.open.clear()
    writer = make(timeout=0.05)
    write(writer, 1)
    until(lambda: len(server.requests) >= 2)
    server.open.set()
    until(lambda: writer.delivered == 1)
    assert caplog.messages == [f"{server.url}: timed out; the training continues"]


@pytest.mark.parametrize("answer", [301, 302, 401, 404])
def test_a_server_that_refuses_is_not_asked_again(
    answer: int, make: Make, server: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """A redirect is refused too: following it would repeat the POST as a GET, which sends nothing."""
    server.answer = answer
    writer = make()
    write(writer, 1)
    until(lambda: caplog.messages)
    writer.close()
    assert [method for method, _, _ in server.requests] == ["POST"]
    assert f"1 of 1 summaries were not sent to {server.url}: answer {answer} " in caplog.messages[-1]


def test_a_token_that_no_header_can_have_is_reported(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    writer = make(token="line\nbreak")
    write(writer, 1)
    writer.close()
    assert "1 of 1 summaries were not sent" in caplog.messages[-1] and "Invalid header value" in caplog.messages[-1]


# ---------------------------------------------------------------- in runs


def test_a_server_that_is_down_changes_nothing_that_is_learned(
    train: Callable[..., CommandResult], server: Any, config: dict[str, Any], place: Path
) -> None:
    for run_id, url in (("up", server.url), ("down", DOWN)):
        stats = {**config["stats"], "acme-http": {"url": url}}
        answer = train("--run-id", run_id, stats=stats)
        assert answer.exit_code == 0
    assert f"acme: 4 of 4 summaries were not sent to {DOWN}" in answer.stderr
    up, down = (read_run(place / "results" / run_id) for run_id in ("up", "down"))
    weights = [next(run.checkpoints[-1].path.glob("Pole*.safetensors")).read_bytes() for run in (up, down)]
    assert weights[0] == weights[1]
    timed = "Performance/Steps Per Second"
    for line in up.metrics:
        sent = server.rows["up", line.behavior, line.step]
        assert {tag: value for tag, value in line.stats.items() if tag != timed} == {
            tag: pytest.approx(value) for tag, value in sent.items() if tag != timed
        }


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_process_that_is_stopped_has_sent_every_summary(
    number: signal.Signals, code: int, server: Any, config: dict[str, Any], place: Path
) -> None:
    """The summaries wait for a batch that is never full: only the end of the run sends them."""
    config["behaviors"]["Pole"]["max_steps"] = 10_000_000
    config["stats"]["acme-http"] = {"url": server.url, "batch_size": 100_000, "batch_seconds": 600}
    (place / "run.yaml").write_text(yaml.safe_dump(config))
    command = [sys.executable, "-m", "rlcore.cli.main", "run", "run.yaml"]
    with subprocess.Popen(command, cwd=place, stderr=subprocess.PIPE, text=True) as process:
        try:
            metrics = place / "results/run/metrics.jsonl"
            until(lambda: process.poll() or (metrics.exists() and len(metrics.read_text().splitlines()) >= 3), 60)
            assert server.batches == []
            os.kill(process.pid, number)
            _, errors = process.communicate(timeout=60)
        finally:
            with suppress(ProcessLookupError):
                process.kill()
    assert (process.returncode, "not sent" in errors) == (code, False), errors
    written = {("run", line.behavior, line.step) for line in read_run(place / "results/run").metrics}
    assert len(written) >= 3 and server.rows.keys() == written


def test_a_process_that_is_killed_has_sent_what_was_flushed(server: Any, config: dict[str, Any], place: Path) -> None:
    """The resumed run sends the summaries after the checkpoint again, and the server has each one once."""
    config["stats"]["acme-http"] = {"url": server.url, "batch_seconds": 0}
    config["behaviors"]["Pole"]["max_steps"] = 10_000_000
    (place / "run.yaml").write_text(yaml.safe_dump(config))
    command = [sys.executable, "-m", "rlcore.cli.main", "run"]
    with subprocess.Popen([*command, "run.yaml"], cwd=place, stderr=subprocess.DEVNULL) as process:
        saved = place / "results/run/checkpoints"
        until(lambda: process.poll() or (len(server.rows) >= 3 and list(saved.glob("[0-9]*"))), 60)
        process.kill()
    assert process.returncode == -signal.SIGKILL
    before = dict(server.rows)
    steps = max(step for _, _, step in before) + 1000
    more = ["run.yaml", "--resume", "--set", f"behaviors.Pole.max_steps={steps}"]
    subprocess.run([*command, *more], cwd=place, check=True, stderr=subprocess.DEVNULL)
    assert before.keys() <= server.rows.keys()
    assert sorted(step for _, _, step in server.rows) == list(range(500, steps + 1, 500))
