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


def test_a_file_of_rl_zoo_is_one_message_that_names_the_page(errors: Errors) -> None:
    assert errors(ZOO) == [
        "c.yaml:1: CartPole-v1: a file of RL Zoo, whose keys have other names here: docs/how-to/stable-baselines3.md "
        "turns such a file into one of rlcore, step by step; also 'Pendulum-v1'"
    ]


@pytest.mark.parametrize("key", ["ent_coef: 0.1", "clip_range: 0.2", "learning_starts: 5", "policy_kwargs: x"])
def test_one_key_tells_a_file_of_rl_zoo(errors: Errors, key: str) -> None:
    (message,) = errors(f"Ant-v4:\n  batch_size: 64\n  {key}\n")
    assert message.startswith("c.yaml:1: Ant-v4: a file of RL Zoo, ")


RLLIB = "cartpole-ppo:\n  env: CartPole-v1\n  run: PPO\n  stop: {timesteps_total: 1000}\n  config: {lr: 0.1}\n"


def test_a_file_of_rllib_is_one_message_and_its_keys_say_what_to_write(errors: Errors) -> None:
    (message,) = errors(RLLIB)
    assert message.startswith("c.yaml:1: cartpole-ppo: a file of RLlib, whose keys have other names here: write env")
    assert errors(f"{BEHAVIOR}    hyperparameters: {{lr: 0.1}}\n") == [
        "c.yaml:4: behaviors.B.hyperparameters.lr: a key of RLlib: write hyperparameters.learning_rate"
    ]
    assert not any("RLlib" in message for message in errors("acme_tracker: {run: here}\n"))


@pytest.mark.parametrize("key", ["seed: 1", "device: cpu", "verbose: 1"])
def test_keys_of_everyone_do_not_tell_a_file_of_rl_zoo(errors: Errors, key: str) -> None:
    assert not any("RL Zoo" in message for message in errors(f"acme_tracker: {{{key}}}\n"))


def test_a_block_beside_behaviors_is_not_taken_for_one_of_rl_zoo(errors: Errors) -> None:
    (message,) = errors(f"{BEHAVIOR}tracker: {{policy: all}}\n")
    assert message.startswith("c.yaml:4: tracker: unknown key (allowed: ")


@pytest.mark.parametrize(
    ("key", "instead"),
    [
        ("n_timesteps: 5", f"{SB3}: write max_steps, in the behavior"),
        ("gae_lambda: 0.9", f"{SB3}: write hyperparameters.lambd"),
        ("n_steps: 32", f"{SB3}: write hyperparameters.buffer_size, which is n_steps times n_envs"),
        ("use_sde: true", f"{SB3}, which rlcore lacks: delete this key"),
        ("seed: 3", f"{SB3}: write env_settings.seed"),
        ("hidden_sizes: [8]", "a key of Tianshou: write network_settings.hidden_units and num_layers"),
    ],
)
def test_a_key_of_another_framework_gets_the_key_to_write(errors: Errors, key: str, instead: str) -> None:
    assert errors(f"{BEHAVIOR}    {key}\n") == [f"c.yaml:4: behaviors.B.{key.partition(':')[0]}: {instead}"]


@pytest.mark.parametrize("key", ["train_freq", "gradient_steps"])
def test_the_ratio_of_steps_and_updates_has_both_keys(errors: Errors, key: str) -> None:
    (message,) = errors(f"{BEHAVIOR}    hyperparameters: {{{key}: 4}}\n")
    assert message.endswith(
        f"{SB3}: write hyperparameters.steps_per_update, which is train_freq times num_envs, divided by "
        "gradient_steps (1 for gradient_steps: -1)"
    )


@pytest.mark.parametrize(("key", "schedule"), [("clip_range", "epsilon_schedule"), ("ent_coef", "beta_schedule")])
def test_a_constant_of_sb3_stays_constant(errors: Errors, key: str, schedule: str) -> None:
    (message,) = errors(f"{BEHAVIOR}    hyperparameters: {{{key}: 0.1}}\n")
    assert f"with {schedule}: constant" in message


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


@pytest.mark.parametrize(
    ("key", "value", "hint"),
    [
        ("learning_rate", "lin_0.001", "write 0.001 with learning_rate_schedule: linear"),
        ("learning_rate", "lin_2.5e-4", "write 2.5e-4 with learning_rate_schedule: linear"),
        ("epsilon", "lin_0.2", "write 0.2 with epsilon_schedule: linear and final_epsilon: 0.0"),
    ],
)
def test_a_linear_value_of_rl_zoo_gets_the_schedule(errors: Errors, key: str, value: str, hint: str) -> None:
    (message,) = errors(f"{BEHAVIOR}    hyperparameters: {{{key}: {value}}}\n")
    assert message.startswith(f"c.yaml:4: behaviors.B.hyperparameters.{key}: must be ")
    assert message.endswith(f", not '{value}'; {hint}")


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
