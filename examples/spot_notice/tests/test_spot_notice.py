"""A metadata server on 127.0.0.1: no notice, a notice, none that answers, one that is slow, and one with tokens."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from rlcore import Run, find_checkpoints
from rlcore_devkit import PluginConformance, TinyCorridor, learn

__all__ = ["TinyCorridor", "learn"]

ACTION = '{"action": "terminate", "time": "2026-11-29T18:30:00Z"}'


@pytest.mark.smoke
class TestPlugin(PluginConformance):
    plugin = "spot-notice"


class Metadata:
    """A metadata service: answers 404 until there is a ``notice``."""

    def __init__(self) -> None:
        self.notice = ""
        self.token = ""  # that questions need, if there is one
        self.delay = 0.0
        self.asked: list[str] = []
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_PUT(self) -> None:
                self._answer(200, service.token)

            def do_GET(self) -> None:
                service.asked.append(self.path)
                time.sleep(service.delay)
                if service.token and self.headers.get("X-aws-ec2-metadata-token") != service.token:
                    self._answer(401, "")
                elif service.notice:
                    self._answer(200, service.notice)
                else:
                    self._answer(404, "")

            def _answer(self, code: int, text: str) -> None:
                self.send_response(code)
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def metadata() -> Iterator[Metadata]:
    service = Metadata()
    yield service
    service.server.shutdown()
    service.server.server_close()


def config(place: Path, url: str, max_steps: int = 10_000_000, **notice: Any) -> dict[str, Any]:
    return {
        "environment": {"type": "gymnasium", "id": "CartPole-v1", "num_envs": 2},
        "env_settings": {"seed": 1},
        "behaviors": {
            "CartPole": {
                "trainer_type": "ppo",
                "hyperparameters": {"batch_size": 64, "buffer_size": 128},
                "network_settings": {"hidden_units": 8, "num_layers": 1},
                "max_steps": max_steps,
                "summary_freq": 256,
                "checkpoint_interval": 10_000_000,
            }
        },
        "checkpoint_settings": {"run_id": "run", "results_dir": str(place), "resume": "auto"},
        "stats": {"console": False, "tensorboard": False},
        "spot_notice": {"url": url, "seconds": 0.1, **notice},
    }


@pytest.mark.parametrize("token", ["", "secret"])
def test_a_notice_saves_a_checkpoint_and_ends_the_run_with_its_exit_code(
    metadata: Metadata, tmp_path: Path, token: str
) -> None:
    metadata.token = token
    notice = {"token_url": f"{metadata.address}/token"} if token else {}
    settings = config(tmp_path, f"{metadata.address}/spot/instance-action", **notice)
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(settings))
    words = [sys.executable, "-m", "rlcore", "run", "run.yaml"]
    process = subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 120
    while len(metadata.asked) < 3:  # none of these answers ends the run
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.05)
    metadata.notice = ACTION
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 143, errors
    assert f"spot-notice: the machine is taken away: {ACTION}" in errors
    assert "resume with: rlcore run --resume" in output
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert result["outcome"] == "interrupted"
    assert result["stop"] == {"reason": f"the machine is taken away: {ACTION}", "exit_code": 143}
    (saved,) = find_checkpoints(tmp_path / "run" / "checkpoints")
    assert saved.step == result["behaviors"]["CartPole"]["steps"]


def test_only_the_text_of_a_notice_ends_a_run(metadata: Metadata, tmp_path: Path) -> None:
    """Google Cloud answers FALSE before, with code 200."""
    metadata.notice = "FALSE"
    run = Run(config(tmp_path, metadata.address, notice="TRUE", exit_code=0))
    with run:
        for epoch in run:
            if epoch.epoch == 3:
                break
        deadline = time.monotonic() + 60
        while len(metadata.asked) < 3:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert run.stop is None
        metadata.notice = "TRUE"
        run.train()
    assert run.outcome == "interrupted" and run.stop is not None and run.stop.exit_code == 0


@pytest.mark.parametrize("problem", ["no server", "slow", "no address"])
def test_a_service_that_does_not_answer_costs_a_warning_and_no_step(
    metadata: Metadata, tmp_path: Path, problem: str, caplog: pytest.LogCaptureFixture
) -> None:
    url = {"no server": "http://127.0.0.1:9", "slow": metadata.address, "no address": "spot"}[problem]
    metadata.delay = 10.0
    run = Run(config(tmp_path, url, max_steps=4096))
    run.start()
    time.sleep(3.0)  # the longest wait for an answer is over
    begun = time.monotonic()
    run.train()
    assert run.outcome == "done" and time.monotonic() - begun < 60
    warnings = [message for message in caplog.messages if "does not answer" in message]
    assert len(warnings) == 1 and warnings[0].startswith(f"{url} does not answer (")


def test_without_its_block_nothing_is_asked(tmp_path: Path) -> None:
    settings = config(tmp_path, "", max_steps=256)
    del settings["spot_notice"]
    before = threading.active_count()
    with Run(settings) as run:
        run.start()
        assert threading.active_count() == before
        run.train()
