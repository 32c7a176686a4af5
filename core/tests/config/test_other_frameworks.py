"""Keys and values of Stable-Baselines3 and RL Zoo: each message says what to write instead."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rlcore.config.hints import foreign_keys, value_hint

BLOCKS = (
    "behaviors: {{B: {{trainer_type: ppo, {key}: 1}}}}",
    "behaviors: {{B: {{trainer_type: ppo, hyperparameters: {{{key}: 1}}}}}}",
    "behaviors: {{B: {{network_settings: {{{key}: 1}}}}}}",
    "behaviors: {{B: {{}}}}\nenvironment: {{type: grid, {key}: 1}}",
)
LEARNED = ", from which it is learned while learn_entcoef is true"


@pytest.mark.parametrize("block", BLOCKS)
def test_a_known_key_is_never_guessed(errors: Callable[..., list[str]], block: str) -> None:
    for key in foreign_keys()["stable_baselines3"]:
        messages = errors(block.format(key=key))
        assert messages and not any("did you mean" in message for message in messages)
        assert all(key in message for message in messages)


@pytest.mark.parametrize(
    ("path", "value", "hint"),
    [
        ("hyperparameters.init_entcoef", "auto", f"; write 1.0{LEARNED}"),
        ("hyperparameters.init_entcoef", "auto_0.1", f"; write 0.1{LEARNED}"),
        ("hyperparameters.learning_rate", "lin_3e-4", "; write 3e-4 with learning_rate_schedule: linear"),
        ("hyperparameters.learning_rate", "lin_fast", ""),
        ("hyperparameters.batch_size", "lin_5", ""),
        ("acme.learning_rate", "lin_0.1", ""),
        ("hyperparameters.init_entcoef", "automatic", ""),
        ("learning_rate", "lin_0.1", ""),
    ],
)
def test_values_of_rl_zoo_say_what_to_write_instead_and_other_texts_nothing(path: str, value: str, hint: str) -> None:
    assert value_hint(tuple(path.split(".")), value) == hint
