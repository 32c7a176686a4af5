"""Real processes that are killed, starved and interrupted. Each is a fork of a server that has PyTorch imported."""

from __future__ import annotations

import copy
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

import attrs
import pytest
import yaml
from fault_cases import ATTACKED, record_cartpole
from forks import FORKS, ended, exit_unless_imported
from made_once import made_once

from rlcore.storage.checkpoint import verify_checkpoint
from rlcore.storage.checkpoints import find_checkpoints
from rlcore_devkit.fixtures import run_rlcore

__all__ = ["run_rlcore"]

if str(Path(__file__).parent) not in sys.path:
    sys.path.insert(0, str(Path(__file__).parent))

HYPERPARAMETERS = {"batch_size": 64, "buffer_size": 256, "num_epoch": 2, "learning_rate": 1e-3}
CONFIG: dict[str, Any] = {
    "preset": "none",
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
class Place:
    """A directory with ``config.yaml`` and ``results/run``, and the processes that work there."""

    path: Path
    results: Path
    processes: list[Any] = attrs.field(factory=list)

    @property
    def run(self) -> Path:
        return self.results / "run"

    @property
    def checkpoints(self) -> Path:
        return self.run / "checkpoints"

    @property
    def steps(self) -> list[int]:
        return [checkpoint.step for checkpoint in find_checkpoints(self.checkpoints)]

    def json(self, name: str) -> Any:
        return json.loads((self.run / name).read_text())

    @property
    def result(self) -> Any:
        return self.json("result.json")

    def content(self, step: int) -> dict[str, Any]:
        """All of a checkpoint that must be equal in equal runs."""
        path = self.checkpoints / str(step)
        state = json.loads((path / "state.json").read_text())
        del state["run"]["wall_seconds"]
        return {file.name: file.read_bytes() for file in path.glob("*.safetensors")} | {"state.json": state}


@attrs.define
class Workplace(Place):
    """A place whose commands are forks of a server."""

    @property
    def stderr(self) -> str:
        return (self.path / "stderr").read_text()

    @property
    def stdout(self) -> str:
        return (self.path / "stdout").read_text()

    def configure(self, **behavior: Any) -> None:
        """Writes ``config.yaml``; keywords are the behavior's, but for ``environment``, its id, and some blocks.

        With the block ``behaviors``, keywords and what each behavior has there stand in the place of other settings.
        """
        config = copy.deepcopy(CONFIG)
        for block in ("evaluation", "environment_parameters", "plugins", "checkpoint_settings"):
            if block in behavior:
                config[block] = config.get(block, {}) | behavior.pop(block)
        environment = behavior.pop("environment", "CartPole-v1")
        several = behavior.pop("behaviors", {"Agent": {}})
        config["environment"] |= environment if isinstance(environment, dict) else {"id": environment}
        if "type" in environment:
            del config["environment"]["id"]
        config["checkpoint_settings"]["results_dir"] = str(self.results)
        config["behaviors"] = {name: CONFIG["behaviors"]["Agent"] | behavior | own for name, own in several.items()}
        (self.path / "config.yaml").write_text(yaml.safe_dump(config))

    def start(self, *flags: str, config: str = "config.yaml", **handicap: Any) -> ForkServerProcess:
        """``rlcore run config.yaml FLAGS`` in a process of its own."""
        return self.command("run", config, *flags, **handicap)

    def command(self, *argv: str, **handicap: Any) -> ForkServerProcess:
        """Any ``rlcore`` command in a process of its own."""
        from fault_child import command

        process = FORKS.Process(target=command, args=(list(argv), str(self.path)), kwargs=handicap, daemon=True)
        process.start()
        self.processes.append(process)
        return process

    def finish(self, *flags: str, **keywords: Any) -> int:
        """Run the command to its end and return its exit code."""
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

    def copy_until(self, whole: Workplace, step: int) -> None:
        """Copy the run of another place as it was after its checkpoint of this step."""
        shutil.copytree(whole.run, self.run)
        for each in self.steps:
            if each > step:
                shutil.rmtree(self.checkpoints / str(each))

    def metrics(self) -> list[Any]:
        """The summaries, without what depends on the clock."""
        lines = [json.loads(line) for line in (self.run / "metrics.jsonl").read_text().splitlines()]
        for line in lines:
            del line["time"], line["stats"]["Performance/Steps Per Second"]
        return lines

    def shown(self, path: Path) -> Path:
        """``path`` as messages show it: what lies where the command was started, by its path from there."""
        return path.relative_to(self.path) if path.is_relative_to(self.path) else path

    def leftovers(self) -> list[Path]:
        return list(self.results.rglob(".rlcore-tmp*"))


@pytest.fixture(scope="session", autouse=True)
def heard_signals() -> None:
    """A shell without job control has its background commands ignore SIGINT, and ``nohup`` SIGHUP, and all below."""
    for number in (signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, lambda *_: None)  # here alone: a process that is started has the default


@pytest.fixture(scope="session")
def fork_server() -> None:
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # as `rlcore run` does before it imports numpy
    # The fork server looks for what it preloads in these places alone, and passes over what it cannot import.
    here = Path(__file__).parent
    preloaded = ["fault_child", "hostile_child"]
    paths = [str(here), str(here.parent / "support"), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    FORKS.set_forkserver_preload(preloaded)
    process = FORKS.Process(target=exit_unless_imported, args=(preloaded,))
    process.start()
    assert ended(process) == 0, "each command would import PyTorch again"


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
def lasting_workplace(fork_server: None, tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Workplace]:
    """``lasting_workplace()``: a place for what several tests of this process look at."""

    def make() -> Workplace:
        path = tmp_path_factory.mktemp("lasting")
        return Workplace(path, path / "results")

    return make


@pytest.fixture(scope="session")
def whole_run(fork_server: None, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Workplace]:
    """``whole_run(environment="Pendulum-v1")``: a run that was never stopped, made once for all processes of tests."""

    def make(**behavior: Any) -> Workplace:
        def run(directory: Path) -> None:
            place = Workplace(directory, directory / "results")
            place.configure(**behavior)
            assert place.finish() == 0, place.stderr

        path = made_once(tmp_path_factory, f"run {json.dumps(behavior, sort_keys=True)}", run)
        return Workplace(path, path / "results")

    return make


@pytest.fixture(scope="session")
def case(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], dict[str, Any]]:
    """``case("IQL, CartPole-v1")``: a behavior's settings, with the place of recorded data that exists."""

    def settings_of(name: str) -> dict[str, Any]:
        behavior = copy.deepcopy(ATTACKED[name])
        for block in (behavior.get("hyperparameters", {}), behavior.get("behavioral_cloning", {})):
            if "demo_path" in block:
                recorded = made_once(tmp_path_factory, "CartPole", lambda path: record_cartpole(path / "Agent"))
                block["demo_path"] = str(recorded / "Agent")
        return behavior

    return settings_of


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


@pytest.fixture
def opened() -> Iterator[list[Any]]:
    """Environments to close after the test."""
    environments: list[Any] = []
    yield environments
    for environment in environments:
        environment.close()


STUBS = Path(__file__).resolve().parents[2] / "core" / "tests" / "run" / "stub_plugin.py"


@attrs.define
class Quick(Place):
    """Runs of the numpy trainer, each a process started from nothing: what Python does at its exit counts too."""

    def configure(self, changes: dict[str, Any], **behavior: Any) -> None:
        behavior = {"trainer_type": "slow", "max_steps": 400, "summary_freq": 50, "checkpoint_interval": 40} | behavior
        config = {
            "environment": {"type": "slow", "num_envs": 2, "options": {"seconds": 0.001}},
            "env_settings": {"seed": 5},
            "behaviors": {"Agent": behavior},
            "checkpoint_settings": {"run_id": "run"},
            "plugins": {"autoload": False, "local": [str(STUBS), str(Path(__file__).with_name("slow_plugin.py"))]},
        } | changes
        (self.path / "config.yaml").write_text(yaml.safe_dump(config))

    def popen(self, *arguments: str, shell: str = "", **keywords: Any) -> subprocess.Popen[str]:
        """``shell``: a line of ``sh`` that has the command in ``$@``."""
        words = [sys.executable, "-m", "rlcore.cli.main", *arguments]
        process = subprocess.Popen(
            ["sh", "-c", shell, "sh", *words] if shell else words, cwd=self.path, text=True,
            env={key: value for key, value in os.environ.items() if not key.startswith("RLCORE_")}, **keywords,
        )  # fmt: skip
        self.processes.append(process)
        return process

    def start(self, *flags: str, **keywords: Any) -> subprocess.Popen[str]:
        return self.popen("run", "config.yaml", *flags, **keywords)

    def finish(self, *flags: str, **keywords: Any) -> tuple[int, str, str]:
        """Exit code, standard output, standard error."""
        process = self.start(*flags, **({"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | keywords))
        output, errors = process.communicate(timeout=60)
        return process.returncode, output or "", errors or ""

    def wait_for_checkpoint(self, process: subprocess.Popen[str]) -> None:
        deadline = time.monotonic() + 30
        while not self.steps and process.poll() is None:
            assert time.monotonic() < deadline
            time.sleep(0.005)

    def assert_done(self, steps: int = 400) -> None:
        assert self.result["outcome"] == "done" and self.steps[-1] == steps
        verify_checkpoint(self.run / "checkpoints" / str(steps))

    def assert_resumes(self) -> None:
        step = self.steps[-1]
        verify_checkpoint(self.run / "checkpoints" / str(step))
        code, _, errors = self.finish("--resume", "--set", f"behaviors.Agent.max_steps={step + 100}")
        assert code == 0, errors
        self.assert_done(step + 100)


@pytest.fixture
def quick(tmp_path: Path) -> Iterator[Callable[..., Quick]]:
    """``quick({"evaluation": ...}, max_steps=400)``: a :class:`Quick` with that configuration."""
    made: list[Quick] = []

    def make(changes: dict[str, Any] | None = None, **behavior: Any) -> Quick:
        place = Quick(tmp_path, tmp_path / "results")
        place.configure(changes or {}, **behavior)
        made.append(place)
        return place

    yield make
    for process in [process for place in made for process in place.processes]:
        if process.poll() is None:
            process.kill()
        process.wait()
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()
