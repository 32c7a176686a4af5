"""Actions in messages are those that protobuf's own objects would write."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rlcore import Actions
from rlcore_unity.actions import actions_of
from rlcore_unity.mlagents_messages import AgentAction, ListAgentAction

SLOTS = np.array([4, 0, 2])
OPTIONS = np.array([[0, 65_535], [127, 128], [16_383, 16_384], [1, 2], [300, 65_000]])
REALS = np.random.default_rng(0).standard_normal((5, 40)).astype(np.float32)  # 160 bytes: a length of two bytes
FORMS = {
    "real": (REALS, None),
    "options": (None, OPTIONS),
    "hybrid": (REALS[:, :3], OPTIONS),
    "reversed in memory": (REALS[:, ::-1], OPTIONS[:, ::-1]),
}


@pytest.mark.parametrize("slots", [SLOTS, SLOTS[:1]], ids=["three agents", "one agent"])
@pytest.mark.parametrize(("reals", "options"), FORMS.values(), ids=FORMS)
def test_a_package_since_1_7_reads_both_parts(reals: Any, options: Any, slots: Any) -> None:
    expected = ListAgentAction()
    for slot in slots:
        expected.value.append(
            AgentAction(
                continuous_actions=[] if reals is None else reals[slot].tolist(),
                discrete_actions=[] if options is None else options[slot].tolist(),
            )
        )
    assert actions_of(Actions(reals, options), slots, hybrid=True) == expected


@pytest.mark.parametrize(("reals", "options"), FORMS.values(), ids=FORMS)
def test_an_older_package_reads_one_list(reals: Any, options: Any) -> None:
    expected = ListAgentAction()
    for slot in SLOTS:
        numbers = [*([] if reals is None else reals[slot]), *([] if options is None else options[slot])]
        expected.value.append(AgentAction(vector_actions_deprecated=numbers))
    assert actions_of(Actions(reals, options), SLOTS, hybrid=False) == expected
