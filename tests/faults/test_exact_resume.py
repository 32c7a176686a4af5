"""A run that is stopped and resumed equals the run that was never stopped, bit for bit, whatever it trains with.

The matrix is trainers and features: PPO, SAC, TD3, DQN, POCA, IQL, BC, memory, evaluations, lessons, ADR and self-play.
Each is killed at random times. ``RLCORE_ATTACK_TRIALS=120`` is the number of kills of ``pytest --deep``; by default
each has one.
"""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from fault_cases import ATTACKED, SELF_PLAY
from forks import ended
from workspace import ROOT

from rlcore import Run, load_checkpoint, save_checkpoint
from rlcore.storage.checkpoints import find_checkpoints
from rlcore_dqn.presets import DQN
from rlcore_sac.presets import SAC
from rlcore_td3.presets import TD3

pytestmark = pytest.mark.faults

EVALUATION = {"interval": 150, "episodes": 4, "deterministic": False}
MATRIX: dict[str, dict[str, Any]] = {
    **ATTACKED,
    "evaluations": {"environment": "CartPole-v1", "evaluation": EVALUATION},
    "saves often": {"max_steps": 800, "checkpoint_interval": 32, "keep_checkpoints": 3, "summary_freq": 320},
    **{f"self-play, {name}": settings for name, settings in SELF_PLAY.items()},
    "POCA": {
        "trainer_type": "poca",
        "environment": {"type": "sacrifice", "num_envs": 8},
        "plugins": {"local": [str(ROOT / "examples/sacrifice/sacrifice.py")]},
    },
}
TRIALS = int(os.environ.get("RLCORE_ATTACK_TRIALS", len(MATRIX)))
DAILY = ("PPO, CartPole-v1",)
HARMLESS = ("no episode ended in the last", "a replay buffer of", "do not add up to 0")


@pytest.fixture
def settings_of(case: Callable[[str], dict[str, Any]]) -> Callable[[str], dict[str, Any]]:
    """``settings_of("IQL, CartPole-v1")``: the settings of a run of the matrix."""
    return lambda name: case(name) if name in ATTACKED else MATRIX[name]


def outcome(place: Any) -> Any:
    """Return the findings of a run: its summaries, its result, and the policies of its best evaluation."""
    result = place.json("result.json")
    best = find_checkpoints(place.checkpoints / "best")
    files = [(each.path / name).read_bytes() for each in best for name in ("state.json", "Agent.safetensors")]
    return place.metrics(), result["behaviors"], result.get("evaluation"), files


def assert_ends_equal(place: Any, whole: Any, *words: str) -> None:
    """``words``: the command that resumes the run; by default it names the configuration file."""
    assert ended(place.command(*(words or ("run", "config.yaml", "--resume"))), 180) == 0, place.stderr
    told = [line for line in place.stderr.splitlines() if not any(words in line for words in HARMLESS)]
    assert told == [], "a kill damages nothing, so nothing is passed over"
    assert place.verify() == whole.steps and place.leftovers() == []
    assert [place.content(step) for step in place.steps] == [whole.content(step) for step in whole.steps]
    assert outcome(place) == outcome(whole)
    status = place.json("run_logs/training_status.json")
    for section in status.keys() & place.json("result.json")["behaviors"].keys():
        assert [entry["run_steps"] for entry in status[section]["checkpoints"]] == place.steps


def trials() -> Iterator[Any]:
    for trial in range(TRIALS):
        name = list(MATRIX)[trial % len(MATRIX)]
        daily = trial < len(MATRIX) and name in DAILY
        yield pytest.param(trial, id=f"{trial} {name}", marks=pytest.mark.daily if daily else ())


@pytest.mark.parametrize("trial", [*trials()])
def test_a_run_killed_at_random_times_ends_as_the_run_never_stopped(
    workplace: Any, whole_run: Any, settings_of: Any, trial: int
) -> None:
    settings = settings_of(list(MATRIX)[trial % len(MATRIX)])
    draw = random.Random(f"attack {trial}")
    whole = whole_run(**settings)
    place = workplace(**settings)
    flags: list[str] = []
    for _ in range(draw.randint(1, 3)):
        process = place.start(*flags, slow_fsync=0.01)
        place.wait_for(lambda: bool(place.steps))  # killed earlier, a run is started again, not resumed
        time.sleep(draw.uniform(0.0, 1.0))
        process.kill()
        process.join()
        if process.exitcode != -signal.SIGKILL:
            assert process.exitcode == 0, place.stderr
        place.verify()
        flags = ["--resume"]
    assert_ends_equal(place, whole)


