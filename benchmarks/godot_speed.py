"""How fast a game of Godot steps under rlcore-godot, beside the bare loop of the protocol, in interleaved rounds.

``python benchmarks/godot_speed.py`` needs godot3-server. The game has 8 agents and one physics tick for each decision.
The bare loop sends prepared actions and reads answers without looking at them: what the engine and JSON allow.
"""

from __future__ import annotations

import argparse
import json
import shutil
import socket
import statistics
import struct
import subprocess
import tempfile
from pathlib import Path
from time import perf_counter
from types import SimpleNamespace
from typing import Any

import numpy as np

from rlcore import Actions, EnvSettings, EpisodeSeeds
from rlcore_godot.environment import make_environment
from rlcore_godot.settings import GodotSettings

PROJECT = Path(__file__).parents[1] / "tests/support/godot_project"
AGENTS = 8
GAME = ["--world=reach", f"--agents={AGENTS}", "--action_repeat=1"]


def bare(exchanges: int) -> float:
    """Return the exchanges in a second of a loop that only sends and receives."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        command = ["godot3-server", "--path", str(PROJECT), "--fixed-fps", "60", f"--port={port}", *GAME]
        # In a session of its own, as rlcore starts a game: Linux shares processors between sessions, and on a busy
        # machine two processes of one session answer each other ten times faster.
        silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        with subprocess.Popen(command, start_new_session=True, **silent):
            connection = listener.accept()[0]
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

            def send(message: Any) -> None:
                data = json.dumps(message).encode()
                connection.sendall(struct.pack("<I", len(data)) + data)

            def receive() -> Any:
                (size,) = struct.unpack("<I", connection.recv(4, socket.MSG_WAITALL))
                return json.loads(connection.recv(size, socket.MSG_WAITALL))

            send({"type": "handshake", "major_version": "0", "minor_version": "7"})
            send({"type": "reset"})
            receive()
            action = {"type": "action", "action": [{"move": [0.5, -0.5]}] * AGENTS}
            start = perf_counter()
            for _ in range(exchanges):
                send(action)
                receive()
            seconds = perf_counter() - start
            send({"type": "close"})
    return exchanges / seconds


def adapter(exchanges: int, directory: Path) -> float:
    """Return the steps in a second of the environment."""
    run: Any = SimpleNamespace(
        behavior_names=(), num_envs=1, first_env=0, seed=1, purpose="train", directory=directory,
        working_directory=directory, own_files=lambda *patterns: None,
        config=SimpleNamespace(environment_parameters={}, env_settings=EnvSettings()),
    )  # fmt: skip
    settings = GodotSettings(
        project=str(PROJECT), args=[word for word in GAME if "repeat" not in word], action_repeat=1
    )
    environment = make_environment(settings, run)
    environment.reset(EpisodeSeeds(1), np.zeros(1, np.int64))
    actions = {"reach": Actions(np.tile(np.float32([0.5, -0.5]), (AGENTS, 1)))}
    start = perf_counter()
    for _ in range(exchanges):
        environment.step(actions)
    seconds = perf_counter() - start
    environment.close()
    return exchanges / seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--exchanges", type=int, default=4000)
    words = parser.parse_args()
    if shutil.which("godot3-server") is None:
        parser.error("godot3-server is not installed (apt install godot3-server)")
    rates: dict[str, list[float]] = {"bare loop": [], "rlcore-godot": []}
    with tempfile.TemporaryDirectory() as directory:
        for _ in range(words.rounds):
            rates["bare loop"].append(bare(words.exchanges))
            rates["rlcore-godot"].append(adapter(words.exchanges, Path(directory)))
    for name, found in rates.items():
        middle = statistics.median(found)
        print(
            f"{name:12}  {middle:7.0f} exchanges/s  {AGENTS * middle:8.0f} agent steps/s  "
            f"(rounds {min(found):.0f} to {max(found):.0f})"
        )


if __name__ == "__main__":
    main()
