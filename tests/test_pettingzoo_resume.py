"""A run in PettingZoo's environments that is resumed ends with the weights of one that was never stopped."""

from __future__ import annotations

from pathlib import Path

import pytest
from worker_runs import GAMES, copy_of_run, train, weights


@pytest.mark.parametrize("case", GAMES)
def test_a_resumed_run_ends_with_equal_weights(tmp_path: Path, case: str) -> None:
    if "openspiel" in GAMES[case]["environment"]["id"]:
        pytest.importorskip("pyspiel")
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    train(whole, case, None, 600)
    first = copy_of_run(whole, parts)
    halfway = weights(parts, first)
    train(parts, case, None, 600, resume=True, checkpoint=first)
    assert weights(parts) == weights(whole) != []
    assert weights(parts) != halfway
