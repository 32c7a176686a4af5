"""``network_settings.memory`` is checked against the trainer, its minibatches and what else the behavior asks for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rlcore_torch import MemorySettings

Errors = Callable[[str], list[str]]

BLOCK = "behaviors: {{B: {{trainer_type: {trainer}, network_settings: {{memory: {memory}}}, {rest}}}}}"


def block(memory: str, trainer: str = "ppo", rest: str = "") -> str:
    return BLOCK.format(memory=memory, trainer=trainer, rest=rest)


def test_an_empty_block_is_ml_agents_default(load: Any) -> None:
    config = load(block("{}"))
    assert config.behaviors["B"].network_settings.memory == MemorySettings(memory_size=128, sequence_length=64)
    assert load(block("null")).behaviors["B"].network_settings.memory is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (block("{memory_size: 33}"), "behaviors.B.network_settings.memory.memory_size: must be even, not 33"),
        (block("{memory_size: 0}"), "must be at least 2"),
        (block("{sequence_lenght: 8}"), "did you mean 'sequence_length'?"),
        (
            block("{sequence_length: 65}", rest="hyperparameters: {batch_size: 64}"),
            "memory.sequence_length: must be at most hyperparameters.batch_size (64), not 65",
        ),
        (
            block("{}", trainer="other"),
            "behaviors.B.network_settings.memory: trainer 'other' learns no policy with memory; leave it out, or "
            "choose trainer_type ppo",
        ),
    ],
)
def test_what_cannot_work_is_refused_with_its_place(errors: Errors, text: str, message: str) -> None:
    assert message in "\n".join(errors(text))
