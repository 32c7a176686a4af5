# mypy: allow-untyped-calls
"""The off-policy template with gradient steps that only count: when they come, on what, and what the trainer keeps."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from statistics import NormalDist
from typing import Any

import attrs
import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from run_of_trainers import run_of

from rlcore import (
    BehaviorSettings,
    ConfigError,
    Environment,
    ExtrinsicReward,
    RewardProvider,
    RunStateError,
    TrainingDiverged,
    Transitions,
    UnsupportedSpace,
)
from rlcore_devkit.conformance.loop import first_batch, learn, play
from rlcore_devkit.conformance.states import copied
from rlcore_devkit.environments import ConstantReward, IdentityEnvironment, TinyCorridor, identity_hybrid
from rlcore_torch import (
    Actor,
    GradientStep,
    NetworkSettings,
    OffPolicySettings,
    OffPolicyTrainer,
    Optimizer,
    SquashedGaussian,
    TransitionBatch,
)
from rlcore_torch.settings import PrioritizedSamplerSettings


class CountingReward(ExtrinsicReward):
    """A reward that learns, or says it does."""

    updates = 0

    def update(self, transitions: Transitions) -> Mapping[str, float]:
        self.updates += 1
        return {"Losses/Counted": float(self.updates)}


class Counter(OffPolicyTrainer):
    """A whole trainer but for its gradient step."""

    squashed = True
    error: float | None = None  # the temporal-difference error of every transition
    loss = 0.0
    taken = 0
    first_step = 0  # agent steps before the first gradient step
    last: Any = None  # batch

    def build_model(self, value_heads: int) -> Actor:
        distribution = SquashedGaussian(self.behavior) if self.squashed else None
        return Actor(self.behavior, self.settings.network_settings, distribution)

    def build_optimizers(self) -> Mapping[str, Optimizer]:
        return {"policy": self.make_optimizer(self.model.parameters())}

    def gradient_step(self, batch: TransitionBatch) -> GradientStep:
        self.taken += 1
        self.first_step = self.first_step or self.steps
        self.last = batch
        td_error = None if self.error is None else torch.full((self.hyperparameters.batch_size,), self.error)
        return GradientStep({"Losses/Nothing": torch.tensor(self.loss)}, td_error)


def counter(
    environment: Environment,
    providers: list[RewardProvider] | None = None,
    inference: bool = False,
    network: Mapping[str, Any] = {},
    kind: type[Counter] = Counter,
    **hyperparameters: Any,
) -> Counter:
    [behavior] = environment.behaviors.values()
    behavior_settings = BehaviorSettings(
        trainer_type="counter",
        hyperparameters=OffPolicySettings(**{"batch_size": 1, "buffer_size": 1000, **hyperparameters}),
        network_settings=NetworkSettings(hidden_units=2, num_layers=0, **network),
        reward_signals={f"reward {k}": None for k in range(len(providers or [0]))},
        max_steps=1000,
    )
    return kind(behavior_settings, behavior, run_of(*providers or (), inference=inference))


def resumed(trainer: Counter, environment: Environment, **settings: Any) -> Counter:
    """A new trainer with the state of ``trainer``."""
    new = counter(environment, **settings)
    new.load_state_dict(copied(trainer.state_dict()))
    return new


# ---------------------------------------------------------------- how many gradient steps


@pytest.mark.parametrize(
    ("start", "counts_from"), [({}, 1), ({"buffer_init_steps": 100}, 100), ({"batch_size": 100}, 100)]
)
@pytest.mark.parametrize(("envs", "steps_per_update"), [(1, 1.0), (3, 0.3), (8, 2.5)])
def test_gradient_steps_are_counted_exactly(
    monkeypatch: pytest.MonkeyPatch, envs: int, steps_per_update: float, start: dict[str, Any], counts_from: int
) -> None:
    environment = ConstantReward(envs, max_steps=10**9)
    trainer = counter(environment, steps_per_update=steps_per_update, **start)
    monkeypatch.setattr(trainer.reader, "read", lambda rows, *_: rows)  # what a batch holds is another test's business
    learn(trainer, environment, 1000 // envs)
    counted = 1000 // envs * envs - counts_from
    assert trainer.gradient_steps == trainer.taken == int(10 * counted) // int(10 * steps_per_update)
    assert trainer.first_step >= counts_from


@pytest.mark.parametrize("delay", [1, 2, 3, 100])
def test_a_statistic_is_the_mean_of_the_gradient_steps_that_have_it(
    monkeypatch: pytest.MonkeyPatch, delay: int
) -> None:
    """A delayed actor (TD3) has no loss in most steps."""
    environment = identity_hybrid(3)
    trainer = counter(environment, batch_size=6, steps_per_update=0.5)
    taken: list[int] = []

    def gradient_step(batch: TransitionBatch) -> GradientStep:
        taken.append(count := len(taken) + 1)
        stats = {"Losses/Critic": float(count)} | ({"Losses/Actor": count / 7} if count % delay == 0 else {})
        in_any_order = stats.items() if count % 2 else reversed(stats.items())
        return GradientStep({tag: torch.tensor(value) for tag, value in in_any_order})

    monkeypatch.setattr(trainer, "gradient_step", gradient_step)
    updates = learn(trainer, environment, 6)
    assert len(taken) == 24
    for number, stats in enumerate(updates):
        counts = taken[6 * number : 6 * number + 6]
        delayed = [count / 7 for count in counts if count % delay == 0]
        assert stats["Losses/Critic"] == np.mean(counts)
        assert stats.get("Losses/Actor") == (pytest.approx(np.mean(delayed)) if delayed else None)


# ---------------------------------------------------------------- the random beginning


def chi_squared(counts: NDArray[np.int64]) -> float:
    """The chi-squared statistic of counts that should all be equal."""
    expected = counts.sum() / len(counts)
    return float((np.square(counts - expected) / expected).sum())


def test_the_beginning_is_uniform_over_ranges_and_options() -> None:
    environment = identity_hybrid(8)
    trainer = counter(environment, buffer_init_steps=8 * 500, batch_size=8, buffer_size=4096)
    with torch.no_grad():  # a policy that would always do the same
        trainer.model.policy_head.linear.bias.add_(torch.tensor([3.0, 3.0, -9.0, -9.0, 50.0, 0.0, 0.0]))
    trainer.policy.refresh()
    taken: list[Any] = [actions for _, actions, *_ in play(trainer, environment, 500)]
    raw = np.concatenate([actions.continuous for actions in taken])  # [4000, 2]
    choices = np.concatenate([actions.discrete for actions in taken])  # [4000, 1]
    for part in raw.T:  # 31 is exceeded with probability 0.0003 by 9 degrees of freedom, 16 with the same by 2
        assert chi_squared(np.histogram(part, 10, (-1, 1))[0]) < 31
    assert chi_squared(np.bincount(choices[:, 0], minlength=3)) < 16
    after: Any
    [(_, after, *_)] = play(trainer, environment, 1)
    assert (after.continuous > 0.99).all() and (after.discrete == 0).all(), "then the policy acts"


def unbounded(slots: int, least: float = -np.inf) -> Environment:
    """Hybrid actions; the second continuous part has no upper bound, and this lower one."""
    environment = identity_hybrid(slots)
    [(name, behavior)] = environment.behaviors.items()
    low = np.array([-3.0, least], np.float32)
    high = np.array([5.0, np.inf], np.float32)
    environment.behaviors = {name: attrs.evolve(behavior, low=low, high=high)}
    return environment


def test_the_beginning_is_standard_normal_in_a_part_without_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Counter, "squashed", False)
    trainer = counter(environment := unbounded(8), buffer_init_steps=8 * 500, batch_size=8, buffer_size=4096)
    taken: list[Any] = [actions.continuous for _, actions, *_ in play(trainer, environment, 500)]
    bounded, free = np.concatenate(taken).T
    deciles = [NormalDist().inv_cdf(k / 10) for k in range(1, 10)]
    for counts in (np.histogram(bounded, 10, (-3, 5))[0], np.bincount(np.searchsorted(deciles, free), minlength=10)):
        assert counts.sum() == 4000 and chi_squared(counts) < 31


@pytest.mark.parametrize(
    ("named", "told"),
    [
        (None, "counter acts within bounds only; give .* or choose trainer_type ppo$"),
        ("beta", "action_distribution 'beta' acts within .* or choose action_distribution gaussian$"),
    ],
)
def test_a_bounded_distribution_is_refused_such_an_action(named: str | None, told: str) -> None:
    with pytest.raises(
        UnsupportedSpace, match=rf"part 1 of the 2 continuous parts .* the bounds -1 and inf, and {told}"
    ):
        counter(unbounded(2, -1.0), network={"action_distribution": named})


# ---------------------------------------------------------------- the noise of losses


class SoftCounter(Counter):
    soft_values = True


@pytest.mark.parametrize("n_steps", [1, 3])
def test_the_noise_of_a_gradient_step_is_drawn_in_one_order(n_steps: int) -> None:
    environment = identity_hybrid(2)
    trainer = counter(environment, kind=SoftCounter, batch_size=4, n_steps=n_steps)
    learn(trainer, environment, 20)
    generator = np.random.default_rng()
    generator.bit_generator.state = trainer.generator.bit_generator.state
    noise = trainer.step_noise(trainer.last)
    np.testing.assert_array_equal(noise.here, generator.standard_normal((4, 2), np.float32))
    np.testing.assert_array_equal(noise.next, generator.standard_normal((4, 2), np.float32))
    if n_steps == 1:
        assert noise.between is None
    else:
        np.testing.assert_array_equal(noise.between, generator.standard_normal((8, 2), np.float32))
    drawn = generator.standard_normal((4, 2), np.float32)
    expected = (0.3 * drawn).clip(-0.35, 0.35)
    assert 0 < (np.abs(expected) == np.float32(0.35)).sum() < expected.size
    np.testing.assert_array_equal(trainer.smoothing_noise(trainer.last, 0.3, 0.35), expected)
    assert trainer.smoothing_noise(trainer.last, 0.0, 0.35) is None
    assert trainer.generator.bit_generator.state == generator.bit_generator.state


def test_without_continuous_parts_noise_has_no_columns() -> None:
    environment = TinyCorridor(2)
    trainer = counter(environment, batch_size=4)
    learn(trainer, environment, 10)
    before = trainer.generator.bit_generator.state
    noise = trainer.step_noise(trainer.last)
    assert noise.here.shape == noise.next.shape == (4, 0)
    assert trainer.generator.bit_generator.state == before


# ---------------------------------------------------------------- prioritized replay


def prioritized(error: float | None, **hyperparameters: Any) -> tuple[Counter, TinyCorridor]:
    environment = TinyCorridor(2)
    trainer = counter(environment, replay_sampler=PrioritizedSamplerSettings(alpha=0.5, beta=0.4), **hyperparameters)
    trainer.error = error
    return trainer, environment


def test_a_trainer_without_td_errors_is_refused_prioritized_replay() -> None:
    trainer, environment = prioritized(None)
    with pytest.raises(ConfigError) as refused:
        learn(trainer, environment, 5)
    assert str(refused.value) == (
        "behavior 'Corridor': replay_sampler 'prioritized' needs temporal-difference errors, which trainer "
        "'counter' does not give; choose another one"
    )


def test_priorities_are_those_of_the_errors() -> None:
    trainer, environment = prioritized(9.0, batch_size=4)
    learn(trainer, environment, 60)
    priorities = trainer.buffer.priorities
    assert priorities is not None
    priorities.refresh(trainer.buffer.flags)
    leaves = priorities.tree.leaves[trainer.buffer.flags != 0]
    assert leaves == pytest.approx((9.0 + 1e-6) ** 0.5), "and what is new has the largest so far"
    assert len(leaves) == 120 == trainer.steps


def test_the_exponent_of_the_weights_grows_linearly_until_max_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    trainer, environment = prioritized(1.0)
    betas = []
    sample = trainer.buffer.sample_prioritized

    def spy(*given: Any) -> Any:
        betas.append((trainer.steps, given[-1]))
        return sample(*given)

    monkeypatch.setattr(trainer.buffer, "sample_prioritized", spy)
    learn(trainer, environment, 600)
    assert betas[-1] == (1200, 1.0)
    for steps, beta in betas:
        assert beta == pytest.approx(0.4 + 0.6 * min(1, steps / 1000))


# ---------------------------------------------------------------- the normalizer


def test_the_normalizer_has_the_mean_and_variance_of_every_observation_once() -> None:
    """Count each that an agent is asked to act on, the last ones included."""
    environment = IdentityEnvironment(5, continuous=3, episode_length=2)
    trainer = counter(environment, network={"normalize": True}, batch_size=4, steps_per_update=0.5)
    [name], random, batch = environment.behaviors, np.random.default_rng(0), first_batch(environment)
    trainer.begin(batch)
    seen = [*batch.observations.values()]
    for _ in range(50):
        actions = trainer.act(batch)
        batch = environment.step({name: actions})[name]
        batch.needs_action = random.random(environment.num_envs) < 0.7
        trainer.observe(actions, batch)
        seen += [each[batch.needs_action] for each in batch.observations.values()]
    everything = np.concatenate(seen).astype(np.float64)
    normalizer: Any = trainer.model.inputs.normalizer
    assert normalizer.count == len(everything)
    np.testing.assert_allclose(normalizer.mean, everything.mean(0), rtol=1e-12)
    np.testing.assert_allclose(normalizer.m2 / normalizer.count, everything.var(0), rtol=1e-12)


# ---------------------------------------------------------------- resuming


def test_without_the_buffer_learning_waits_for_a_batch_and_owes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "rlcore")  # how large a buffer is, is said too
    environment = TinyCorridor(3)
    h: dict[str, Any] = {"batch_size": 30, "steps_per_update": 0.5, "buffer_init_steps": 45}
    trainer = counter(environment, **h)
    learn(trainer, environment, 50)
    assert trainer.gradient_steps == (150 - 45) * 2
    other = resumed(trainer, environment, **h)
    assert [record.getMessage() for record in caplog.records] == [
        "behavior 'Corridor': the checkpoint has no replay buffer, so learning goes on when 30 new transitions are "
        "stored; hyperparameters.save_replay_buffer: true keeps the buffer in checkpoints"
    ]
    batch = first_batch(environment)
    taken = []
    for _ in range(12):  # without begin(): an environment that saves itself continues where it was
        actions = other.act(batch)
        batch = environment.step({"Corridor": actions})["Corridor"]
        other.observe(actions, batch)
        if other.ready():
            other.update()
        taken.append(other.gradient_steps - trainer.gradient_steps)
    assert taken == [0] * 10 + [6, 12]


@pytest.mark.parametrize("cut", [39, 40, 43, 47, 48])
def test_a_trainer_that_is_resumed_within_a_group_of_gradient_steps_takes_it_when_it_was_due(cut: int) -> None:
    """Groups of four, for every eighth agent step after the 32 at the beginning; before and after one, and between."""
    h: dict[str, Any] = {"batch_size": 4, "buffer_init_steps": 32, "steps_per_update": 2.0, "gradient_steps": 4}
    h["save_replay_buffer"] = True
    environment = TinyCorridor(1)
    trainer = counter(environment, **h)
    batch = first_batch(environment)
    trainer.begin(batch)
    due = []  # agent steps at which an update was made, with its gradient steps
    for step in range(1, 66):
        actions = trainer.act(batch)
        batch = environment.step({"Corridor": actions})["Corridor"]
        trainer.observe(actions, batch)
        if trainer.ready():
            before = trainer.gradient_steps
            trainer.update()
            due.append((step, trainer.gradient_steps - before))
        if step == cut:
            trainer = resumed(trainer, environment, **h)
    assert due == [(40, 4), (48, 4), (56, 4), (64, 4)]


def test_without_the_buffer_a_random_beginning_is_not_cut_short() -> None:
    environment = TinyCorridor(3)
    h = {"batch_size": 6, "buffer_init_steps": 90}
    trainer = counter(environment, **h)
    learn(trainer, environment, 10)
    other = resumed(trainer, environment, **h)
    learn(other, environment, 30)
    assert other.first_step == 93
    with pytest.raises(RunStateError, match=r"the checkpoint is of 3 agents, this run has 2; set environment.num_envs"):
        resumed(trainer, TinyCorridor(2), **h)


@pytest.mark.parametrize("buffer", [False, True])
def test_a_resumed_normalizer_takes_no_observation_twice(buffer: bool) -> None:
    environment = IdentityEnvironment(3, continuous=2)
    settings: dict[str, Any] = {"network": {"normalize": True}, "save_replay_buffer": buffer}
    trainer = counter(environment, **settings)
    learn(trainer, environment, 10)
    other = resumed(trainer, environment, **settings)
    other.act(first_batch(environment))  # which the trainer saw before: the environment continues with it
    normalizer: Any = other.model.inputs.normalizer
    assert normalizer.count == 33


# ---------------------------------------------------------------- rewards that learn, bad input


@pytest.mark.parametrize(("of_its_own", "updates", "last_mean"), [(None, 20, 20), (3.0, 13, 13), (0.5, 80, 78.5)])
def test_rewards_that_learn_have_a_ratio_of_their_own_and_their_statistics_are_averaged(
    of_its_own: float | None, updates: int, last_mean: float
) -> None:
    environment = TinyCorridor(1)
    reward = CountingReward()
    trainer = counter(
        environment,
        providers=[ExtrinsicReward(), reward],
        steps_per_update=2.0,
        reward_signal_steps_per_update=of_its_own,
    )
    stats = learn(trainer, environment, 41)
    assert trainer.gradient_steps == 20 and reward.updates == updates
    assert [s["Losses/Counted"] for s in stats if "Losses/Counted" in s][-1] == last_mean


@pytest.mark.parametrize(
    ("sampler", "error", "told"),
    [
        (None, None, "Losses/Nothing is nan"),
        (PrioritizedSamplerSettings(), float("nan"), "a temporal-difference error is .*"),
        (PrioritizedSamplerSettings(), float("inf"), "a temporal-difference error is .*"),
    ],
)
def test_what_is_not_finite_ends_the_run_with_advice(sampler: Any, error: float | None, told: str) -> None:
    environment = TinyCorridor(1)
    trainer = counter(environment, **({} if sampler is None else {"replay_sampler": sampler}))
    trainer.error, trainer.loss = error, error or float("nan")
    with pytest.raises(TrainingDiverged, match=rf"at step 2 \({told}\); the largest reward is .*; lower learning_rate"):
        learn(trainer, environment, 3)
