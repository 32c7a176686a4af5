"""A real HTTP server, and runs in a directory of their own.

Needs this package, `rlcore-torch`, `rlcore-ppo`, `rlcore-gymnasium`, `rlcore-curriculum` and pytest installed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from copy import deepcopy
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
import yaml

from rlcore_devkit import CommandResult, RunRlcore


@pytest.fixture(scope="session")
def short_run() -> dict[str, Any]:
    """A short run that follows the rules; tests change copies."""
    return {
        "preset": "none",
        "environment": {"type": "gymnasium", "id": "CartPole-v1", "num_envs": 4},
        "env_settings": {"seed": 3},
        "behaviors": {
            "Pole": {
                "trainer_type": "ppo",
                "hyperparameters": {"batch_size": 64, "buffer_size": 256},
                "network_settings": {"hidden_units": 8, "num_layers": 1},
                "max_steps": 2000,
                "summary_freq": 500,
                "checkpoint_interval": 500,
            }
        },
        "acme": {"owner": "ann@acme.example"},
        "checkpoint_settings": {"run_id": "run"},
        "stats": {"console": False},
    }


@pytest.fixture
def config(short_run: dict[str, Any]) -> dict[str, Any]:
    return deepcopy(short_run)


class Server(ThreadingHTTPServer):
    """Answers every request with ``answer``, once ``open`` is set, and keeps what it received."""

    daemon_threads = True

    def __init__(self, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.answer = 200
        self.open = Event()
        self.open.set()
        self.batches: list[list[dict[str, Any]]] = []  # accepted POST requests
        self.files: dict[str, bytes] = {}  # accepted PUT requests, by path, in their order
        self.requests: list[tuple[str, str, str | None]] = []  # method, path and authorization of all requests
        self.url = f"http://127.0.0.1:{self.server_address[1]}"

    @property
    def rows(self) -> dict[tuple[str, str, int], dict[str, float]]:
        """The last summary for each run, behavior and step."""
        return {(row["run"], row["behavior"], row["step"]): row["stats"] for batch in self.batches for row in batch}


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.requests.append((self.command, self.path, self.headers["Authorization"]))
        self.server.open.wait(60)
        if self.server.answer < 300 and self.command == "POST":
            self.server.batches.append(json.loads(body))
        elif self.server.answer < 300:
            self.server.files[self.path] = body
        self.send_response(self.server.answer)
        if 300 <= self.server.answer < 400:
            self.send_header("Location", f"{self.server.url}/elsewhere")
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_PUT = do_GET = do_POST

    def log_message(self, format: str, *values: object) -> None:
        pass


@pytest.fixture
def place(run_rlcore: RunRlcore, tmp_path: Path) -> Path:
    """The working directory of ``run_rlcore``."""
    return tmp_path / "working"


@pytest.fixture
def train(run_rlcore: RunRlcore, place: Path, config: dict[str, Any]) -> Callable[..., CommandResult]:
    """``train("--resume", acme={"upload_to": "copies"})``: a run of ``config`` with other blocks."""

    def run(*words: str, **blocks: Any) -> CommandResult:
        changed = {name: {**config.get(name, {}), **block} for name, block in blocks.items()}
        (place / "run.yaml").write_text(yaml.safe_dump({**config, **changed}))
        return run_rlcore("run", "run.yaml", *words)

    return run


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        thread = Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield server
        server.open.set()
        server.shutdown()
        thread.join()
