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
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
import yaml
from hostile_inputs import BASE, CANARY
from test_hostile_inputs import MEGABYTES, SECONDS, STEERING, contents

pytestmark = pytest.mark.faults

START = ("run", "c.yaml", "--run-id", "new")
RANK = {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}
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


def settings() -> Iterator[tuple[str, Setting]]:
    """The settings of ``data/hostile_settings.yaml``."""
    for name, entry in yaml.safe_load((Path(__file__).parent / "data/hostile_settings.yaml").read_text()).items():
        if "set" in entry:
            setting = Setting((*START, "--set", f"environment.workers={entry['set']}"), entry["code"], entry["said"])
        elif "variables" in entry:
            setting = Setting(START, entry["code"], entry["said"], RANK | entry["variables"])
        else:
            setting = Setting(tuple(entry["command"]), entry["code"], entry["said"])
        yield name, setting


def cases() -> list[Any]:
    """All settings; without ``--deep`` every eighth."""
    return [
        pytest.param(setting, id=name, marks=[pytest.mark.deep] if number % 8 else [])
        for number, (name, setting) in enumerate(settings())
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
    out_text = (place / "stdout").read_text()
    err_text = (place / "stderr").read_text()
    assert code == setting.code, out_text + err_text
    assert re.search(setting.said, err_text), err_text[:1500]
    assert err_text.startswith("error: ") and err_text.count("\n") == 1 and len(err_text) < 1500, err_text[:3000]
    assert not STEERING.search(out_text + err_text)
    assert contents(tmp_path) == before
    assert seconds < SECONDS and kilobytes / 1024 < MEGABYTES
