"""Hostile settings of workers, ranks and Ray, and names of checkpoints: each in a Python started for it.

Its start counts. A refused setting costs one line, at most two seconds of processor time and 500 MB, and touches
nothing.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest
from hostile_inputs import BASE, CANARY
from test_hostile_inputs import MEGABYTES, SECONDS, STEERING, contents

pytestmark = pytest.mark.faults

START = ("run", "c.yaml", "--run-id", "new")
RESUME = ("run", "--resume", "--run-id", "run", "--checkpoint")
RANK = {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}
ESCAPE = "\x1b]0;owned\x07[red]"
# The most memory of a process includes what its parent had when it was started: a small program starts the command.
MEASURING = """
import json, os, sys
actions = [(os.POSIX_SPAWN_DUP2, int(sys.argv[1]), 1)]
_, status, cost = os.wait4(os.posix_spawn(sys.argv[2], sys.argv[2:], os.environ, file_actions=actions), 0)
print(json.dumps([os.waitstatus_to_exitcode(status), cost.ru_utime + cost.ru_stime, cost.ru_maxrss]))
"""


@attrs.frozen
class Setting:
    """A command, variables of its environment, its exit code, and what it must say."""

    argv: tuple[str, ...]
    code: int
    said: str
    environ: dict[str, str] = attrs.field(factory=dict)


def workers(value: str, said: str) -> Setting:
    return Setting((*START, "--set", f"environment.workers={value}"), 2, said)


def rank(said: str, **variables: str) -> Setting:
    return Setting(START, 2, said, RANK | variables)


def ray(block: str, said: str) -> Setting:
    return workers(f"{{executor: ray, count: 2, {block}}}", said)


SETTINGS = {
    "workers: -1": workers("-1", "must be from 1 to 1024, not -1"),
    "workers: a billion": workers("1000000000", "must be from 1 to 1024"),
    "workers: many digits": workers("9" * 5_000, "must be"),
    "workers: a list": workers("[1, 2]", "must be a whole number or a mapping"),
    "workers: a module as executor": workers("{count: 2, executor: 'os:system'}", "unknown executor 'os:system'"),
    "workers: the canary as executor": workers("{count: 2, executor: canary}", "unknown executor 'canary'"),
    "workers: an escape as executor": workers(f"{{count: 2, executor: '{ESCAPE}'}}", "plain YAML|unknown executor"),
    "workers: a deadline before now": workers("{count: 2, step_timeout: -1}", "step_timeout: must be greater than 0"),
    "workers: a deadline that is not a number": workers("{count: 2, step_timeout: .nan}", "must be a finite number"),
    "workers: more needed than there are": workers("{count: 2, min_workers: 5}", "min_workers: is 5, and count 2"),
    "workers: an unknown key": workers("{count: 2, command: touch RAN}", r"workers\.command: unknown key"),
    "rank: a text": rank("RANK is 'evil'", RANK="evil"),
    "rank: a digit that is none": rank("RANK is '²'", RANK="²"),
    "rank: beyond the last": rank("RANK is 7, and WORLD_SIZE 2", RANK="7"),
    "rank: of -1": rank("WORLD_SIZE is '-1'", WORLD_SIZE="-1"),
    "rank: of none": rank("WORLD_SIZE 0", WORLD_SIZE="0"),
    "rank: many digits": rank("WORLD_SIZE is '999", WORLD_SIZE="9" * 100_000),
    "rank: on no device": rank("LOCAL_RANK is 999", LOCAL_RANK="999"),
    "rank: a port of text": rank("MASTER_PORT is '29500; touch RAN'", MASTER_PORT="29500; touch RAN"),
    "rank: a port too far": rank("the largest port is 65535", MASTER_PORT="99999"),
    "rank: a host that is a command": rank("MASTER_ADDR is", MASTER_ADDR="$(touch RAN)"),
    "rank: a host that is an escape": rank("MASTER_ADDR is", MASTER_ADDR=ESCAPE),
    "rank: a million ranks": rank("torchrun started 1000000 ranks", WORLD_SIZE="1000000"),
    "ray: an address of Ray Client": ray("address: 'ray://203.0.113.9:1'", "must not be an address of Ray Client"),
    "ray: an address that is a command": ray("address: 'x; touch RAN:1'", "must be HOST:PORT"),
    "ray: a port too far": ray("address: '127.0.0.1:99999'", "must be HOST:PORT"),
    "ray: an address of a file": ray("address: 'file:///etc/passwd'", "must be HOST:PORT"),
    "ray: open to all": ray("bind: 0.0.0.0", "would let other machines reach Ray"),
    "ray: bound to a command": ray("bind: '127.0.0.1; touch RAN', allow_public_bind: true", "must be an address"),
    "ray: less than nothing": ray("resources: {a: -1}", "amounts of 0 or more"),
    "ray: infinite processors": ray("cpus: .inf", "must be a finite number"),
    "checkpoint: above": Setting((*RESUME, "../../x"), 5, "there is no checkpoint '../../x'"),
    "checkpoint: an absolute path": Setting((*RESUME, "/dev/zero"), 5, "there is no checkpoint '/dev/zero'"),
    "checkpoint: -5": Setting((*RESUME, "-5"), 5, "there is no checkpoint '-5'"),
    "checkpoint: many digits": Setting((*RESUME, "9" * 5_000), 5, "there is no checkpoint '999"),
    "checkpoint: an escape": Setting((*RESUME, ESCAPE), 5, "there is no checkpoint"),
    "checkpoints: list a device": Setting(("checkpoints", "list", "/dev/zero"), 5, "neither a run directory nor"),
    "checkpoints: verify above": Setting(("checkpoints", "verify", "../../etc"), 5, "neither a run directory nor"),
    "checkpoints: prune a system": Setting(("checkpoints", "prune", "/etc", "--keep", "1"), 5, "neither a run dir"),
    "checkpoints: prune what is beside": Setting(
        ("checkpoints", "prune", "../outside", "--keep", "1"), 5, "neither a run directory nor"
    ),
}


def cases() -> list[Any]:
    """All settings; without ``--deep`` every eighth."""
    return [
        pytest.param(setting, id=name, marks=[pytest.mark.deep] if number % 8 else [])
        for number, (name, setting) in enumerate(SETTINGS.items())
    ]


@pytest.mark.parametrize("setting", cases())
def test_a_hostile_setting_ends_soon_in_bounds_in_a_line_and_runs_nothing(
    setting: Setting, whole_run: Callable[..., Any], tmp_path: Path
) -> None:
    place = tmp_path / "place"
    shutil.copytree(whole_run(max_steps=512, checkpoint_interval=256).run, place / "results" / "run")
    (place / "canary.py").write_text(CANARY)
    (place / "c.yaml").write_text(BASE)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text("secret")
    before = contents(tmp_path)
    environ = {key: value for key, value in os.environ.items() if not key.startswith("RLCORE_")} | setting.environ
    argv = [sys.executable, "-m", "rlcore", *setting.argv]
    with (place / "stdout").open("w") as out, (place / "stderr").open("w") as err:
        process = subprocess.Popen(
            [sys.executable, "-S", "-c", MEASURING, str(out.fileno()), *argv],
            cwd=place,
            env=environ,
            stdout=subprocess.PIPE,
            stderr=err,
            pass_fds=(out.fileno(),),
            start_new_session=True,
        )
        try:
            measured, _ = process.communicate()  # pytest-timeout ends a command that does not
        finally:
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    code, seconds, kilobytes = json.loads(measured)
    out_text, err_text = (place / "stdout").read_text(), (place / "stderr").read_text()
    assert code == setting.code, out_text + err_text
    assert re.search(setting.said, err_text), err_text[:1500]
    assert err_text.startswith("error: ") and err_text.count("\n") == 1 and len(err_text) < 1500, err_text[:3000]
    assert not STEERING.search(out_text + err_text)
    assert contents(tmp_path) == before
    assert seconds < SECONDS and kilobytes / 1024 < MEGABYTES
