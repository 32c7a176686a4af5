"""Entries of a saved state: exact types and shapes, and what is said of anything else."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from rlcore.contracts.saved_values import SavedValueError, fill, saved_array, saved_count, saved_float
from rlcore.contracts.states import non_finite
from rlcore.errors import PluginError, RunStateError, TrainingDiverged

STATE = {
    "array": np.zeros((2, 3), np.float32),
    "double": np.zeros(2),
    "flag": True,
    "huge": 10**30,
    "nan": float("nan"),
    "negative": -1,
}


@pytest.mark.parametrize(
    ("read", "said"),
    [
        (lambda: saved_array(STATE, "gone", "float32"), "the entry 'gone' is missing"),
        (lambda: saved_array(STATE, "double", "float32"), "'double' is an array of float64 of shape"),
        (lambda: saved_array(STATE, "array", "float32", (2, 4)), r"not an array of float32 of shape \(2, 4\)"),
        (lambda: saved_count(STATE, "flag"), "'flag' is True, not a whole number"),
        (lambda: saved_count(STATE, "huge"), "'huge' is a huge number, not a whole number"),
        (lambda: saved_count(STATE, "negative"), "'negative' is -1, not a whole number"),
        (lambda: saved_float(STATE, "nan"), "'nan' is nan, not a finite number"),
        (lambda: fill(np.zeros(2, np.float32), STATE, "double"), "not an array of float32"),
    ],
)
def test_an_entry_that_is_not_what_was_saved_is_named(read: Any, said: str) -> None:
    with pytest.raises(SavedValueError, match=said):
        read()
    assert saved_array(STATE, "array", "float32", (None, 3)) is STATE["array"], "any length, where it is left open"


def test_learned_numbers_that_are_not_finite_are_found_wherever_they_are() -> None:
    bad = np.array([1.0, np.nan], np.float32)
    assert non_finite({"model": {"a": {"b": bad}}}) == "model/a/b"
    assert non_finite({"optimizers": {"actor": {"mean": np.array([np.inf])}}}) == "optimizers/actor/mean"
    assert non_finite({"model": {"temperature": float("inf")}}) == "model/temperature"
    assert non_finite({"buffer": {"reward": bad}, "model": {"a": np.ones(2)}}) is None


BAD = {"model": {"weight": np.array([np.nan])}}
LARGE = {"model": {}, "numbers": [0] * 1_000_001}
TOLD = "'Agent': model/weight is not finite at step 40, and is not saved"


@pytest.mark.parametrize(
    ("state", "error", "told"),
    [
        (BAD, TrainingDiverged, TOLD),
        (LARGE, PluginError, r"state\.json holds more than 1,000,000 values; keep numbers"),
    ],
    ids=["not finite", "too large"],
)
def test_a_state_that_is_not_finite_or_too_large_to_be_read_again_is_not_saved(
    make_run: Any, files: Any, state: Any, error: type[Exception], told: str
) -> None:
    run = make_run()
    run.start()
    run.behaviors["Agent"].trainer.state_dict = lambda: state
    with pytest.raises(error, match=told):
        run.train()
    assert files().steps == []


def test_a_state_that_cannot_be_taken_up_names_checkpoint_and_behavior(
    make_run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_run().train()
    with make_run({"checkpoint_settings.run_id": "third"}) as started:
        started.start()
        trainer = type(started.behaviors["Agent"].trainer)
    monkeypatch.setattr(trainer, "load_state_dict", Mock(side_effect=KeyError("weights")))
    run = make_run({"checkpoint_settings.resume": True}, max_steps=400)
    message = r"checkpoint .*checkpoints/\d+: behavior 'Agent': trainer .*the entry 'weights' is missing"
    with pytest.raises(RunStateError, match=message):
        run.start()
