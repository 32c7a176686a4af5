"""An error is blamed on the record whose object raised it, also where an object of another plugin called it."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import attrs
import pytest

from rlcore import EnvironmentFailed, PluginError, RewardProviderSpec
from rlcore.plugins import failures
from rlcore.plugins.discover import Plugin
from rlcore.plugins.failures import blamed, note_maker

OWNER = "behavior 'Walker': trainer 'ppo'"
REWARD = "reward 'fuel' of plugin 'acme' (acme-fuel 1.2)"


class Trainer:
    def __init__(self, called: Callable[[], Any]) -> None:
        self.called = called

    def update(self) -> None:
        self.called()


class Reward:
    def evaluate(self) -> float:
        return _divided(1.0)

    def needs_what_is_missing(self) -> None:
        raise SystemExit(0)


@attrs.frozen(slots=True, weakref_slot=False)
class Closed(Reward):
    """An object that allows no weak reference."""


def schedule(progress: float) -> float:
    return progress / 0


def _divided(number: float) -> float:
    return number / 0


def said(call: Callable[[], Any], kind: Any = PluginError) -> str:
    trainer = Trainer(call)
    note_maker("trainer", "trainer 'ppo' of plugin 'ppo' (rlcore-ppo 1)", trainer)
    with pytest.raises(kind) as caught, blamed(OWNER, "in update", kind):
        trainer.update()
    return str(caught.value)


def test_a_trainer_is_blamed_for_its_own_errors() -> None:
    assert said(lambda: _divided(1.0)) == f"{OWNER} failed in update: ZeroDivisionError: float division by zero"


@pytest.mark.parametrize("made", [Reward, Closed])
def test_the_innermost_object_is_blamed(made: type[Reward]) -> None:
    reward = made()
    note_maker("reward", REWARD, made if made is Closed else reward)
    called = f"(called by {OWNER} in update)"
    assert said(reward.evaluate) == f"{REWARD} failed in evaluate {called}: ZeroDivisionError: float division by zero"
    assert said(reward.needs_what_is_missing).startswith(
        f"{REWARD} failed in needs_what_is_missing {called}: SystemExit"
    )


def test_a_function_is_blamed() -> None:
    note_maker("schedule", "schedule 'steep' of plugin 'acme'", schedule)
    assert said(lambda: schedule(1.0)).startswith("schedule 'steep' of plugin 'acme' failed in schedule (called by ")


def test_an_object_that_a_trainer_gives_to_a_reward_is_the_trainers() -> None:
    """The innermost of both is the trainer again."""
    reward = Reward()
    note_maker("reward", REWARD, reward)
    inner = Trainer(lambda: _divided(1.0))
    note_maker("trainer", "trainer 'inner' of plugin 'inner' (inner 1)", inner)
    reward.evaluate = inner.update  # type: ignore[method-assign, assignment]
    assert said(lambda: reward.evaluate()).startswith(
        "trainer 'inner' of plugin 'inner' (inner 1) failed in update (called"
    )


def test_a_record_notes_what_it_names_and_makes_and_forgets_it_with_the_object(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "acme_fuel", SimpleNamespace(Reward=Reward))
    plugin = Plugin("acme", "acme", "acme-fuel", "1.2")
    record: Any = RewardProviderSpec(name="fuel", target="acme_fuel:Reward", settings="a:b", plugin=plugin)
    monkeypatch.setattr(RewardProviderSpec, "protocol", "")
    made = record.create()
    assert said(made.evaluate).startswith(f"{REWARD} failed in evaluate (called by {OWNER} in update)")
    gc.collect()
    known = len(failures._makers)
    del made
    gc.collect()
    assert len(failures._makers) == known - 1


def test_an_environment_keeps_its_exit_code() -> None:
    reward = Reward()
    note_maker("reward", REWARD, reward)
    assert said(reward.evaluate, EnvironmentFailed).startswith(f"{REWARD} failed in evaluate (called by ")
