"""The lines before a training say what is trained, and a run without a terminal shows that it is alive."""

from __future__ import annotations

import io
import os
import re
import termios
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from rlcore.cli.progress import behavior_text
from rlcore.cli.terminal import fitted
from rlcore.contracts.behavior_spec import BehaviorSpec, ObservationSpec
from rlcore.contracts.trainer import NetworkSize
from rlcore.run.behaviors.behavior import TrainedBehavior
from rlcore.run.description import BehaviorDescription
from rlcore.settings import BehaviorSettings
from rlcore_devkit.fixtures import RunRlcore

SPOKEN = {"stats.console": {}}
CASES = yaml.safe_load((Path(__file__).parent / "data/start_lines.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("case", CASES["promises"], ids=lambda case: case["promise"])
def test_the_promise_of_a_resume_names_what_prevents_it(make_run: Any, case: Any) -> None:
    with make_run(case["changes"]) as run:
        assert str(run.describe().resume) == case["promise"]


def test_environments_and_trainers_add_their_reasons_to_the_promise(make_run: Any, run_rlcore: RunRlcore) -> None:
    with make_run() as run:
        run.start()
        for owner, reason in ((run.environment, "workers race"), (run.behaviors["Agent"].trainer, "no cache is saved")):
            owner.resume_limits = (reason,)
        reasons = "statistical, because workers race and no cache is saved"
        assert str(run.describe().resume) == reasons
        run.train()
    assert f"resume: {reasons}" in run_rlcore("status", run.directory.path).stdout


def behavior(network: NetworkSize | None = None, **spec: Any) -> TrainedBehavior:
    """A behavior whose trainer has nothing but the size of its network."""
    trainer: Any = type("Sized", (), {"steps": 0, "network_size": network})()
    settings = BehaviorSettings(trainer_type="sized", hyperparameters=None, max_steps=1_000_000)
    return TrainedBehavior(BehaviorSpec("Walker", **spec), settings, trainer)  # type: ignore[arg-type]


def seen(*shapes: tuple[int, ...]) -> tuple[ObservationSpec, ...]:
    return tuple(ObservationSpec(f"o{number}", shape, "float32") for number, shape in enumerate(shapes))


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (
            behavior(NetworkSize("2 x 64 tanh", 9155), observations=seen((4,)), discrete=(2,)),
            "sized; 1 agent; observes 4; acts discrete 2; network 2 x 64 tanh, 9,155 parameters; 1,000,000 steps",
        ),
        (
            behavior(observations=seen((84, 84, 3), (), (5,), (6,), (7,)), continuous=3, discrete=(2, 5)),
            "sized; 1 agent; observes 84x84x3 + 1 + 5 and 2 more; acts continuous 3 and discrete 2x5; 1,000,000 steps",
        ),
    ],
)
def test_a_behavior_in_words(made: TrainedBehavior, text: str) -> None:
    assert behavior_text(BehaviorDescription.of(made)) == text


@pytest.mark.parametrize("columns", [80, 100, 110, 120])
def test_a_long_line_is_broken_at_words_on_a_terminal_only(columns: int) -> None:
    ours, theirs = os.openpty()
    termios.tcsetwinsize(theirs, (40, columns))
    command = "rlcore run --resume --run-id a-name-that-is-long --results-dir results/here"
    line = f"interrupted: {'words of some length, ' * 12}; resume with: {command}; and more"
    with os.fdopen(theirs, "w") as terminal:
        broken = fitted(line, terminal)
    os.close(ours)
    first, *rest = broken.splitlines()
    assert " ".join([first, *(each.removeprefix("  ") for each in rest)]) == line
    assert command in broken and all(each.startswith("  ") for each in rest)
    assert max(map(len, broken.splitlines())) < columns <= len(first) + len("length,") + 1
    assert fitted(line, io.StringIO()) == fitted(line, None) == line


def test_rlcore_run_prints_the_lines_before_the_first_summary(write: Any, run_rlcore: RunRlcore) -> None:
    lines = run_rlcore("run", write(SPOKEN)).stdout.splitlines()
    assert [line.split("  ")[0] for line in lines[:7]] == [
        "run", "plugins", "device", "environment", "values", "Agent", "resume",
    ]  # fmt: skip
    assert lines[3] == "environment  corridor, 2 copies"
    assert lines[4] == "values       the defaults of the trainers: no preset is chosen for trainer numpy"
    assert lines[5] == "Agent        numpy; 2 agents; observes 6; acts discrete 2; 200 steps"
    assert lines[7].startswith("Agent. Step: 50.")
    assert signs(lines) == []


def test_a_run_without_the_console_writer_prints_its_last_line_only(
    configure: Any, tmp_path: Path, run_rlcore: RunRlcore
) -> None:
    for name in ("console", "rlcore/console"):
        path = tmp_path / "config.yaml"
        path.write_text(yaml.safe_dump({**configure(), "stats": {name: False}}))
        (only,) = run_rlcore("run", path, "--force").stdout.splitlines()
        assert only.startswith("done: 200 steps")


@pytest.fixture
def spoken(write: Any, run_rlcore: RunRlcore, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """``spoken(changes, max_steps=60)``: the output of a run whose steps take 20 ms, with signs from 0.1 s on."""
    monkeypatch.setattr("rlcore.cli.progress.FIRST_SIGN", 0.1)

    def run(changes: Any = None, **behavior: Any) -> list[str]:
        slow = {"environment.options": {"seconds": 0.02}, **SPOKEN}
        done = run_rlcore("run", write({**slow, **(changes or {})}, **behavior))
        assert done.exit_code == 0, done.stderr
        return done.stdout.splitlines()

    return run


def signs(lines: list[str]) -> list[str]:
    return [line for line in lines if line.startswith(("running:", "starting:"))]


def test_a_pipe_gets_signs_of_life_until_the_first_summary_and_none_later(spoken: Any) -> None:
    lines = spoken(max_steps=200, summary_freq=100)
    first_summary = next(number for number, line in enumerate(lines) if line.startswith("Agent. Step: 100."))
    running = [line for line in signs(lines) if line.startswith("running:")]
    end = re.compile(r"; the first summary is at step 100, the end in 0:00:0\d$")
    assert running and all(end.search(line) for line in running)
    assert signs(lines[first_summary:]) == []
    # Two steps take 20 ms or longer.
    speeds = [int(line.split(", ")[1].split()[0]) for line in running]
    assert all(speed <= 100 for speed in speeds), running
    # 100 steps of 2 agents are 50 environment steps of 20 ms: one second, with pauses of 0.1, 0.2, 0.4 s and so on.
    assert 1 <= len(running) <= 4
