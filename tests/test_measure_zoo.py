"""``benchmarks/measure_zoo.py``: what is missing is trained once, and the policy of the median seed is packed."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import ModuleType

import attrs
import pytest
from click.testing import CliRunner
from workspace import ROOT

from rlcore import RunStateError
from rlcore_zoo.entries import Entry, Measurement, World, read_measurements

NAME = "ppo/CartPole-v1"
SCORES = {1: 50.0, 2: 10.0, 3: 30.0, 4: 40.0}


def line(seed: int, fingerprint: str = "new", name: str = NAME) -> Measurement:
    return Measurement(
        name=name, fingerprint=fingerprint, seed=seed, score=SCORES[seed], episodes=20, steps=8, cpu_seconds=None,
        wall_seconds=1.0, date="2026-11-29", machine="one", python="3.11", versions={}, command="a test",
    )  # fmt: skip


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    """The script with one entry; ``trained`` has the seeds that were trained, ``packed`` what was packed."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    module = import_module("measure_zoo")
    measured = tmp_path / "measured.jsonl"
    earlier = [line(1, "old"), line(2, name="ppo/Other")]
    measured.write_text("".join(json.dumps(attrs.asdict(each)) + "\n" for each in earlier), "utf-8")

    def entry_of(name: str) -> Entry:
        current = [each for each in read_measurements(measured) if (each.name, each.fingerprint) == (name, "new")]
        world = World(kind="classic", needs=["rlcore-ppo"])
        return Entry(name=name, world=world, measurements={each.seed: each for each in current}, fingerprint="new")

    def train(entry: Entry, seed: int, results: Path) -> Measurement:
        if seed == module.failing:
            raise RunStateError("rlcore run ended with exit code 4")
        assert results == Path("results/new")
        module.trained.append(seed)
        (results / f"zoo-ppo-CartPole-v1-{seed}").mkdir(parents=True)
        return line(seed)

    def pack(run: Path, name: str, score: float, fingerprint: str) -> Path:
        module.packed.append((run.name, score, fingerprint))
        return tmp_path

    replaced = {
        "entry_of": entry_of, "entries": lambda: [entry_of(NAME)], "train": train, "pack": pack, "MEASURED": measured,
        "trained": [], "packed": [], "failing": None,
    }  # fmt: skip
    for name, value in replaced.items():
        monkeypatch.setattr(module, name, value, raising=False)
    monkeypatch.chdir(tmp_path)
    return module


def run(script: ModuleType, *words: str) -> tuple[int, str]:
    result = CliRunner().invoke(script.main, ["--folder", str(Path("work").absolute()), *words])
    return result.exit_code, result.output


def test_what_is_missing_is_trained_once_and_the_median_is_packed(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script.failing = 2
    code, output = run(script)
    assert code == 2 and "not measured: ppo/CartPole-v1" in output and script.packed == []
    assert [each.fingerprint for each in read_measurements(tmp_path / "measured.jsonl")] == ["old", "new", "new"]
    script.failing = None
    monkeypatch.chdir(tmp_path)
    code, output = run(script)
    assert code == 0 and script.trained == [1, 2, 3], output
    assert script.packed == [("zoo-ppo-CartPole-v1-3", 30.0, "new")]
    # Of the earlier version of the file nothing is left; other files keep their lines.
    lines = read_measurements(tmp_path / "measured.jsonl")
    assert sorted((each.name, each.seed, each.fingerprint) for each in lines) == [
        (NAME, 1, "new"), (NAME, 2, "new"), (NAME, 3, "new"), ("ppo/Other", 2, "new"),
    ]  # fmt: skip
    assert {each.command for each in lines if each.name == NAME} == {"benchmarks/measure_zoo.py"}
    monkeypatch.chdir(tmp_path)
    assert run(script)[0] == 0 and script.trained == [1, 2, 3]


def test_a_list_trains_nothing_and_groups_choose(script: ModuleType) -> None:
    assert run(script, "--list", "--seeds", "2-3")[1].endswith("steps for each of seeds 2, 3\n")
    assert run(script, "--group", "atari") == (0, "") and script.trained == []


def test_the_median_of_an_even_number_is_the_lower_one_of_the_middle(script: ModuleType) -> None:
    median: Callable[..., Measurement] = script.median_of
    assert median({seed: line(seed) for seed in SCORES}).seed == 3
    assert median({1: line(1)}).seed == 1
