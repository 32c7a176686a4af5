"""Guards that cost nothing in a step: of actions, losses and environments that hang."""

from __future__ import annotations

import gc
import re
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

import rlcore.run.behaviors.behavior
import rlcore.run.boundaries
import rlcore.run.training
from rlcore import EnvironmentSpec
from rlcore.contracts.batches import Actions
from rlcore.contracts.behavior_spec import BehaviorSpec, ObservationSpec
from rlcore.errors import PluginError, TrainingDiverged
from rlcore_devkit.environments import ArrayEnvironment


class Steering(ArrayEnvironment):
    """Two copies with a continuous and a discrete action; an episode takes nine steps."""

    def __init__(self) -> None:
        observations = (ObservationSpec("seen", (2,), np.float64),)
        super().__init__(BehaviorSpec("Agent", observations, continuous=1, discrete=(3,), env_index=np.arange(2)))
        self.seen = np.zeros((2, 2))
        self.before_step: Callable[[], None] = lambda: None

    def begin(self, env: int, generator: np.random.Generator) -> None:
        self.seen[env] = 0.0

    def advance(self, actions: Actions) -> tuple[Any, Any]:
        self.before_step()
        return np.ones(2, np.float32), self._steps >= 8

    def observe(self) -> dict[str, Any]:
        return {"seen": self.seen.copy()}


Act = Callable[[int], Actions]


def steer(updates: int) -> Actions:
    return Actions(np.zeros((2, 1), np.float32), np.zeros((2, 1), np.int64))


@pytest.fixture
def train(make_run: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """``train(environment, act, losses)`` runs 200 steps; ``act`` and ``losses`` are given the number of updates."""

    def run(
        environment: Steering,
        act: Act = steer,
        losses: Callable[[int], Mapping[str, float]] = lambda updates: {},
    ) -> Any:
        monkeypatch.setattr(EnvironmentSpec, "create", lambda self, **arguments: environment)
        made = make_run({"environment.num_envs": 2})
        made.start()
        trainer = made._training.behaviors["Agent"].trainer
        update = trainer.update
        updates = []

        def updated() -> Mapping[str, float]:
            updates.append(update())
            return {**updates[-1], **losses(len(updates))}

        trainer.act, trainer.update = lambda batch: act(len(updates)), updated
        return made.train()

    return run


def after_update(number: int, continuous: Any = 0.0, discrete: int = 0) -> Act:
    """Sound actions, and after that many updates others in slot 1."""

    def act(updates: int) -> Actions:
        actions = steer(updates)
        if updates >= number:
            actions.continuous[1], actions.discrete[1] = continuous, discrete  # type: ignore[index]
        return actions

    return act


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            lambda value: {"act": after_update(3, continuous=value)},
            "the action of slot 1 (environment 1) is {} at [0] at step 48, although observations and rewards are "
            "finite: its policy has",
        ),
        (
            lambda value: {"losses": lambda updates: {"Losses/Value Loss": value if updates == 3 else 0.5}},
            "Losses/Value Loss is {} after the update at step 48; ",
        ),
    ],
)
def test_what_diverged_after_an_update_ends_the_run_with_the_last_good_checkpoint(
    train: Any, files: Any, given: Any, said: str, value: float
) -> None:
    with pytest.raises(TrainingDiverged) as caught:
        train(Steering(), **given(value))
    assert str(caught.value).startswith(f"behavior 'Agent': {said.format(value)}") and caught.value.exit_code == 3
    assert files().result["outcome"] == "failed" and files().steps == [40]


@pytest.mark.parametrize(
    ("actions", "problem"),
    [
        (Actions(np.zeros((2, 2), np.float32), np.zeros((2, 1), np.int64)), "float32 of shape [2, 2], not an array of"),
        (Actions(np.zeros((2, 1), np.float32), np.zeros((2, 1))), "discrete actions: is an array of float64 of shape"),
        (after_update(0, discrete=3)(0), "the action of slot 1 (environment 1) is 3 at [0], and that branch has 3"),
        (after_update(0, discrete=-1)(0), "is -1 at [0], and that branch has 3 options (at step 0)"),
    ],
)
def test_actions_of_another_shape_or_kind_are_refused_in_a_line(train: Any, actions: Actions, problem: str) -> None:
    with pytest.raises(PluginError) as caught:
        train(Steering(), lambda updates: actions)
    assert str(caught.value).startswith("behavior 'Agent': trainer 'numpy' returned ")
    assert problem in str(caught.value) and "\n" not in str(caught.value)


def test_rows_that_need_no_action_are_ignored(train: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    environment = Steering()

    def waiting(original: Callable[..., Any]) -> Callable[..., Any]:
        def batches_of(*arguments: Any) -> Any:
            batches = original(*arguments)
            batches["Agent"].needs_action = np.array([True, False])
            return batches

        return batches_of

    for name in ("reset", "step"):
        monkeypatch.setattr(environment, name, waiting(getattr(environment, name)))
    assert train(environment, after_update(1, continuous=np.nan, discrete=-1))["Agent"].updates > 1


# ---------------------------------------------------------------- environments that hang


def wait_for(caplog: pytest.LogCaptureFixture, text: str) -> None:
    deadline = time.monotonic() + 60
    while text not in caplog.text:
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_an_environment_that_hangs_is_shown_with_the_place_where_it_waits(
    train: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rlcore.run.training, "QUIET_SECONDS", 0.1)
    environment = Steering()
    steps = []
    before = threading.enumerate()

    def hangs_once() -> None:
        steps.append(1)
        if len(steps) == 30:
            wait_for(caplog, "called from hangs_once (test_guards.py:")

    environment.before_step = hangs_once
    train(environment)
    [found, *_] = [text for text in caplog.messages if "called from hangs_once (test_guards.py:" in text]
    assert re.match(r"no step has ended for \d+ s, at step 58: the run waits in ", found) and "\n" not in found
    assert [thread for thread in threading.enumerate() if thread not in before] == [], "it ends with the epoch"


def test_a_long_checkpoint_is_no_wait(
    make_run: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rlcore.run.training, "QUIET_SECONDS", 0.02)
    monkeypatch.setattr(rlcore.run.boundaries.Boundaries, "reached", lambda self: not time.sleep(0.2))
    next(make_run())
    assert not [text for text in caplog.messages if "no step has ended" in text]


def test_a_forgotten_run_is_freed(make_run: Any) -> None:
    """A program may drop a run without closing it; nothing must keep its lock."""
    run = make_run(summary_freq=20)
    next(run)
    forgotten = weakref.ref(run.directory)
    del run
    gc.collect()
    assert forgotten() is None
