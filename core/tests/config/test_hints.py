"""Keys in the wrong block, keys and files of older versions of ML-Agents: one message that says what to write."""

from __future__ import annotations

from collections.abc import Callable

import pytest

Errors = Callable[..., list[str]]

BEHAVIOR = "behaviors:\n  B:\n    trainer_type: ppo\n"


OLD = """\
default:
  trainer: ppo
  batch_size: 1024
  beta: 5.0e-3
  hidden_units: 128
  max_steps: 5.0e5
  memory_size: 256
  use_recurrent: false
  summary_freq: 1000
  reward_signals:
    extrinsic: {strength: 1.0, gamma: 0.99}

Hopper:
  normalize: true
  max_steps: 2e6
"""


# ---------------------------------------------------------------- files of ML-Agents


def test_threads_change_nothing(load: Callable[..., object]) -> None:
    assert load(f"{BEHAVIOR}    threaded: true\n").behaviors["B"].threaded


# ---------------------------------------------------------------- behaviors that an environment does not name


@pytest.mark.parametrize("behaviors", ["default_settings: {}", "behaviors: {A: {}, B: {}}"])
@pytest.mark.parametrize(
    "environment", ["environment: {type: lone}", "evaluation: {interval: 5, environment: {type: lone}}"]
)
def test_an_environment_without_names_needs_one_behavior(
    load: Callable[..., object], behaviors: str, environment: str
) -> None:
    load(f"behaviors: {{A: {{}}}}\n{environment}\n")
    load(f"{behaviors}\n{environment.replace('lone', 'grid')}\n")
