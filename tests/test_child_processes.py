"""No process of rlcore runs code because it lies in the working directory; what a configuration names comes by path."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rank_training import torchrun
from workspace import MEMBERS, ROOT

from rlcore_zoo.trainings import _rlcore

PROGRAM = Path(sys.executable).with_name("rlcore")
# The one function, and the guard of an EndingProcess: a file that is started with -I, which implies -P.
MAY_NAME_PYTHON = {"rlcore/plugins/processes.py", "rlcore_workers/ending_process.py"}
STARTS = {
    "multiprocessing": {"Process", "Pool", "get_context", "Manager", "set_start_method", "set_executable"},
    "concurrent.futures": {"ProcessPoolExecutor"},
    "concurrent.futures.process": {"ProcessPoolExecutor"},
    "torch.multiprocessing": {"spawn", "Process", "Pool", "get_context", "start_processes"},
}
OF_OS = ("exec", "spawn", "posix_spawn", "popen", "system", "startfile")


def starts(tree: ast.Module) -> Iterator[str]:
    """The places of a module that may start a process of Python by themselves."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            owner = ast.unparse(node.value)
            if (owner, node.attr) in (("sys", "executable"), ("sys", "_base_executable")):
                yield f"line {node.lineno}: sys.{node.attr}"
            elif owner == "os" and node.attr.startswith(OF_OS):
                yield f"line {node.lineno}: os.{node.attr}"
            elif node.attr in STARTS.get(owner, ()):
                yield f"line {node.lineno}: {owner}.{node.attr}"
        elif isinstance(node, ast.ImportFrom):
            named = {each.name for each in node.names}
            for name in named & STARTS.get(node.module or "", set()) | named & {"executable"}:
                yield f"line {node.lineno}: from {node.module} import {name}"
        elif isinstance(node, ast.Constant) and node.value in ("python", "python3"):
            yield f"line {node.lineno}: {node.value!r}"


def test_one_function_starts_every_process_of_python() -> None:
    found = {
        f"{path.relative_to(member.package.parent).as_posix()}: {place}"
        for member in MEMBERS
        for path in member.package.rglob("*.py")
        if path.relative_to(member.package.parent).as_posix() not in MAY_NAME_PYTHON
        for place in starts(ast.parse(path.read_text(encoding="utf-8")))
    }
    assert not found, "use rlcore.python_command"
    guard = (ROOT / "plugins/workers/src/rlcore_workers/ending_process.py").read_text(encoding="utf-8")
    assert guard.count("sys.executable") == 1 and '[sys.executable, "-I",' in guard


@pytest.mark.parametrize(
    "text",
    ["subprocess.run([sys.executable, '-m', 'x'])", "from sys import executable", "multiprocessing.Process(target=f)",
     "from concurrent.futures import ProcessPoolExecutor", "os.execv(a, b)", "['python', '-m', 'x']"],
)  # fmt: skip
def test_other_ways_are_found(text: str) -> None:
    assert list(starts(ast.parse(text)))


# ------------------------------------------------------------ commands in a directory with a module of Python's own

