"""Unity players that misbehave, each in a process of its own: one message within its deadline, and nothing is left.

``tests/support/unity_faults.py`` describes each misbehavior.
"""

from __future__ import annotations

import re
import time
from pathlib import Path

import numpy as np
import psutil
import pytest
from unity_faults import FAULTS
from unity_games import drawn_actions, make_game

from rlcore import EnvironmentEnded, EnvironmentFailed, EnvSettings, EpisodeSeeds

pytestmark = pytest.mark.faults

# Seconds: short ones for misbehaviors that only a limit ends, and others that a busy machine keeps.
START = 20.0
STEP = 5.0
LONG_START = 120.0
LONG_STEP = 60.0
DEADLINE = 180.0
ENDED_BY_A_LIMIT = ("never-connects", "half-handshake", "hangs-handshake", "not-http", "hangs", "stops")
PLAYS_ON = ""

# What the error of the environment says; nothing where play goes on.
SAYS = {
    "exits": r"ended with exit code 3 in its start.*Failed to load Player_Data/globalgamemanagers: No such file",
    "exits-silently": r"ended with exit code 0 in its start",
    "crashes-at-start": r"was killed by SIGABRT in its start.*Game::Explode\(\)",
    "never-connects": r"did not finish its start within 20 s \(env_settings.timeout_wait\)",
    "half-handshake": r"did not finish its start within 20 s \(env_settings.timeout_wait\)",
    "hangs-handshake": r"did not finish its start within \d+ s \(env_settings.timeout_wait\)",
    "wrong-version": r"speaks version 2.0.0 of ML-Agents' protocol, and rlcore speaks 1.5.0; build the player with",
    "no-version": r"speaks version none of ML-Agents' protocol",
    "wrong-order": r"speaks version none|began with another message",
    "shakes-twice": PLAYS_ON,
    "second-player": PLAYS_ON,
    "not-http": r"did not finish its start within 20 s",
    "hangs": r"did not finish a step within 5 s \(environment.timeout\)",
    "stops": r"did not finish a step within 5 s \(environment.timeout\)",
    "dies": r"was killed by SIGKILL in a step",
    "crashes": r"was killed by SIGABRT in a step.*Game::Explode\(\)",
    "leaves": r"was closed in a step",
    "quits": r"ended the session",
    "garbage": r"sent 501 bytes that are no message of ML-Agents",
    "half": r"sent \d+ bytes that are no message of ML-Agents",
    "empty": r"sent a message with the status 0",
    "large": r"sent a message of 17 MB in a step; environment.max_message_mb allows 16",
    "gigabytes": r"in a step.*The server has closed the connection with the message of 2 GB",
    "slow": PLAYS_ON,
    "children": r"was killed by SIGKILL in a step",
    "floods": PLAYS_ON,
    "nan": PLAYS_ON,  # rlcore itself compares numbers, of all environments
    "infinite": PLAYS_ON,
    "huge-image": r"has shape \[3, 100000, 100000\] instead of \[1\]",
    "png-bomb": r"has shape \[3, 30000, 30000\] instead of \[1\]",
    "bad-png": r"has shape \[3, 4, 4\] instead of \[1\]",
    "wrong-size": r"has 4 numbers where its shape \[1\] needs others",
    "negative-shape": PLAYS_ON,  # with the right number of values
    "other-shape": r"has shape \[4\] instead of \[1\]",
    "missing-sensor": r"observation 'observation' is missing",
    "wrong-mask": PLAYS_ON,  # a mask of real actions is not read
    "same-ids": r"lists an agent twice in one message",
    "stranger": r"has agents of a behavior 'Stranger' that it did not describe",
    "huge-actions": r"has branches of 2147483647 options",
    "negative-actions": r"has -1 real actions",
    "no-actions": r"its agents have no actions; give them one",
    "path-names": r"a behavior's name is 1 to 100 letters",
    "absolute-names": r"in a step",  # a behavior tmpescaped, whose agents this player does not know as such
    "odd-names": r"in a step",
    "long-names": r"a behavior's name is 1 to 100 letters",
    "many-behaviors": r"has agents of a behavior 'Behavior\d+' that it did not describe",
    "many-agents": r"has 200003 agents in one message; 100000 are allowed",
    "bad-channel": r"sent a damaged message of a side channel: .* has 2147483647 bytes, but 3 are left",
    "unknown-channel": r"sent a damaged message of a side channel",
    "path-statistics": PLAYS_ON,
    "many-statistics": PLAYS_ON,
    "steering": r"ended the session \(\?\[2J\?\[1;1Hdone: 1000000 steps",
    "stays": PLAYS_ON,
    "lingers": PLAYS_ON,
}
IN_ORDER = ("leaves", "quits", "steering")  # ends that are no failures
AT_FIRST = ("wrong-version", "no-version", "wrong-order", "shakes-twice", "hangs-handshake")


def test_every_misbehavior_has_its_message() -> None:
    assert SAYS.keys() == set(FAULTS)


@pytest.mark.parametrize("fault", SAYS)
def test_a_player_that_misbehaves(fault: str, tmp_path: Path) -> None:
    """The places for agents are counted in the first decisions; the faults come after that."""
    started = time.monotonic()
    said = PLAYS_ON
    game = None
    caught = None
    exchange = "" if fault in AT_FIRST else "@20"
    seconds = (START, STEP) if fault in ENDED_BY_A_LIMIT else (LONG_START, LONG_STEP)
    limits = EnvSettings(max_lifetime_restarts=0)
    settings = {"max_message_mb": 16}
    try:
        game = make_game(
            tmp_path, world="continuous", agents=3, fault=fault + exchange, start_seconds=seconds[0],
            step_seconds=seconds[1],
            limits=limits, settings=settings,
        )  # fmt: skip
        spec = game.behaviors["Reach"]
        generator = np.random.default_rng(0)
        batch = game.reset(EpisodeSeeds(0), np.zeros(1, np.int64))["Reach"]
        for _ in range(12):
            batch = game.step({"Reach": drawn_actions(spec, batch, generator)})["Reach"]
    except EnvironmentFailed as error:
        said = str(error)
        caught = error
    finally:
        if game is not None:
            game.close()
    assert time.monotonic() - started < DEADLINE
    assert "\n" not in said
    if SAYS[fault]:
        assert ("Player.x86_64 failed in " in said) == (fault not in IN_ORDER)
        assert isinstance(caught, EnvironmentEnded) == (fault in IN_ORDER)
        assert re.search(SAYS[fault], said), said
    else:
        assert said == PLAYS_ON
    assert psutil.Process().children(recursive=True) == []
    assert not Path("/tmp/escaped").exists() and not (tmp_path.parent / "escaped").exists()
