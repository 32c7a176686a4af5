"""Real processes that are killed, starved and interrupted. Each is a fork of a server that has PyTorch imported."""

from __future__ import annotations

import copy
import json
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

import attrs
import pytest
import yaml

from rlcore.checkpoint import find_checkpoints, verify_checkpoint
from rlcore.testing.fixtures import run_rlcore

__all__ = ["run_rlcore"]

if str(Path(__file__).parent) not in sys.path:
    sys.path.insert(0, str(Path(__file__).parent))

HYPERPARAMETERS = {"batch_size": 64, "buffer_size": 256, "num_epoch": 2, "learning_rate": 1e-3}
CONFIG: dict[str, Any] = {
    "environment": {"type": "gymnasium", "id": "CartPole-v1", "num_envs": 8},
    "env_settings": {"seed": 11},
    "behaviors": {
        "Agent": {
            "trainer_type": "ppo",
            "hyperparameters": HYPERPARAMETERS,
            "network_settings": {"hidden_units": 16, "num_layers": 1, "normalize": True},
            "max_steps": 2400,
            "summary_freq": 600,
            "checkpoint_interval": 400,  # between two updates: the rollout is half full
            "keep_checkpoints": 0,
        }
    },
    "checkpoint_settings": {"run_id": "run"},
    "stats": {"console": False, "tensorboard": False},
}


@attrs.define
class Workplace:
    """A directory with ``config.yaml`` and ``results/run``, and the processes that work there."""

    path: Path
    results: Path
    processes: list[ForkServerProcess] = attrs.field(factory=list)

    @property
    def run(self) -> Path:
        return self.results / "run"

    @property
    def checkpoints(self) -> Path:
        return self.run / "checkpoints"

    @property
    def steps(self) -> list[int]:
        return [checkpoint.step for checkpoint in find_checkpoints(self.checkpoints)]

    @property
    def stderr(self) -> str:
        return (self.path / "stderr").read_text()

    @property
    def stdout(self) -> str:
        return (self.path / "stdout").read_text()

    def json(self, name: str) -> Any:
        return json.loads((self.run / name).read_text())

    def configure(self, **behavior: Any) -> None:
        """Writes ``config.yaml``; keywords are the behavior's, but for ``environment``, its id, and two blocks."""
        config = copy.deepcopy(CONFIG)
        for block in ("evaluation", "environment_parameters"):
            if block in behavior:
                config[block] = behavior.pop(block)
        config["environment"]["id"] = behavior.pop("environment", "CartPole-v1")
        config["checkpoint_settings"]["results_dir"] = str(self.results)
        config["behaviors"]["Agent"] |= behavior
        (self.path / "config.yaml").write_text(yaml.safe_dump(config))

    def start(self, *flags: str, config: str = "config.yaml", **handicap: Any) -> ForkServerProcess:
        """``rlcore run config.yaml FLAGS`` in a process of its own."""
        from fault_child import command

        process = FORKS.Process(
            target=command, args=(["run", config, *flags], str(self.path)), kwargs=handicap, daemon=True
        )
        process.start()
        self.processes.append(process)
        return process

    def finish(self, *flags: str, **keywords: Any) -> int:
        """The same to its end; the exit code."""
        return ended(self.start(*flags, **keywords))

    def wait_for(self, condition: Callable[[], bool], seconds: float = 60.0) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, f"nothing happened in {seconds} s; {self.stderr}"
            time.sleep(0.002)

    def verify(self) -> list[int]:
        """Steps of all checkpoints, every one of which must be whole."""
        for checkpoint in find_checkpoints(self.checkpoints):
            verify_checkpoint(checkpoint.path)
        return self.steps

    def content(self, step: int) -> dict[str, Any]:
        """All of a checkpoint that must be equal in equal runs."""
        path = self.checkpoints / str(step)
        state = json.loads((path / "state.json").read_text())
        del state["run"]["wall_seconds"]
        return {file.name: file.read_bytes() for file in path.glob("*.safetensors")} | {"state.json": state}

    def leftovers(self) -> list[Path]:
        return [path for path in self.results.rglob("*") if ".tmp" in path.name or ".old" in path.name]


def ended(process: ForkServerProcess, seconds: float = 60.0) -> int:
    process.join(seconds)
    assert process.exitcode is not None, f"still alive after {seconds} s"
    return process.exitcode


FORKS = multiprocessing.get_context("forkserver")


@pytest.fixture(scope="session")
def fork_server() -> None:
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # as `rlcore run` does before it imports numpy
    # The fork server looks for what it preloads there alone, and passes over what it does not find.
    paths = [str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    FORKS.set_forkserver_preload(["fault_child", "hostile_child"])


@pytest.fixture
def in_memory(tmp_path: Path) -> Iterator[Path]:
    """A directory where fsync costs nothing, if there is one: a kill loses nothing the system was given."""
    memory = Path("/dev/shm")
    if not (memory.is_dir() and os.access(memory, os.W_OK)):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=memory) as directory:
        yield Path(directory)


NewWorkplace = Callable[..., Workplace]


@pytest.fixture
def workplace(fork_server: None, tmp_path: Path) -> Iterator[NewWorkplace]:
    """``workplace("name", max_steps=1000)``: a :class:`Workplace` with that configuration."""
    made: list[Workplace] = []

    def make(name: str = "work", results: Path | None = None, **behavior: Any) -> Workplace:
        path = tmp_path / name
        path.mkdir()
        place = Workplace(path, results or path / "results")
        place.configure(**behavior)
        made.append(place)
        return place

    yield make
    for place in made:
        for process in place.processes:
            if process.exitcode is None:
                process.kill()
                process.join()


@pytest.fixture(scope="session")
def whole_run(fork_server: None, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Workplace]:
    """``whole_run(environment="Pendulum-v1")``: a run that was never stopped, made once for all tests."""
    made: dict[str, Workplace] = {}

    def make(**behavior: Any) -> Workplace:
        key = json.dumps(behavior, sort_keys=True)
        if key not in made:
            path = tmp_path_factory.mktemp("whole")
            place = Workplace(path, path / "results")
            place.configure(**behavior)
            assert place.finish() == 0, place.stderr
            made[key] = place
        return made[key]

    return make


def assert_equal_from(ours: Workplace, whole: Workplace, step: int) -> list[int]:
    """Every checkpoint after ``step`` is, byte for byte, that of the run that was never stopped."""
    later = [each for each in whole.steps if each > step]
    assert later and [each for each in ours.steps if each > step] == later
    for each in later:
        assert ours.content(each) == whole.content(each), each
    return later


@pytest.fixture(name="assert_equal_from")
def _assert_equal_from() -> Callable[[Workplace, Workplace, int], list[int]]:
    return assert_equal_from
