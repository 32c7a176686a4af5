"""A run that is interrupted and resumed ends as the run that was never stopped: the cases of data/resumed_runs.yaml."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import gymnasium
import pytest
import yaml
from godot_worlds import engine_of, project_of
from recorded import recorded
from small_runs import DATA, small_run
from tensor_race import TensorRace, ThroughNumpy
from workspace import ROOT

from rlcore import Run, load_checkpoint, save_checkpoint
from rlcore_devkit import environments
from rlcore_devkit.conformance.states import assert_equal, equal
from rlcore_torch.tensors.cartpole import TorchCartPole

TABLE = yaml.safe_load((DATA / "resumed_runs.yaml").read_text(encoding="utf-8").replace("ROOT", str(ROOT)))
CASES: Mapping[str, Mapping[str, Any]] = TABLE["cases"]


def acrobot() -> gymnasium.Env[Any, Any]:
    return gymnasium.make("Acrobot-v1", max_episode_steps=60)


def cart() -> TorchCartPole:
    return TorchCartPole(4, name="Agent", max_steps=25)


# A normalizer remembers the mean of all observations so far.
PROGRAMS: Mapping[str, Callable[[], Any]] = {
    "acrobot": acrobot,
    "normalized acrobot": lambda: gymnasium.wrappers.NormalizeObservation(acrobot()),
    "cart": cart,
    "cart as arrays": lambda: ThroughNumpy(cart()),
    "race": lambda: TensorRace(4, "Agent"),
    "race as arrays": lambda: ThroughNumpy(TensorRace(4, "Agent")),
}
RECORDED: Mapping[str, Callable[[], Any]] = {
    "corridor": lambda: environments.TinyCorridor(4),
    "masked corridor": lambda: environments.TinyCorridor(4, masked=True),
    "continuous": lambda: environments.identity_continuous(4),
    "hybrid": lambda: environments.identity_hybrid(4),
    "images": lambda: environments.ImageIdentity(4),
}


def made(what: str, place: Path) -> str:
    """What a case names: the path of an engine or a project of Godot, or of the folder of a recording."""
    kind, _, version = what.partition(" of Godot ")
    if kind == "engine":
        return engine_of(int(version))
    if kind == "project":
        return str(project_of(int(version), place))
    return recorded(place / "recorded" / "Agent", RECORDED[what](), 40)


def config_of(place: Path, case: Mapping[str, Any], changes: Mapping[str, Any], **start: Any) -> dict[str, Any]:
    environment = {"num_envs": 4} if "program" in case else {"type": "gymnasium", **case["environment"]}
    blocks: dict[str, Any] = {
        "environment": environment,
        "behaviors.Agent": {**TABLE["common"], **case.get("agent", {})},
    }
    if environment.get("type") == "testing":
        blocks["plugins.local"] = ["rlcore_devkit.hooks"]
    return small_run(place, {**blocks, **case.get("changes", {}), **changes}, **start)


def train(
    place: Path, case: Mapping[str, Any], changes: Mapping[str, Any], stop: int | None = None, **start: Any
) -> Run:
    keys = {key: value for key, value in changes.items() if key != "program"}
    program = PROGRAMS.get(changes.get("program", case.get("program", "")))
    with Run(config_of(place, case, keys, **start), environment=program) as run:
        run.start()
        if stop is not None:
            stop_after(run, stop)
        run.train()
    return run


def interrupt(place: Path, whole: Path, case: Mapping[str, Any], changes: Mapping[str, Any]) -> int:
    """Leave an interrupted run in ``place``, and return the step of the checkpoint from which it is resumed."""
    changes = {**changes, **case.get("interrupted", {})}
    if "stops" in case:
        for number, step in enumerate(case["stops"]):
            stopped = train(place, case, changes, stop=step, resume=number > 0)
            assert stopped.outcome == "interrupted"
        return checkpoints(place)[-1]
    if "interrupted" in case:
        train(place, case, changes)
    else:
        shutil.copytree(whole, place)
    return checkpoints(place)[0]


def stop_after(run: Run, steps: int) -> None:
    """Stop the run in the step in which its agents have acted so often."""
    trainer: Any = run.behaviors["Agent"].trainer
    observe = trainer.observe

    def observe_and_stop(actions: Any, batch: Any) -> None:
        observe(actions, batch)
        if trainer.steps >= steps:
            run.request_stop()

    trainer.observe = observe_and_stop


def checkpoints(place: Path) -> list[int]:
    return sorted(int(each.name) for each in (place / "run/checkpoints").iterdir() if each.name.isdecimal())


def state_at(place: Path, step: int) -> Any:
    """A checkpoint without what differs between equal runs: its time, and the settings that a case changes."""
    state = load_checkpoint(place / "run/checkpoints" / str(step))
    for key in ("wall_seconds", "fingerprint", "factories"):
        state["run"].pop(key, None)
    return state


def summaries(place: Path) -> list[Any]:
    """The summaries without what depends on the clock and on workers."""
    lines = [json.loads(line) for line in (place / "run/metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    for line in lines:
        del line["time"]
        for tag in list(line["stats"]):
            if any(part in tag for part in ("Per Second", "Worker", "Aborted")):
                del line["stats"][tag]
    return lines


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=name, marks=getattr(pytest.mark, case["marks"]) if "marks" in case else ())
        for name, case in CASES.items()
    ],
)
def test_a_resumed_run_equals_the_run_never_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: Mapping[str, Any]
) -> None:
    if "needs" in case:
        pytest.importorskip(case["needs"])
    monkeypatch.chdir(tmp_path)  # MuJoCo writes its log file into the working directory
    changes = {key: made(what, tmp_path) for key, what in case.get("made", {}).items()}
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    run = train(whole, case, changes)
    assert str(run.describe().resume).startswith(case.get("promise", "exact"))
    seen = {each.name: list(each.shape) for each in run.behaviors["Agent"].spec.observations}
    assert case.get("sees", seen) == seen
    first = interrupt(parts, whole, case, changes)
    halfway = state_at(parts, first)["Agent"]["model"]
    train(parts, case, {**changes, **case.get("resumed", {})}, resume=True, checkpoint=str(first))
    last = checkpoints(whole)[-1]
    end = state_at(whole, last)
    assert first < last and not equal(halfway, end["Agent"]["model"])
    assert_equal(state_at(parts, last), end)
    assert summaries(parts) == summaries(whole) != []
    assert {*case.get("statistics", ())} <= {tag for line in summaries(whole) for tag in line["stats"]}


def test_a_checkpoint_without_the_state_of_the_environment_is_resumed_with_new_episodes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As an environment wrote it that could not be saved yet: all episodes began at the checkpoint."""
    case = CASES["Pendulum, at any step"]
    train(tmp_path, case, {}, stop=142)
    directory = tmp_path / "run/checkpoints"
    state = load_checkpoint(directory / "142")
    episodes = state["run"]["episodes"].copy()
    state["run"] |= {"environment": None, "episodes": episodes + 1}
    save_checkpoint(directory, 142, state, (directory / "142/configuration.yaml").read_text())
    with Run(config_of(tmp_path, case, {}, resume=True)) as run:
        run.start()
        assert run.environment is not None and run.environment.episodes.tolist() == (episodes + 1).tolist()
        difference = "an environment that saves its state, instead of one that begins new episodes"
        assert str(run.describe().resume) == f"statistical, because this process has {difference}"
        run.train()
        assert run.outcome == "done"
    assert [text for text in caplog.messages if "resumes with" in text] == [
        f"{tmp_path / 'run'}: resumes with {difference}; this resume is statistical instead of exact"
    ]
