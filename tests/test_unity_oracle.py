"""rlcore-unity sees and sends what ML-Agents' own Python package does, in scripted sessions with the test player.

mlagents-envs is installed in a virtual environment of its own, because its pins exclude this Python.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from made_once import made_once
from unity_oracle import VARIABLES, make_oracle
from unity_player import make_player
from unity_sessions import SESSIONS, Session
from unity_sessions_here import expected, first_difference, journal, play_here

import rlcore_unity.mlagents_messages as ours

pytestmark = pytest.mark.packaging

DRIVER = Path(__file__).parent / "support/unity_oracle.py"
FIELDS = """\
import importlib, json, pkgutil
import mlagents_envs.communicator_objects as package
found = {}
def add(message):
    found[message.name] = [
        [f.number, f.name, f.type, f.label, f.message_type.name if f.message_type else ""] for f in message.fields
    ]
    for nested in message.nested_types:
        add(nested)
for module in pkgutil.iter_modules(package.__path__):
    descriptor = getattr(importlib.import_module(f"{package.__name__}.{module.name}"), "DESCRIPTOR", None)
    for message in descriptor.message_types_by_name.values() if descriptor else ():
        add(message)
print(json.dumps(found))
"""
# types of fields, which protobuf writes alike
INT32 = 5
ENUM = 14


@pytest.fixture
def oracle(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """``oracle("1.1.0")``: a Python with this version of mlagents-envs."""

    def make(version: str) -> Path:
        try:
            key = f"mlagents-envs {version}"
            return made_once(tmp_path_factory, key, lambda path: _make(path, version)) / "venv/bin/python"
        except subprocess.CalledProcessError as error:
            pytest.skip(f"pip cannot install mlagents-envs {version}: {(error.stderr or '').strip()[-300:]}")

    return make


def _make(directory: Path, version: str) -> None:
    make_oracle(directory / "venv", version)


def run(python: Path, *words: str) -> str:
    """Run a program in the oracle; return what it prints."""
    done = subprocess.run(
        [python, *words], env={**os.environ, **VARIABLES}, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def played_there(session: Session, python: Path, player: Path, zeros: int, directory: Path) -> Any:
    """Play the session with ML-Agents, after as many decisions of zeros as rlcore made to count the agents."""
    job = {"session": session.name, "player": str(player), "zeros": zeros, "port": free_port()}
    (directory / "job.json").write_text(json.dumps({**job, "out": str(directory / "out.json")}))
    run(python, str(DRIVER), str(directory / "job.json"))
    return json.loads((directory / "out.json").read_text())


@pytest.mark.parametrize("name", SESSIONS)
def test_a_session_is_the_one_that_mlagents_plays(name: str, oracle: Callable[[str], Path], tmp_path: Path) -> None:
    session = SESSIONS[name]
    python = oracle(session.oracle)
    here = tmp_path / "here"
    there = tmp_path / "there"
    for directory in (here, there):
        directory.mkdir()
    how = {"world": session.world, "package": session.package}
    own = play_here(session, make_player(here, journal=here / "journal", **how), here)
    sent = journal(here / "journal")
    zeros = [line.get("command") for line in sent][2:].index("RESET")
    told = played_there(session, python, make_player(there, journal=there / "journal", **how), zeros, there)
    assert sum(len(agents["decisions"]) for message in told["messages"] for agents in message.values()) > 50
    assert first_difference(own, expected(told, session.resets)) == ""
    # The player got the same commands, actions, parameters and settings of the engine from both.
    ends_alone = len(told["messages"]) - session.exchanges - 1
    assert len(sent) == session.exchanges + 3 + zeros + ends_alone
    assert sent == journal(there / "journal")


def test_the_fields_of_messages_are_those_of_mlagents(oracle: Callable[[str], Path]) -> None:
    theirs = {
        name.removesuffix("Proto"): fields for name, fields in json.loads(run(oracle("1.1.0"), "-c", FIELDS)).items()
    }
    names = {"Capabilities": "UnityRLCapabilities", "InitializationInput": "UnityRLInitializationInput",
             "InitializationOutput": "UnityRLInitializationOutput", "RLInput": "UnityRLInput",
             "RLOutput": "UnityRLOutput"}  # fmt: skip
    compared = 0
    for message in (each for each in vars(ours).values() if hasattr(each, "DESCRIPTOR")):
        name = message.DESCRIPTOR.name
        known = {field[0]: field for field in theirs[names.get(name, name)]}
        for field in message.DESCRIPTOR.fields:
            number, field_name, kind, label, of = known[field.number]
            inner = field.message_type.name if field.message_type else ""
            of = of.removesuffix("Proto")
            assert (field.name, field.type) == (field_name, INT32 if kind == ENUM else kind), (name, number)
            assert names.get(inner, inner) == of and field.is_repeated == (label == 3), (name, number)
            compared += 1
    assert compared > 80
