"""Files, keys and values of Stable-Baselines3, RL Zoo, Tianshou and RLlib: each message says what to write instead."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rlcore.config.hints import foreign_keys, value_hint

Errors = Callable[..., list[str]]

BEHAVIOR = "behaviors:\n  B:\n    trainer_type: ppo\n"
SB3 = "a key of Stable-Baselines3 and RL Zoo"
ZOO = """\
CartPole-v1:
  n_envs: 8
  n_timesteps: !!float 1e5
  policy: 'MlpPolicy'
  n_steps: 32
  batch_size: 256
  learning_rate: lin_0.001
  clip_range: lin_0.2

Pendulum-v1:
  policy: 'MlpPolicy'
  learning_starts: 100
"""


RLLIB = "cartpole-ppo:\n  env: CartPole-v1\n  run: PPO\n  stop: {timesteps_total: 1000}\n  config: {lr: 0.1}\n"


@pytest.mark.parametrize(
    "block", ["{key}: 1", "hyperparameters: {{{key}: 1}}", "network_settings: {{{key}: 1}}", "environment"]
)
@pytest.mark.parametrize("key", foreign_keys()["stable_baselines3"])
def test_a_known_key_is_never_guessed(errors: Errors, block: str, key: str) -> None:
    if block == "environment":
        messages = errors(f"{BEHAVIOR}environment: {{type: grid, {key}: 1}}\n")
    else:
        messages = errors(f"{BEHAVIOR}    {block.format(key=key)}\n")
    assert messages and not any("did you mean" in message for message in messages)
    assert all(key in message for message in messages)


# ------------------------------------------------------------ values


@pytest.mark.parametrize(("value", "number"), [("auto", "1.0"), ("auto_0.1", "0.1")])
def test_an_automatic_temperature_gets_its_start(value: str, number: str) -> None:
    path = ("behaviors", "B", "hyperparameters", "init_entcoef")
    assert value_hint(path, value) == f"; write {number}, from which it is learned while learn_entcoef is true"


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("hyperparameters", "learning_rate"), "lin_fast"),
        (("hyperparameters", "batch_size"), "lin_5"),
        (("acme", "learning_rate"), "lin_0.1"),
        (("hyperparameters", "init_entcoef"), "automatic"),
        (("learning_rate",), "lin_0.1"),
    ],
)
def test_other_texts_have_no_hint(path: tuple[str, ...], value: str) -> None:
    assert value_hint(path, value) == ""
