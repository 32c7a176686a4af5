"""Measurements in processes of their own, ratios, versions and reports, for all benchmarks.

Run as a script this module is the child: ``python side_by_side.py MODULE:FUNCTION RESULT_FILE`` reads the function's
keyword arguments as JSON from its standard input and writes what it returns, as JSON, to the file.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from importlib import import_module, metadata
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any, TypeVar

import attrs
import click

Measured = TypeVar("Measured")

HERE = Path(__file__).resolve().parent
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")
DISTRIBUTIONS = (
    "rlcore",
    "rlcore-dqn",
    "rlcore-her",
    "rlcore-jax",
    "rlcore-pettingzoo",
    "rlcore-ppo",
    "rlcore-sac",
    "rlcore-td3",
    "stable-baselines3",
    "sb3-contrib",
    "rl_zoo3",
    "tianshou",
    "skrl",
    "torchrl",
    "torch",
    "numpy",
    "gymnasium",
    "gymnasium-robotics",
    "mujoco",
    "ale-py",
    "envpool",
    "minigrid",
    "mpe2",
    "jax",
    "pgx",
    "playground",
    "mujoco-mjx",
)

# Processes that wanted to run in the minute before the benchmark began; far below 1 on an idle machine.
LOAD = round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None

# Exit codes of every benchmark: 0 all targets met, 1 a target missed, 2 a measurement failed.
MISSED = 1


class MeasurementFailed(click.ClickException):
    """There is nothing to compare: a library is missing, or its training raised."""

    exit_code = 2


@attrs.frozen
class Figure:
    """One number that a benchmark prints; ``docs/figures.py`` makes an entry of ``docs/figures.yaml`` of it.

    Attributes:
        what: What was measured, such as ``PPO on CartPole-v1, pinned to one core``.
        value: The number.
        unit: Its unit, such as ``x`` for a ratio, or ``us``.
        against: What a ratio compares with; empty for other numbers.
        target: The number to reach; None without a target.
        smaller: Whether smaller numbers are better.
        detail: Other numbers that are printed beside it.
    """

    what: str
    value: float
    unit: str
    against: str = ""
    target: float | None = None
    smaller: bool = False
    detail: str = ""


def environment_with_threads(count: int = 1) -> dict[str, str]:
    """This process's environment variables, with ``count`` threads for every numerical library."""
    return {**os.environ, **dict.fromkeys(THREAD_VARIABLES, str(count))}


def in_own_process(target: str, *, thread_variables: int = 1, **arguments: Any) -> Any:
    """Call ``"module:function"`` of this directory in a new Python process and return its result.

    ``thread_variables`` is the value of OMP_NUM_THREADS and its kind in the process. Arguments and result are sent as
    JSON. The output of the process is dropped; its errors are shown if it fails.
    """
    with tempfile.TemporaryDirectory() as directory:
        result = Path(directory) / "result.json"
        child = subprocess.run(
            [sys.executable, __file__, target, str(result)],
            input=json.dumps(arguments),
            text=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=environment_with_threads(thread_variables),
            check=False,
        )
        if child.returncode != 0 or not result.exists():
            shown = ", ".join(f"{name}={value}" for name, value in arguments.items())
            raise MeasurementFailed(f"{target}({shown}) ended with status {child.returncode}\n{child.stderr}")
        return json.loads(result.read_text())


def pin_to_one_core() -> None:
    """Keep this process, which must not have started a thread yet, on one core of those it may use."""
    if not hasattr(os, "sched_setaffinity"):
        raise MeasurementFailed("this system cannot keep a process on one core")
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def product_speed() -> float:
    """FLOPs per second of PyTorch's product of two 256 x 256 matrices, in this process: the best of many."""
    import torch

    a = torch.randn(256, 256)
    b = torch.randn(256, 256)
    seconds = []
    for _ in range(200):
        started = perf_counter()
        torch.mm(a, b)
        seconds.append(perf_counter() - started)
    return 2 * 256**3 / min(seconds)


def alternate(names: Sequence[str], rounds: int, measure: Callable[[str], Measured]) -> dict[str, list[Measured]]:
    """``measure(name)`` for all names in turn, ``rounds`` times: a slow minute of the machine meets all of them."""
    measured: dict[str, list[Measured]] = {name: [] for name in names}
    for _ in range(rounds):
        for name in names:
            measured[name].append(measure(name))
    return measured


def pairwise_ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """The median of ours over theirs, each taken in the same round."""
    return median(a / b for a, b in zip(ours, theirs, strict=True))


def circumstances() -> dict[str, Any]:
    """Where, when and with which versions a measurement was made."""
    versions = {}
    for name in DISTRIBUTIONS:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}",
        "processor": processor(),
        "cpus": os.cpu_count(),
        "load": LOAD,
        "versions": versions,
    }


def processor() -> str:
    """The name of this machine's processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Read a file of results, one line of JSON each; without the file, none. A line cut short by a crash is skipped."""
    found = []
    for line in path.read_text().splitlines() if path.exists() else ():
        with suppress(ValueError):
            found.append(json.loads(line))
    return found


def append_line(path: Path, result: Mapping[str, Any]) -> None:
    """Append a result, with where and when it was measured; a single short write, so that lines do not mix."""
    cut_short = path.exists() and path.read_bytes()[-1:] not in (b"", b"\n")  # by a crash
    with path.open("a") as file:
        file.write("\n" * cut_short + json.dumps({**result, **circumstances()}) + "\n")


def shown(value: float) -> str:
    """A return as one reads it: ``1,234``, ``-0.955``."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def write_report(path: Path | None, report: dict[str, Any], figures: Sequence[Figure] = ()) -> None:
    """Writes a benchmark's measurements and figures as JSON, with its command, if a file was asked for."""
    if path is not None:
        cited = {"command": this_command(), "figures": [attrs.asdict(each) for each in figures]}
        path.write_text(json.dumps({**report, **cited, **circumstances()}, indent=2) + "\n")


def this_command() -> str:
    """Return the command of this process as one types it, without ``--json FILE``."""
    words = sys.argv[1:]
    if "--json" in words:
        place = words.index("--json")
        del words[place : place + 2]
    return " ".join(["python", f"benchmarks/{Path(sys.argv[0]).name}", *words])


def _child(target: str, result: Path) -> None:
    module, _, function = target.partition(":")
    arguments = json.load(sys.stdin)
    answer = getattr(import_module(module), function)(**arguments)
    result.write_text(json.dumps(answer))


if __name__ == "__main__":
    _child(sys.argv[1], Path(sys.argv[2]))