ENVIRONMENT = """
import gymnasium
from gymnasium.envs.classic_control import CartPoleEnv

gymnasium.register("Mine-v0", CartPoleEnv, max_episode_steps=50)
"""
HOOKS = """
from tracked_runs import FileTracker  # a tracker whose store is a file

from rlcore_trackers.hooks import TrackerSpec, hooks_of, make_writer


class Lake(FileTracker):
    pass


def create(settings, run):
    return make_writer(SPEC, settings, run)


SPEC = TrackerSpec(
    name="lake", target="hooks:create", settings="rlcore_trackers.settings:TrackerSettings", tracker="hooks:Lake"
)
rlcore_stats_writers, rlcore_checkpoint_saved, rlcore_run_finished = hooks_of(SPEC)
"""
STUBS = str(ROOT / "core/tests/run/stub_plugin.py")
STEPS = {"max_steps": 256, "summary_freq": 128}
CONFIG: dict[str, Any] = {
    "preset": "none",
    "environment": {"type": "gymnasium", "id": "mine:Mine-v0", "num_envs": 2},
    # Processes cost less without PyTorch, of which none of this depends.
    "behaviors": {"Pole": {"trainer_type": "numpy", **STEPS, "hyperparameters": {"buffer_size": 128}}},
    "plugins": {
        "local": ["hooks.py", STUBS],
        "autoload": False,
        "enable": ["gymnasium", "report", "study", "sweep", "workers"],
    },
    "checkpoint_settings": {"run_id": "r"},
    "stats": {"console": False, "lake": {}},
}
REPORTED = {**CONFIG["stats"], "lake": {"report": True}}
SMALL = {"buffer_size": 128, "batch_size": 64, "num_epoch": 1}
IN_RANKS = {
    "plugins": {"local": ["hooks.py"]},
    "stats": {**CONFIG["stats"], "tensorboard": False},
    "behaviors": {"Pole": {"trainer_type": "ppo", **STEPS, "hyperparameters": SMALL}},
}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of a configuration, its local plugin and its environment; whoever imports ``types`` is noted."""
    (tmp_path / "types.py").write_text(f"open({str(tmp_path / 'hit')!r}, 'a').write('x')\nraise SystemExit('hit')")
    (tmp_path / "mine.py").write_text(ENVIRONMENT)
    (tmp_path / "hooks.py").write_text(HOOKS)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT / "tests/support")]))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def rlcore(place: Path, *words: str, **blocks: Any) -> subprocess.CompletedProcess[str]:
    """Run the program ``rlcore`` as a terminal does."""
    (place / "config.yaml").write_text(json.dumps(CONFIG | blocks))
    ended = subprocess.run([PROGRAM, *words], cwd=place, capture_output=True, text=True, timeout=200, check=False)
    assert ended.returncode == 0, ended.stderr + ended.stdout
    assert not (place / "hit").exists(), ended.stderr
    return ended


def stored(run: Path) -> list[str]:
    return (run / "store").read_text().splitlines()


def about(run: Path) -> dict[str, str]:
    """How the tracker names and groups a run."""
    found: dict[str, str] = json.loads((run / "about").read_text())
    return found


@pytest.mark.distributed
def test_a_run_with_workers_and_a_tracker_and_what_it_reports(place: Path) -> None:
    workers = CONFIG["environment"] | {"workers": {"count": 2}}
    ended = rlcore(place, "run", "config.yaml", environment=workers, stats=REPORTED)
    assert stored(place / "results/r") == ["Pole 128", "Pole 256"]
    assert "report 256 report.html" in (place / "results/r/kept").read_text().splitlines()
    assert "warning" not in ended.stderr


@pytest.mark.distributed
def test_seeds(place: Path) -> None:
    rlcore(place, "run", "config.yaml", "--seeds", "1-2")
    for seed in ("1", "2"):
        run = place / f"results/r-seed-{seed}"
        assert stored(run) == ["Pole 128", "Pole 256"]
        assert about(run) == {"name": run.name, "group": "r", "seed": seed}


def test_a_sweep(place: Path) -> None:
    sweep = {"trials": 1, "parameters": {"behaviors.Pole.hyperparameters.width": {"low": 2, "high": 4}}}
    evaluation = {"interval": 128, "episodes": 2}
    rlcore(place, "sweep", "config.yaml", "--run-id", "s", sweep=sweep, evaluation=evaluation)
    (run,) = (place / "results/s/trial-0000").glob("seed-?")
    assert stored(run) == ["Pole 128", "Pole 256"]
    seed = run.name.removeprefix("seed-")
    assert about(run) == {"name": f"s-trial-0000-{run.name}", "group": "s", "trial": "0", "seed": seed}


@pytest.mark.distributed
def test_ranks(place: Path) -> None:
    (place / "config.yaml").write_text(json.dumps(CONFIG | IN_RANKS))
    ended = torchrun(["--no-python", PROGRAM, "run", "config.yaml"], place, PYTHONSAFEPATH="1")
    assert ended.returncode == 0, ended.stderr
    assert not (place / "hit").exists()
    assert stored(place / "results/r") == ["Pole 128", "Pole 256"]


@pytest.mark.distributed
@pytest.mark.long
def test_ranks_and_workers_on_ray(place: Path) -> None:
    workers = {"count": 2, "executor": "ray"}
    rlcore(place, "run", "config.yaml", environment=CONFIG["environment"] | {"workers": workers}, **IN_RANKS)
    rlcore(place, "ray", "ranks", "--count", "2", "config.yaml", "--run-id", "ranks", **IN_RANKS)
    assert stored(place / "results/ranks") == ["Pole 128", "Pole 256"]


def test_commands_of_the_zoo(place: Path) -> None:
    assert _rlcore(["--version"], captured=True).startswith("rlcore, version")
    assert not (place / "hit").exists()