@pytest.mark.parametrize(
    ("name", "preset", "environment"),
    [
        ("sac", SAC, "Pendulum-v1"),
        ("td3", TD3, "Pendulum-v1"),
        pytest.param("dqn", DQN, "CartPole-v1", marks=pytest.mark.daily),
    ],
)
def test_an_off_policy_run_with_its_preset_alone_is_killed_while_it_learns_and_ends_as_the_run_never_stopped(
    workplace: Any, name: str, preset: Any, environment: str
) -> None:
    """Environment, preset and steps are named: that the replay is saved is a value of the preset."""
    begins = preset["default_settings"]["hyperparameters"]["buffer_init_steps"]
    interval = (begins + 100) // 8  # the eighth checkpoint is one of a run that has begun to learn
    few = ("--max-steps", str(begins + 300), "--set", f"default_settings.checkpoint_interval={interval}")
    words = ("run", "--env", environment, "--preset", name, "--seed", "3", "--run-id", "run", *few)
    whole, place = workplace("whole"), workplace("killed")
    assert ended(whole.command(*words), 180) == 0, whole.stderr
    assert "resume       exact" in whole.stdout
    process = place.command(*words, slow_fsync=0.01)
    place.wait_for(lambda: bool(place.steps) and place.steps[-1] > begins, 180)
    process.kill()
    process.join()
    assert process.exitcode == -signal.SIGKILL, "it had ended before: choose more steps"
    assert begins < place.verify()[-1] < begins + 300
    assert_ends_equal(place, whole, "run", "--resume", "--run-id", "run")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_run_interrupted_anywhere_and_resumed_equals_the_run_never_stopped(
    workplace: Any, whole_run: Any, assert_equal_from: Any, number: signal.Signals
) -> None:
    """A stop saves one more checkpoint, which an environment that saves its state does not notice."""
    whole = whole_run(**MATRIX["PPO, CartPole-v1"])
    place = workplace()
    process = place.start()
    place.wait_for(lambda: len(place.steps) >= 2)
    os.kill(process.pid, number)
    process.join(30)
    assert process.exitcode == 128 + number and place.stdout.startswith("interrupted: ")
    assert all(line.startswith("stopping: ") for line in place.stderr.splitlines()), place.stderr
    stopped = place.verify()[-1]
    assert place.finish("--resume") == 0
    assert_equal_from(place, whole, stopped)


def test_self_play_interrupted_between_two_checkpoints_rates_its_games_once(
    workplace: Any, whole_run: Any, assert_equal_from: Any
) -> None:
    """The checkpoint of the stop rates no games that an update was to rate."""
    whole = whole_run(**SELF_PLAY["PPO"])
    place = workplace(**SELF_PLAY["PPO"])
    stop = ("rlcore_ghost.selfplay.trainer:GhostTrainer.observe", 47, True, signal.SIGTERM)
    assert place.finish(signalled=stop) == 128 + signal.SIGTERM, place.stderr
    stopped = place.verify()[-1]
    waiting = load_checkpoint(place.checkpoints / str(stopped))["Agent"]["self_play_log"]["pending"]
    assert stopped not in whole.steps and len(waiting["players"]), "choose another step: no game waits for an update"
    assert place.finish("--resume") == 0, place.stderr
    assert_equal_from(place, whole, stopped)
    assert place.metrics() == whole.metrics()


def test_a_run_killed_and_resumed_stops_at_the_score_where_the_run_never_stopped_did(
    workplace: Any, whole_run: Any
) -> None:
    found = [line["stats"].get("Evaluation/Cumulative Reward") for line in whole_run(**MATRIX["evaluations"]).metrics()]
    stop_at = max(score for score in found if score is not None) - 1.0
    settings = {"evaluation": EVALUATION | {"stop_at": stop_at}, "checkpoint_interval": 64}
    whole = whole_run(**settings)
    place = workplace(**settings)
    assert whole.json("result.json")["evaluation"]["stopped"] is True and whole.steps[-1] < 2400
    process = place.start()
    place.wait_for(lambda: len(place.steps) >= 2)
    process.kill()
    process.join()
    assert_ends_equal(place, whole)
    assert place.finish("--resume") == 0 and place.stdout.startswith("nothing left to learn: evaluation.stop_at")


# ---------------------------------------------------------------- negative controls


Spoil = Callable[[dict[str, Any], dict[str, Any]], None]


def fresh(path: str) -> Spoil:
    """Replace the entry at ``path`` by the one that a run starts with; ``*name*`` stands for all that contain it."""

    def spoil(state: dict[str, Any], start: dict[str, Any]) -> None:
        *parents, last = path.split("/")
        for name in parents:
            state = state[name]
            start = start[name]
        names = [name for name in state if last.strip("*") in name] if "*" in last else [last]
        assert names
        for name in names:
            state[name] = start[name]

    return spoil


def nothing(state: dict[str, Any], start: dict[str, Any]) -> None:
    """The comparison itself."""


PARTS = yaml.safe_load((Path(__file__).parent / "data/parts_of_the_state.yaml").read_text())
GAMES = ("self-play, PPO", "self-play, PPO with memory")
SPOILED: dict[str, tuple[str, Spoil]] = {
    **{f"nothing of {name}": (name, nothing) for name in (*PARTS, *GAMES)},
    **{f"{name}: {path}": (name, fresh(path)) for name, paths in PARTS.items() for path in paths},
}


@pytest.mark.parametrize("name", SPOILED)
def test_the_comparison_notices_each_part_of_the_state_that_is_dropped(
    workplace: Any, whole_run: Any, settings_of: Any, name: str
) -> None:
    case, spoil = SPOILED[name]
    whole = whole_run(**settings_of(case))
    place = workplace(**settings_of(case))
    at = whole.steps[5 if case in GAMES else 1]
    if case == "evaluations":
        at = next(step for step in whole.steps if step >= whole.json("result.json")["evaluation"]["best_step"])
    place.copy_until(whole, at)
    config = yaml.safe_load((place.path / "config.yaml").read_text())
    settings = config["checkpoint_settings"]
    with Run(config | {"checkpoint_settings": {**settings, "run_id": "fresh"}}) as run:
        run.start()
        run.close("interrupted")
    state = load_checkpoint(place.checkpoints / str(at))
    spoil(state, load_checkpoint(Path(place.results) / "fresh" / "checkpoints" / "0"))
    save_checkpoint(place.checkpoints, at, state)
    with Run(config | {"checkpoint_settings": {**settings, "resume": True}}) as run:
        for _ in run:
            later = [step for step in place.steps if step > at]
            if any(step not in whole.steps or place.content(step) != whole.content(step) for step in later):
                break
    equal = place.steps == whole.steps and json.dumps(place.metrics()) == json.dumps(whole.metrics())
    equal = equal and all(place.content(step) == whole.content(step) for step in whole.steps if step > at)
    assert equal == (spoil is nothing)
