"""``rlcore run --seeds``: the runs are those that were started by hand, whatever is killed on the way."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import pytest
from studies import Study, wait_until

from rlcore_devkit import RunRlcore
from rlcore_study.lines import Summaries
from rlcore_study.seeds import read_seeds

SEEDS = ("--seeds", "1-3", "--jobs", "2")
RUNS = ("s-seed-1", "s-seed-2", "s-seed-3")
HAND = ("hand-1", "hand-2", "hand-3")


@pytest.fixture
def by_hand(study: Study, run_rlcore: RunRlcore) -> Any:
    """``by_hand(2, 600)``: train 600 steps with the seeds 1 and 2, each by its own command; return what was learned."""

    def train(count: int, steps: int) -> list[Any]:
        for seed, run in enumerate(HAND[:count], 1):
            words = ("--seed", str(seed), "--run-id", run, "--max-steps", str(steps))
            done = run_rlcore("run", study.directory / "run.yaml", *words, "--results-dir", study.place(""))
            assert done.exit_code == 0, done.stderr
        return [study.state(run) for run in HAND[:count]]

    return train


@pytest.fixture
def scores(study: Study, run_rlcore: RunRlcore) -> Any:
    """``scores(runs)``: what ``rlcore compare`` says of the numbers of runs, without names and times."""

    def compare(runs: Sequence[str]) -> Any:
        (group,) = json.loads(run_rlcore("compare", "--json", *map(study.place, runs)).stdout)["configurations"]
        return group["iqm"], [(run["seed"], run["score"], run["steps"]) for run in group["runs"]]

    return compare


def test_each_seed_is_the_run_that_is_started_by_hand(
    study: Study, run_rlcore: RunRlcore, by_hand: Any, scores: Any
) -> None:
    done = study.run("--seeds", "1-2", "--jobs", "2", "--max-steps", "600")
    assert done.returncode == 0, done.stderr
    assert [study.state(run) for run in RUNS[:2]] == by_hand(2, 600)
    assert scores(RUNS[:2]) == scores(HAND[:2])
    assert [line for line in done.stdout.splitlines() if line.startswith("s-seed-2  600 of 600 steps")]
    assert ["s-seed-2", "2", "done"] in [line.split()[:3] for line in done.stdout.splitlines()]  # of the table

    written = [(study.place(run) / "result.json").stat().st_mtime_ns for run in RUNS[:2]]
    command = ("run", study.directory / "run.yaml", "--results-dir", study.place(""), "--seeds", "1-2")
    command = (*command, "--max-steps", "600")
    again = run_rlcore(*command, "--resume")
    assert again.exit_code == 0 and again.stdout.count("is done already") == 2
    assert [(study.place(run) / "result.json").stat().st_mtime_ns for run in RUNS[:2]] == written
    existing = run_rlcore(*command)
    assert existing.exit_code == 5 and existing.stderr.count("\n") == 1
    assert "s-seed-1: this run exists; continue the study (--resume)" in existing.stderr


@pytest.mark.faults
def test_a_study_whose_processes_were_killed_ends_as_one_that_was_not(study: Study, by_hand: Any, scores: Any) -> None:
    parent = study.start(*SEEDS)
    study.wait_for_checkpoint("s-seed-1")
    parent.kill()
    parent.wait()
    wait_until(lambda: not any(study.children(run) for run in RUNS))
    assert study.outcome("s-seed-1") == "interrupted"  # its process saved a checkpoint, and ended

    saved = study.last_step("s-seed-2")
    parent = study.start(*SEEDS, "--resume")
    study.wait_for_checkpoint("s-seed-2", after=saved)
    (child,) = study.children("s-seed-2")
    os.kill(child, signal.SIGKILL)
    _, errors = parent.communicate(timeout=60)
    assert parent.returncode == 128 + signal.SIGKILL
    assert errors.endswith("1 of 3 runs is not done: s-seed-2; the same command with --resume continues it\n")

    parent = study.start(*SEEDS, "--resume")
    study.wait_for_checkpoint("s-seed-2", after=study.last_step("s-seed-2"))
    (child,) = study.children("s-seed-2")
    os.kill(child, signal.SIGKILL)
    parent.kill()
    parent.wait()

    done = study.run(*SEEDS, "--resume")
    assert done.returncode == 0, done.stderr
    assert [study.state(run) for run in RUNS] == by_hand(3, 4000)
    assert scores(RUNS) == scores(HAND)


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.faults)])
def test_one_signal_saves_all_runs_and_ends_them(study: Study, number: int) -> None:
    parent = study.start(*SEEDS)
    for run in RUNS[:2]:
        study.wait_for_checkpoint(run)
    parent.send_signal(number)
    output, errors = parent.communicate(timeout=60)
    assert parent.returncode == 128 + number
    assert output.count("interrupted after") == 2
    assert "interrupted; the same command with --resume continues" in errors
    assert [study.outcome(run) for run in RUNS[:2]] == ["interrupted", "interrupted"]
    assert not study.place("s-seed-3").exists()


@pytest.mark.faults
def test_a_second_signal_ends_all_runs_at_once(study: Study) -> None:
    slow = ("--set", "environment.options.seconds=5")  # no step ends before the second signal
    parent = study.start(*SEEDS, *slow)
    for run in RUNS[:2]:
        wait_until((study.place(run) / "configuration.yaml").exists)
    time.sleep(1.0)
    parent.send_signal(signal.SIGINT)
    time.sleep(1.0)
    begun = time.monotonic()
    parent.send_signal(signal.SIGINT)
    parent.communicate(timeout=60)
    assert parent.returncode == 128 + signal.SIGINT
    assert time.monotonic() - begun < 2.0
    assert not any(study.children(run) for run in RUNS)


@pytest.mark.faults
def test_a_seed_that_fails_is_named_and_the_others_are_trained(study: Study) -> None:
    study.place("s-seed-2").mkdir(parents=True)
    (study.place("s-seed-2") / "mine.txt").write_text("not a run")
    done = study.run(*SEEDS, "--max-steps", "400")
    assert done.returncode == 5
    assert "s-seed-2  failed after" in done.stdout and "is not a run of rlcore" in done.stdout
    assert done.stderr.endswith("1 of 3 runs is not done: s-seed-2; the same command with --resume continues it\n")
    assert [study.outcome(run) for run in (RUNS[0], RUNS[2])] == ["done", "done"]
    assert (study.place("s-seed-2") / "mine.txt").read_text() == "not a run"


@pytest.mark.faults
def test_forced_seeds_show_no_number_of_the_runs_that_they_replace(study: Study) -> None:
    assert study.run("--seeds", "1-2", "--jobs", "2", "--max-steps", "600").returncode == 0
    again = study.run("--seeds", "1-2", "--jobs", "2", "--max-steps", "200", "--force")
    assert again.returncode == 0, again.stderr
    assert not [line for line in again.stdout.splitlines() if re.search(r"\b600\b", line)]
    failed = study.run("--seeds", "1-2", "--jobs", "2", "--force", "--set", "environment.options={nonsense: 1}")
    assert failed.returncode != 0
    assert "s-seed-1, s-seed-2: the earlier run is still there, and not shown" in failed.stdout + failed.stderr
    assert not [line for line in failed.stdout.splitlines() if line.split()[:1] == ["s-seed-1"] and " done " in line]


def test_summaries_of_a_run_that_is_replaced_are_not_read(tmp_path: Path) -> None:
    def write(step: int) -> None:
        line = {"behavior": "A", "step": step, "stats": {"Environment/Cumulative Reward": 1.0}}
        (tmp_path / "metrics.jsonl").write_text(json.dumps(line) + "\n")

    write(600)
    anew = Summaries(tmp_path)
    anew.ignore_present()
    assert not anew.read() and anew.steps == 0
    write(50)  # into the same file, perhaps
    assert anew.read() and anew.steps == 50
    continued = Summaries(tmp_path)
    assert continued.read() and continued.steps == 50


@pytest.mark.learning
def test_a_study_is_resumed_without_its_configuration(study: Study) -> None:
    assert study.run("--seeds", "1", "--run-id", "s", "--max-steps", "400").returncode == 0
    done = study.run_without_file("--resume", "--run-id", "s", "--seeds", "1,2")
    assert done.returncode == 0, done.stderr
    assert study.run("--seed", "2", "--run-id", "hand", "--max-steps", "400").returncode == 0
    assert study.state("s-seed-2") == study.state("hand")
    longer = study.run_without_file("--resume", "--run-id", "s", "--seeds", "1,2", "--max-steps", "600")
    assert longer.returncode == 0, longer.stderr
    assert study.last_step("s-seed-1") == 600


@pytest.mark.parametrize(
    ("text", "seeds"), [("7", [7]), ("1-3", [1, 2, 3]), ("1,3,7-9", [1, 3, 7, 8, 9]), ("0, 4-4", [0, 4])]
)
def test_seeds_are_written_as_ranges(text: str, seeds: list[int]) -> None:
    assert read_seeds(text) == seeds


@pytest.mark.parametrize("text", ["", "5-1", "1-", "-1", "a", "1,,2", "1-3,2", "1.5", "1-2000000000", "9" * 5000])
def test_other_seeds_are_refused(text: str) -> None:
    with pytest.raises(click.UsageError, match="--seeds") as refused:
        read_seeds(text)
    assert len(refused.value.message) < 200


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--jobs", "2"], "--jobs says how many runs of --seeds train at a time; add --seeds 1-5"),
        (["--seeds", "1-2", "--jobs", "none"], "--jobs 'none': must be a whole number"),
        (["--seeds", "1-2", "--seed", "1"], "--seeds gives each run its seed; leave --seed out"),
        (["--seeds", "1-2", "--inference"], "--seeds trains; --inference acts with one run"),
        (["--seeds", "1-2", "--set", "behaviors.Agent.max_stepps=1"], "did you mean 'max_steps'?"),
    ],
)
def test_a_mistake_is_refused_before_any_run_starts(
    study: Study, run_rlcore: RunRlcore, words: list[str], message: str
) -> None:
    done = run_rlcore("run", study.directory / "run.yaml", *words)
    assert done.exit_code == 2 and message in done.stderr
    assert not (study.directory / "working/results").exists()


def test_one_command_starts_is_stopped_by_a_batch_system_continues_and_ends(study: Study, by_hand: Any) -> None:
    words = (*SEEDS[:1], "1-2", "--jobs", "2", "--max-steps", "600", "--resume", "auto")
    parent = study.start(*words)
    wait_until(lambda: study.place(RUNS[0]).joinpath("metrics.jsonl").exists())
    parent.send_signal(signal.SIGUSR1)
    _, errors = parent.communicate(timeout=120)
    assert parent.returncode == 128 + signal.SIGUSR1, errors
    assert "interrupted; the same command continues" in errors
    done = study.run(*words)
    assert done.returncode == 0, done.stderr
    # A run that is stopped has a summary more; what it has learned is the same.
    learned = [study.state(run)[1] for run in RUNS[:2]]
    assert learned == [state for _, state in by_hand(2, 600)]
    again = study.run(*words)
    assert again.returncode == 0 and [f"{run}  is done already" in again.stdout for run in RUNS[:2]] == [True, True]
