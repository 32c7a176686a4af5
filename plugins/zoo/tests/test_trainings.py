"""Every file trains for 2,000 steps and more, with updates, and one is checked in full as a user does it."""

from __future__ import annotations

import json
import math
import statistics
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import attrs
import gymnasium
import pytest
from packaging.requirements import Requirement

from rlcore import Run, apply_overrides, main, read_document
from rlcore_zoo.collection import names
from rlcore_zoo.entries import entry_of, read_measurements, with_recording
from rlcore_zoo.trainings import record, score_of, train

pytestmark = [pytest.mark.learning, pytest.mark.timeout(600)]

STEPS = 2048


def unmet(requirement: Requirement) -> Iterator[str]:
    """Yield what the installed distributions lack of a requirement and of what its extras bring."""
    try:
        installed = metadata.version(requirement.name)
    except metadata.PackageNotFoundError:
        yield f"{requirement.name} is not installed"
        return
    if not requirement.specifier.contains(installed, prereleases=True):
        yield f"{requirement.name} {installed} is installed, not {requirement.specifier}"
    for text in metadata.requires(requirement.name) or ():
        brought = Requirement(text)
        if brought.marker and any(brought.marker.evaluate({"extra": extra}) for extra in requirement.extras):
            yield from unmet(brought)


@pytest.mark.parametrize("name", names())
def test_a_file_trains(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    entry = entry_of(name)
    for need in entry.world.needs:
        for reason in unmet(Requirement(need)):
            pytest.skip(f"{name} needs {need}: {reason}")
    record(entry)
    document = read_document(entry.path)
    sets = [f"checkpoint_settings.results_dir={tmp_path}", "env_settings.seed=1"]
    blocks = [f"behaviors.{behavior}" for behavior in document.data.get("behaviors") or {}] or ["default_settings"]
    for block in blocks:
        given = document.data
        for key in block.split("."):
            given = given[key]
        hyperparameters = given.get("hyperparameters") or {}
        rollout = hyperparameters.get("buffer_size", 0) if name.split("/")[0] in ("ppo", "ghost") else 0
        sets += [f"{block}.max_steps={max(STEPS, rollout)}", f"{block}.summary_freq=1024"]
        if name.split("/")[0] in ("sac", "td3", "dqn"):  # or the first 2,000 steps are random actions alone
            sets.append(f"{block}.hyperparameters.buffer_init_steps=1000")
    with Run(apply_overrides(document, sets)) as run:
        run.train()
    result = json.loads((run.directory.path / "result.json").read_text("utf-8"))
    assert result["outcome"] == "done"
    capsys.readouterr()
    # A policy that has learned nothing may play without an end: in Breakout until a limit of 27,000 steps.
    words = ["--episodes", "2", "--max-episode-steps", "100", "--json"]
    assert main(["evaluate", str(run.directory.path), *words]) == 0
    assert math.isfinite(score_of(json.loads(capsys.readouterr().out)))
    lines = [json.loads(line) for line in (run.directory.path / "metrics.jsonl").read_text("utf-8").splitlines()]
    losses = [value for line in lines for tag, value in line["stats"].items() if tag.startswith("Losses/")]
    assert losses and all(math.isfinite(loss) for loss in losses)


@pytest.mark.parametrize(
    "name", ["dqn/Acrobot-v1", "ppo/Pendulum-v1", "td3/Reacher-v5", "sac/LunarLanderContinuous-v3"]
)
def test_random_actions_score_what_the_index_says(name: str) -> None:
    entry = entry_of(name)
    environment = gymnasium.make(entry.data["environment"]["id"], **entry.data["environment"].get("options", {}))
    environment.action_space.seed(1)
    returns = []
    for seed in range(1000, 1100):
        environment.reset(seed=seed)
        returns.append(0.0)
        over = False
        while not over:
            _, reward, terminated, truncated, _ = environment.step(environment.action_space.sample())
            returns[-1] += float(reward)
            over = terminated or truncated
    error = statistics.stdev(returns) * math.sqrt(2 / len(returns))  # of the difference of two means
    assert entry.world.random == pytest.approx(statistics.fmean(returns), abs=4 * error)


def test_a_check_trains_in_full_and_a_finished_run_is_measured_again(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    name = "ppo/InvertedPendulum-v5"
    more = tmp_path / "more.jsonl"
    words = [sys.executable, "-m", "rlcore", "zoo", "check", name, "--seeds", "11", "--results-dir", str(tmp_path)]
    done = subprocess.run([*words, "--append", str(more)], capture_output=True, text=True, check=False)
    print(done.stdout)
    (line,) = read_measurements(more)
    entry = entry_of(name)
    low, high = entry.interval
    assert done.returncode == (0 if low <= line.score <= high else 1)
    assert line.steps >= entry.steps and line.cpu_seconds is not None and 1.0 < line.cpu_seconds <= 600.0
    # A finished run is measured again without training: the same score, of which no CPU time is known.
    again = subprocess.run([*words, "--append", str(more)], capture_output=True, text=True, check=False)
    assert again.returncode == done.returncode
    first, second = read_measurements(more)
    assert second.score == first.score and second.cpu_seconds is None


def test_what_a_file_learns_from_is_played_first_and_another_agent_makes_another_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    entry = entry_of("bc/CartPole-v1")
    recorded = entry.world.recorded
    assert recorded is not None and entry.recording == Path("recordings", "ppo", "CartPole-v1", "CartPole")
    score = train(entry, 7, Path("results")).score
    assert entry.recording.is_dir() and score >= 475
    written = entry.recording.stat().st_mtime_ns
    train(entry, 7, Path("results"))  # of a finished run, the score is measured again
    assert entry.recording.stat().st_mtime_ns == written
    assert with_recording("file", recorded) != with_recording("file", attrs.evolve(recorded, agent="ppo/Acrobot-v1"))
