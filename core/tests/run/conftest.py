"""Runs of the numpy trainer in ``stub_plugin.py``: quick, and without any plugin that is installed."""

from __future__ import annotations

import copy
import itertools
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

import attrs
import numpy as np
import pytest
import yaml

import rlcore.run.evaluation.evaluate
from rlcore.contracts.results import BehaviorEvaluation, EvaluationResult
from rlcore.plugins.call import Plugins
from rlcore.run.run import Run
from rlcore.storage.checkpoints import save_checkpoint
from rlcore_devkit.fixtures import RunRlcore, hook_calls, plugins
from rlcore_devkit.fixtures import run_rlcore as bare_run_rlcore

__all__ = ["bare_run_rlcore", "hook_calls", "plugins"]

STUBS = Path(__file__).parent / "stub_plugin.py"


@pytest.fixture
def run_rlcore(bare_run_rlcore: RunRlcore, monkeypatch: pytest.MonkeyPatch) -> RunRlcore:
    """Commands that only look import the stubs too, which the configurations of these tests name."""
    monkeypatch.setenv("RLCORE_ALLOW_LOCAL", "1")
    return bare_run_rlcore


@attrs.frozen
class Files:
    """The files of a run directory."""

    path: Path

    def json(self, name: str) -> Any:
        return json.loads((self.path / name).read_text(encoding="utf-8"))

    @property
    def status(self) -> Any:
        return self.json("run_logs/training_status.json")

    @property
    def result(self) -> Any:
        return self.json("result.json")

    @property
    def metrics(self) -> list[Any]:
        return [json.loads(line) for line in (self.path / "metrics.jsonl").read_text().splitlines()]

    @property
    def steps(self) -> list[int]:
        """The steps of the checkpoints on disk, ascending."""
        return self._steps("checkpoints")

    @property
    def best(self) -> list[int]:
        """The steps of the best checkpoints on disk, ascending."""
        return self._steps("checkpoints/best")

    def _steps(self, name: str) -> list[int]:
        place = self.path / name
        return sorted(int(path.name) for path in place.iterdir() if path.name.isdecimal()) if place.is_dir() else []

    def checkpoint(self, step: int) -> dict[str, Any]:
        """Every file of a checkpoint that must be equal in equal runs, ``state.json`` without the time it took."""
        content: dict[str, Any] = {}
        for file in sorted((self.path / "checkpoints" / str(step)).iterdir()):
            if file.suffix == ".safetensors":
                content[file.name] = file.read_bytes()
        state = self.json(f"checkpoints/{step}/state.json")
        del state["run"]["wall_seconds"]
        return content | {"state.json": state}

    def checkpoints(self, after: int = -1) -> dict[int, Any]:
        """Every checkpoint on disk of a step after that one."""
        return {step: self.checkpoint(step) for step in self.steps if step > after}

    def everything(self) -> dict[str, bytes]:
        """The content of each file; not who took the lock last."""
        found = {str(p.relative_to(self.path)): p.read_bytes() for p in sorted(self.path.rglob("*")) if p.is_file()}
        if found.get(".lock", b"").startswith(b"process "):
            found[".lock"] = b""
        return found


