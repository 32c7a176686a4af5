"""Settings refuse bad values, and each does what its description says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import numpy as np
import pytest

from rlcore import ConfigError, UnsupportedSpace, config_from_mapping, load_plugins
from rlcore_devkit.conformance.trainer import learn, play
from rlcore_devkit.environments import TinyCorridor, identity_continuous, identity_discrete, identity_hybrid
from rlcore_sac.settings import SACSettings
from rlcore_sac.trainer import SACTrainer
from rlcore_torch import GradientStep, TransitionBatch, allocation

MakeTrainer = Callable[..., SACTrainer]


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"tau": 0}, "tau: must be greater than 0, not 0"),
        ({"tau": 1.5}, "tau: must be at most 1, not 1.5"),
        ({"taus": 0.1}, "taus: unknown key; did you mean 'tau'?"),
        ({"init_entcoef": 0}, "init_entcoef: must be greater than 0, not 0"),
        ({"learn_entcoef": 1}, "learn_entcoef: must be true or false, not 1"),
        ({"continuous_target_entropy": float("nan")}, "continuous_target_entropy: must be a finite number, not nan"),
        ({"discrete_target_entropy": 1.1}, "discrete_target_entropy: must be at most 1, not 1.1"),
        ({"discrete_target_entropy": -0.1}, "discrete_target_entropy: must be at least 0, not -0.1"),
        ({"batch_size": 0}, "batch_size: must be at least 1, not 0"),
        ({"batch_size": 10, "buffer_size": 9}, "batch_size: must be at most buffer_size (9), not 10"),
        ({"buffer_init_steps": -1}, "buffer_init_steps: must be at least 0, not -1"),
        ({"steps_per_update": 0}, "steps_per_update: must be greater than 0, not 0"),
        ({"steps_per_update": float("inf")}, "steps_per_update: must be a finite number, not inf"),
        ({"reward_signal_steps_per_update": 0}, "reward_signal_steps_per_update: must be greater than 0, not 0"),
        ({"n_steps": 0}, "n_steps: must be at least 1, not 0"),
        ({"n_steps": 1.5}, "n_steps: must be a whole number, not 1.5"),
        ({"replay_sampler": {"type": "prioritized", "alpha": -1}}, "replay_sampler.alpha: must be at least 0, not -1"),
        ({"replay_sampler": {"type": "prioritized", "beta": 2}}, "replay_sampler.beta: must be at most 1, not 2"),
        ({"replay_sampler": True}, "replay_sampler: must be a mapping of settings, not true"),
        ({"learning_rate": 0}, "learning_rate: must be greater than 0, not 0"),
        (
            {"learning_rate_schedule": "cosin"},
            "learning_rate_schedule: unknown schedule 'cosin'",
        ),
    ],
)
def test_a_bad_value_is_told_in_one_sentence(given: dict[str, Any], problem: str) -> None:
    block = {"trainer_type": "sac", "hyperparameters": given}
    with pytest.raises(ConfigError) as refused:
        config_from_mapping({"behaviors": {"Walker": block}}, load_plugins())
    assert str(refused.value).startswith(f"behaviors.Walker.hyperparameters.{problem}")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(("low", "high"), [(-1.0, np.inf), (-np.inf, 1.0), (-np.inf, np.inf)])
def test_an_action_without_bounds_is_refused_with_its_part(make_trainer: MakeTrainer, low: float, high: float) -> None:
    """SAC would explore such an action within [-1, 1] only."""
    environment = identity_continuous(2)
    [(name, behavior)] = environment.behaviors.items()
    bounds = {"low": np.array([-1.0, low], np.float32), "high": np.array([1.0, high], np.float32)}
    environment.behaviors = {name: attrs.evolve(behavior, **bounds)}
    with pytest.raises(UnsupportedSpace) as refused:
        make_trainer(environment)
    assert str(refused.value) == (
        f"behavior 'Identity': part 1 of the 2 continuous parts of an action has the bounds {low:g} and {high:g}, and "
        "sac acts within bounds only; give the action space finite bounds, or choose trainer_type ppo"
    )


def test_names_and_defaults_are_those_of_ml_agents() -> None:
    settings = SACSettings()
    assert (settings.batch_size, settings.buffer_size, settings.buffer_init_steps) == (128, 50_000, 0)
    assert (settings.learning_rate, settings.learning_rate_schedule) == (3e-4, "constant")
    assert (settings.tau, settings.steps_per_update, settings.init_entcoef) == (0.005, 1.0, 1.0)
    assert settings.save_replay_buffer is False and settings.reward_signal_steps_per_update is None


def test_a_buffer_larger_than_memory_is_refused_before_it_is_made(
    make_trainer: MakeTrainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(allocation, "available_memory", lambda: 2**20)
    with pytest.raises(ConfigError) as refused:
        make_trainer(identity_hybrid(2), buffer_size=10**8)
    assert str(refused.value).startswith(
        "behaviors.Identity.hyperparameters.buffer_size: 100000000 rows of behavior 'Identity' need 3.2 GiB of "
        "memory and 1.0 MiB are available; at most "
    )


def test_priorities_follow_the_temporal_difference_errors(
    make_trainer: MakeTrainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = TinyCorridor(2)
    trainer = make_trainer(
        environment, replay_sampler={"type": "prioritized", "alpha": 0.7, "beta": 0.5}, batch_size=16
    )
    priorities = trainer.buffer.priorities
    assert priorities is not None
    drawn: list[Any] = []
    sample, step = trainer.buffer.sample_prioritized, trainer.gradient_step

    def sampled(*arguments: Any) -> Any:
        drawn.append(sample(*arguments))
        return drawn[-1]

    def learned(batch: TransitionBatch) -> GradientStep:
        outcome = step(batch)
        assert batch.weight is not None and outcome.td_error is not None
        np.testing.assert_array_equal(batch.weight, drawn[-1][1])
        drawn.append(outcome.td_error.numpy())
        return outcome

    monkeypatch.setattr(trainer.buffer, "sample_prioritized", sampled)
    monkeypatch.setattr(trainer, "gradient_step", learned)
    seen = 0
    for _, _, stats in play(trainer, environment, 100):
        if stats is None:
            continue
        (rows, weights), errors = drawn[-2:]
        assert weights.max() == 1.0 and (weights > 0).all() and np.isfinite(errors).all()
        last = {int(row): error for row, error in zip(rows, errors, strict=True)}  # of a row drawn twice
        leaves = priorities.tree.leaves[list(last)]
        np.testing.assert_allclose(leaves, (np.abs(list(last.values())) + 1e-6) ** 0.7, rtol=1e-6)
        seen += 1
    assert seen > 50


def test_the_mean_is_what_a_deterministic_policy_does_in_training(make_trainer: MakeTrainer) -> None:
    environment = identity_continuous(4)
    trainer = make_trainer(environment, network={"deterministic": True})
    batch = next(iter(environment.reset(lambda c, e: c, np.zeros(4, np.int64)).values()))  # type: ignore[arg-type]
    trainer.begin(batch)
    ours, theirs = trainer.act(batch).continuous, trainer.policy.act(batch.observations).continuous
    assert ours is not None and theirs is not None
    np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize(("target", "steps"), [(-1.0, 400), (0.0, 250)])
def test_the_temperature_brings_entropy_to_its_target(make_trainer: MakeTrainer, target: float, steps: int) -> None:
    """The target entropies of two parts, each at -1 nats or at 0."""
    environment = identity_continuous(4)
    trainer = make_trainer(
        environment,
        continuous_target_entropy=target,
        block={"reward_signals": {"extrinsic": {"gamma": 0.5}}},
        init_entcoef=0.1,
        tau=0.05,
    )
    updates = learn(trainer, environment, steps)
    reached = np.mean([stats["Policy/Entropy"] for stats in updates[-100:]])
    assert reached == pytest.approx(2 * target, abs=0.2)


def test_the_temperature_of_a_branch_brings_entropy_to_its_share(make_trainer: MakeTrainer) -> None:
    environment = identity_discrete(4)
    block = {"reward_signals": {"extrinsic": {"gamma": 0.5}}}
    trainer = make_trainer(environment, discrete_target_entropy=0.6, block=block, init_entcoef=0.1, tau=0.05)
    updates = learn(trainer, environment, 300)
    reached = np.mean([stats["Policy/Entropy"] for stats in updates[-100:]])
    assert reached == pytest.approx(0.6 * np.log(4), abs=0.05)
