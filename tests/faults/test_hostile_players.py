"""Hostile players: a run that starts one does no harm.

Each is played by ``rlcore run`` in a process of its own, with its folders for temporary and personal files beside the
run. Whatever the player sends, nothing listens beyond this host, no file is written that an honest player's run does
not write, the memory stays that of an honest player's run, and there is one message.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import attrs
import psutil
import pytest
import yaml
from godot_worlds import PLAYER
from test_hostile_inputs import STEERING
from test_hostile_settings import MEASURING
from unity_player import make_player

pytestmark = pytest.mark.faults

IN_ORDER = ("steering@20",)  # the player says that the session is over
CASES: dict[str, dict[str, str]] = yaml.safe_load(
    (Path(__file__).parent / "data/hostile_players.yaml").read_text("utf-8")
)
MORE_MEGABYTES = 150.0  # than an honest player's run; a message may have 16
START_SECONDS = 20
SECONDS = 180.0
CONFIG: dict[str, Any] = {
    "default_settings": {
        "trainer_type": "ppo",
        "hyperparameters": {"batch_size": 64, "buffer_size": 128},
        "network_settings": {"hidden_units": 16, "num_layers": 1, "vis_encode_type": "fully_connected"},
        "max_steps": 256,
        "summary_freq": 128,
    },
    "env_settings": {"seed": 1, "timeout_wait": START_SECONDS, "max_lifetime_restarts": 0},
}


@attrs.frozen
class Played:
    """The end of a run, and its traces on the machine.

    Attributes:
        code: Its exit code.
        out, err: What it printed.
        megabytes: The most memory that it had.
        listened: Addresses at which it listened.
        written: Files that are there now, relative to the folder that all are in, without those of the run.
    """

    code: int
    out: str
    err: str
    megabytes: float
    listened: frozenset[str]
    written: frozenset[str]


def play(engine: str, fault: str, place: Path) -> Played:
    """Run the game of ``engine`` with this fault, or an honest one without a fault, in the empty folder ``place``."""
    for name in ("work", "home", "temporary"):
        (place / name).mkdir(parents=True)
    if engine == "unity":
        options = {"fault": fault} if fault else {}
        player = make_player(place / "work", "Player.x86_64", world="continuous", agents=3, **options)
        environment: dict[str, Any] = {"type": "unity", "executable": player.name}
    else:
        args = [f"--fault={fault}", "--at=20"] if fault else []
        environment = {"type": "godot", "executable": str(PLAYER), "args": args}
    document = {**CONFIG, "environment": {**environment, "max_message_mb": 16}}
    (place / "work/c.yaml").write_text(yaml.safe_dump(document), encoding="utf-8")
    own = {"HOME": str(place / "home"), "TMPDIR": str(place / "temporary"), "XDG_CACHE_HOME": str(place / "home/cache")}
    with (place / "out").open("w") as out, (place / "err").open("w") as err:
        process = subprocess.Popen(
            [sys.executable, "-S", "-c", MEASURING, str(out.fileno()), sys.executable, "-m", "rlcore", "run", "c.yaml",
             "--run-id", "x"],
            cwd=place / "work", env=os.environ | own, stdout=subprocess.PIPE, stderr=err, pass_fds=(out.fileno(),),
        )  # fmt: skip
        listened = set()
        deadline = time.monotonic() + SECONDS
        while process.poll() is None:
            listened |= listening(process.pid)
            if time.monotonic() > deadline:
                for each in (*psutil.Process(process.pid).children(recursive=True), process):
                    each.kill()
                pytest.fail(f"still runs after {SECONDS:.0f} s: {(place / 'err').read_text()[-1000:]}")
            time.sleep(0.03)
        measured, _ = process.communicate()
    code, _, kilobytes = json.loads(measured)
    files = (str(path.relative_to(place)) for path in place.rglob("*"))
    return Played(
        code, (place / "out").read_text(), (place / "err").read_text(), kilobytes / 1024, frozenset(listened),
        frozenset(each for each in files if not each.startswith("work/results/x/")),
    )  # fmt: skip


def listening(pid: int) -> set[str]:
    """The addresses at which a process and those that it started listen."""
    found: set[str] = set()
    try:
        for each in psutil.Process(pid).children(recursive=True):
            found |= {each.laddr.ip for each in each.net_connections() if each.status == psutil.CONN_LISTEN}
    except psutil.Error:  # it has just ended
        pass
    return found


def is_of_this_host(address: str) -> bool:
    parsed = ip_address(address)
    return (getattr(parsed, "ipv4_mapped", None) or parsed).is_loopback


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Played]:
    """The runs of players that do nothing wrong."""
    played = {engine: play(engine, "", tmp_path_factory.mktemp("honest") / engine) for engine in CASES}
    for each in played.values():
        assert each.code == 0 and "done: " in each.out, each.out + each.err
    return played


@pytest.mark.parametrize(("engine", "fault"), [(engine, fault) for engine, faults in CASES.items() for fault in faults])
def test_a_hostile_player_does_no_harm(engine: str, fault: str, honest: dict[str, Played], tmp_path: Path) -> None:
    played = play(engine, fault, tmp_path / "place")
    said = CASES[engine][fault]
    assert played.listened and all(map(is_of_this_host, played.listened)), played.listened
    assert played.written <= honest[engine].written
    assert not Path("/tmp/escaped").exists() and [*tmp_path.iterdir()] == [tmp_path / "place"]
    assert played.megabytes < honest[engine].megabytes + MORE_MEGABYTES
    assert not STEERING.search(played.out + played.err) and "Traceback" not in played.out + played.err
    errors = [line for line in played.err.splitlines() if line.startswith("error: ")]
    if fault in IN_ORDER:
        assert played.code == 0 and not errors and re.search(said, played.out), played.out + played.err
    elif said:
        assert played.code == 3, played.out + played.err
        assert len(errors) == 1 and played.err.endswith(f"{errors[0]}\n") and len(errors[0]) < 1500
        assert re.search(said, errors[0]), errors[0]
    else:
        assert played.code == 0 and not errors and "done: " in played.out, played.err