def merge(target: dict[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """``target`` with nested ``changes``; a key may be dotted."""
    for key, value in changes.items():
        head, _, rest = key.partition(".")
        if rest:
            merge(target.setdefault(head, {}), {rest: value})
        elif isinstance(value, Mapping) and isinstance(target.get(head), dict):
            merge(target[head], value)
        else:
            target[head] = copy.deepcopy(value)
    return target


Configure = Callable[..., dict[str, Any]]
MakeRun = Callable[..., Run]


@pytest.fixture
def configure(tmp_path: Path) -> Configure:
    """``configure({"environment.type": "pair"}, max_steps=400)``: keywords are the behavior's, the rest is by key."""

    def make(changes: Mapping[str, Any] | None = None, behaviors: tuple[str, ...] = ("Agent",), **behavior: Any) -> Any:
        block = {
            "trainer_type": "numpy",
            "max_steps": 200,
            "summary_freq": 50,
            "checkpoint_interval": 40,
            **behavior,
        }
        config: dict[str, Any] = {
            "environment": {"type": "corridor", "num_envs": 2},
            "env_settings": {"seed": 5},
            "behaviors": {name: copy.deepcopy(block) for name in behaviors},
            "checkpoint_settings": {"run_id": "run", "results_dir": str(tmp_path / "results")},
            "plugins": {"autoload": False, "local": [str(STUBS)]},
            "stats": {"console": False},
        }
        return merge(config, changes or {})

    return make


@pytest.fixture
def make_run(configure: Configure) -> MakeRun:
    """A :class:`Run` of what ``configure`` makes, with more ``plugins`` by name."""

    def make(
        changes: Mapping[str, Any] | None = None, plugins: Mapping[str, object] = MappingProxyType({}), **keywords: Any
    ) -> Run:
        run = Run(configure(changes, **keywords))
        for name, plugin in plugins.items():
            run.plugins.register(plugin, name)
        return run

    return make


@pytest.fixture
def write(configure: Configure, tmp_path: Path) -> Callable[..., Path]:
    """``write({"env_settings.seed": 5})``: the configuration that ``configure`` makes, as a file."""

    def make(changes: Mapping[str, Any] | None = None, **keywords: Any) -> Path:
        path = tmp_path / "config.yaml"
        path.write_text(yaml.safe_dump(configure(changes, **keywords)), encoding="utf-8")
        return path

    return make


@pytest.fixture
def files(tmp_path: Path) -> Callable[..., Files]:
    """``files("run")``: the directory of a run."""
    return lambda run_id="run": Files(tmp_path / "results" / run_id)


@pytest.fixture
def abandon() -> Callable[[Run], None]:
    """Leaves a run as a killed process would: nothing is saved, the operating system frees the lock."""
    return lambda run: run.directory.close()


class Killed(BaseException):
    """Stands for SIGKILL: no handler tidies up after it."""


@pytest.fixture
def killing(monkeypatch: pytest.MonkeyPatch) -> Callable[..., AbstractContextManager[type[Killed]]]:
    """``with killing(3, (Path, "rename"), ...) as killed``: after three of these calls, each raises ``killed``."""

    @contextmanager
    def kill(calls: int, *functions: tuple[Any, str]) -> Iterator[type[Killed]]:
        made = itertools.count()

        def dying(original: Callable[..., Any]) -> Callable[..., Any]:
            def call(*arguments: Any, **keywords: Any) -> Any:
                if next(made) >= calls:
                    raise Killed
                return original(*arguments, **keywords)

            return call

        with monkeypatch.context() as patch:
            for owner, name in functions:
                patch.setattr(owner, name, dying(getattr(owner, name)))
            yield Killed

    return kill


@pytest.fixture
def killed_before_status(monkeypatch: pytest.MonkeyPatch) -> Callable[[Run, int], None]:
    """``killed_before_status(run, 3)``: trains until the status of the third checkpoint is to be written."""

    def train(run: Run, which: int) -> None:
        original = Plugins.write_status
        steps: set[int] = set()

        def write(self: Plugins, status: Mapping[str, Any], directory: Path) -> None:
            steps.add(status["metadata"]["run_steps"])
            if len(steps) == which:
                raise KeyboardInterrupt
            original(self, status, directory)

        with monkeypatch.context() as patch:
            patch.setattr(Plugins, "write_status", write)
            with pytest.raises(KeyboardInterrupt):
                run.train()

    return train


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Any]]:
    """``script(1, 3, 2)``: the scores that evaluations get, whatever is played; the list of what played."""

    def make(*scores: float) -> list[Any]:
        left = iter(scores)
        played = list[Any]()

        def play(policies: Mapping[str, Any], *_: Any) -> EvaluationResult:
            played.append(copy.deepcopy(policies))
            score = float(next(left))
            return EvaluationResult({name: BehaviorEvaluation(score, 0.0, 1, 7.0, (score,)) for name in policies})

        monkeypatch.setattr(rlcore.run.evaluation.evaluate, "play", play)
        return played

    return make


@pytest.fixture
def kill_after(abandon: Callable[[Run], None]) -> Callable[[Run, int], None]:
    """``kill_after(run, step)``: train to a summary at ``step`` or later, after a checkpoint, then drop the run."""

    def train(run: Run, step: int) -> None:
        for _ in run:
            if run.steps >= step and run.directory.checkpoints.exists():
                break
        abandon(run)

    return train


@pytest.fixture
def save_steps() -> Callable[..., list[Path]]:
    """``save_steps(directory, 1, 2)``: checkpoints of these steps, whose array holds the step."""

    def save(directory: Path, *steps: int) -> list[Path]:
        return [
            save_checkpoint(
                directory,
                step,
                {
                    "Agent": {"weights": np.full((4, 5), step, np.float32)},
                    "run": {"step": step, "episodes": np.arange(step)},
                },
            )
            for step in steps
        ]

    return save
