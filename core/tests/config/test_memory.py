"""``network_settings.memory`` is checked against the trainer, its minibatches and what else the behavior asks for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rlcore_torch import MemorySettings

Errors = Callable[[str], list[str]]

BLOCK = "behaviors: {{B: {{trainer_type: {trainer}, network_settings: {{memory: {memory}}}, {rest}}}}}"


def block(memory: str, trainer: str = "ppo", rest: str = "") -> str:
    return BLOCK.format(memory=memory, trainer=trainer, rest=rest)


def test_an_empty_block_is_ml_agents_default(load: Any) -> None:
    config = load(block("{}"))
    assert config.behaviors["B"].network_settings.memory == MemorySettings(memory_size=128, sequence_length=64)
    assert load(block("null")).behaviors["B"].network_settings.memory is None
