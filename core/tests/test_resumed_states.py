"""The conformance tests of trainers say what is wrong with a state."""

from __future__ import annotations

import numpy as np
import pytest

from rlcore_devkit.conformance.states import assert_equal
from rlcore_devkit.conformance.trainer import NOT_RESUMED


def test_a_trainer_that_resumes_without_its_replay_buffer_gets_told() -> None:
    with pytest.raises(AssertionError) as wrong:
        assert_equal([{"loss": 1.0}] * 3, [{"loss": 1.0}] * 2, NOT_RESUMED)
    assert "save_replay_buffer" in str(wrong.value) and "3 and 2 entries" in str(wrong.value)


def test_keys_of_one_state_alone_are_named() -> None:
    with pytest.raises(AssertionError, match=r"\['trainer'\]: only one has buffer, sampler"):
        assert_equal({"trainer": {"buffer": np.ones(2), "sampler": 1, "steps": 1}}, {"trainer": {"steps": 1}})
