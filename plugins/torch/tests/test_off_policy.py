# mypy: allow-untyped-calls
"""The off-policy template with gradient steps that only count: when they come, on what, and what the trainer keeps."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from run_of_trainers import run_of
from torch import Tensor

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
from rlcore_devkit.conformance.states import copied
from rlcore_devkit.conformance.trainer import first_batch, learn, play
from rlcore_devkit.environments import ConstantReward, IdentityEnvironment, TinyCorridor, identity_hybrid
from rlcore_torch import (
    Actor,
    GradientStep,
    NetworkSettings,
    OffPolicySettings,
    OffPolicyTrainer,
    Optimizer,
    PrioritizedSamplerSettings,
    SquashedGaussian,
    TransitionBatch,
    allocation,
)


class CountingReward(ExtrinsicReward):
    """A reward that learns, or says it does."""

    def __init__(self) -> None:
        super().__init__()
        self.updates = 0

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
    raw: Tensor | None = None  # of the last batch
    choices: Tensor | None = None

    def build_model(self, value_heads: int) -> Actor:
        distribution = SquashedGaussian(self.behavior) if self.squashed else None
        return Actor(self.behavior, self.settings.network_settings, distribution)

    def build_optimizers(self) -> Mapping[str, Optimizer]:
        return {"policy": self.make_optimizer(self.model.parameters())}

    def gradient_step(self, batch: TransitionBatch) -> GradientStep:
        self.taken += 1
        self.first_step = self.first_step or self.steps
        if isinstance(batch, TransitionBatch):
            self.raw, self.choices = batch.raw, batch.choices
        td_error = None if self.error is None else torch.full((self.hyperparameters.batch_size,), self.error)
        return GradientStep({"Losses/Nothing": torch.tensor(self.loss)}, td_error)


def counter(
    environment: Environment,
    providers: list[RewardProvider] | None = None,
    normalize: bool = False,
    inference: bool = False,
    **hyperparameters: Any,
) -> Counter:
    [behavior] = environment.behaviors.values()
    behavior_settings = BehaviorSettings(
        trainer_type="counter",
        hyperparameters=OffPolicySettings(**{"batch_size": 1, "buffer_size": 1000, **hyperparameters}),
        network_settings=NetworkSettings(hidden_units=2, num_layers=0, normalize=normalize),
        reward_signals={f"reward {k}": None for k in range(len(providers or [0]))},
        max_steps=1000,
    )
    return Counter(behavior_settings, behavior, run_of(*providers or (), inference=inference))


# ---------------------------------------------------------------- how many gradient steps


@pytest.mark.parametrize("start", ["at once", "random beginning", "large batch"])
@pytest.mark.parametrize(("envs", "steps_per_update"), [(1, 1.0), (3, 0.3), (8, 2.5)])
def test_gradient_steps_are_counted_exactly(
    monkeypatch: pytest.MonkeyPatch, envs: int, steps_per_update: float, start: str
) -> None:
    environment = ConstantReward(envs, max_steps=10**9)
    hyperparameters: dict[str, Any] = {
        "at once": {},
        "random beginning": {"buffer_init_steps": 100},
        "large batch": {"batch_size": 100},
    }
    trainer = counter(environment, steps_per_update=steps_per_update, **hyperparameters[start])
    monkeypatch.setattr(trainer.reader, "read", lambda rows, *_: rows)  # what a batch holds is another test's business
    learn(trainer, environment, 1000 // envs)
    counted = 1000 // envs * envs - (1 if start == "at once" else 100)  # agent steps after which the count starts
    assert trainer.gradient_steps == trainer.taken == int(10 * counted) // int(10 * steps_per_update)
    assert trainer.first_step >= (1 if start == "at once" else 100), "none before the count starts"


def test_a_gradient_step_sees_a_batch_of_what_was_done() -> None:
    environment = identity_hybrid(3)
    trainer = counter(environment, batch_size=17, steps_per_update=2.5)
    updates = learn(trainer, environment, 40)
    assert trainer.taken == (120 - 17) * 2 // 5 and len(updates) == len([k for k in range(18, 121, 3) if k >= 20])
    assert trainer.raw is not None and trainer.raw.shape == (17, 2)
    assert trainer.choices is not None and trainer.choices.shape == (17, 1)


@pytest.mark.parametrize("delay", [1, 2, 3, 100])
def test_a_statistic_is_the_mean_of_the_gradient_steps_that_have_it(
    monkeypatch: pytest.MonkeyPatch, delay: int
) -> None:
    """A delayed actor (TD3) has no loss in most steps."""
    environment = identity_hybrid(3)
    trainer = counter(environment, batch_size=6, steps_per_update=0.5)
    taken: list[Mapping[str, float]] = []

    def gradient_step(batch: TransitionBatch) -> GradientStep:
        count = len(taken) + 1
        stats = {"Losses/Critic": float(count)} | ({"Losses/Actor": count / 7} if count % delay == 0 else {})
        taken.append(stats if count % 2 else dict(reversed(stats.items())))  # in any order
        return GradientStep({tag: torch.tensor(value) for tag, value in taken[-1].items()})

    monkeypatch.setattr(trainer, "gradient_step", gradient_step)
    updates, seen = learn(trainer, environment, 6), 0
    assert len(taken) == 24
    for stats, count in zip(updates, (6, 6, 6, 6), strict=True):
        steps, seen = taken[seen : seen + count], seen + count
        for tag in ("Losses/Critic", "Losses/Actor"):
            values = [step[tag] for step in steps if tag in step]
            assert stats.get(tag) == (pytest.approx(sum(values) / len(values)) if values else None), tag


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
    taken = [actions for _, actions, _ in play(trainer, environment, 500)]
    raw = np.concatenate([a.continuous for a in taken if a.continuous is not None])  # [4000, 2]
    choices = np.concatenate([a.discrete for a in taken if a.discrete is not None])  # [4000, 1]
    for part in raw.T:  # 31 is exceeded with probability 0.0003 by 9 degrees of freedom, 16 with the same by 2
        assert chi_squared(np.histogram(part, 10, (-1, 1))[0]) < 31
    assert chi_squared(np.bincount(choices[:, 0], minlength=3)) < 16
    [(_, after, _)] = play(trainer, environment, 1)
    assert after.continuous is not None and after.discrete is not None
    assert (after.continuous > 0.99).all() and (after.discrete == 0).all(), "then the policy acts"


def test_masked_options_are_never_taken_in_the_beginning() -> None:
    environment = TinyCorridor(8, masked=True)
    trainer = counter(environment, buffer_init_steps=10**6)
    lefts = 0
    for mask, actions, _ in play(trainer, environment, 300):
        assert mask is not None and actions.discrete is not None
        assert np.take_along_axis(mask, actions.discrete, 1).all()
        lefts += int((actions.discrete[mask.all(1)] == 0).sum())
    assert lefts > 500, "allowed ones are"


def unbounded(slots: int) -> Environment:
    """Hybrid actions; the second continuous part has no bounds."""
    environment = identity_hybrid(slots)
    [(name, behavior)] = environment.behaviors.items()
    low, high = np.array([-3.0, -np.inf], np.float32), np.array([5.0, np.inf], np.float32)
    environment.behaviors = {name: attrs.evolve(behavior, low=low, high=high)}
    return environment


def test_the_beginning_is_standard_normal_in_parts_without_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Counter, "squashed", False)
    environment = unbounded(50)
    trainer = counter(environment, buffer_init_steps=10**6)
    taken = [actions.continuous for _, actions, _ in play(trainer, environment, 100)]
    bounded, free = np.concatenate([part for part in taken if part is not None]).T  # 5000 draws
    assert -3.0 <= bounded.min() < -2.9 and 4.9 < bounded.max() <= 5.0
    assert bounded.std() == pytest.approx(8 / 12**0.5, rel=0.05)
    assert free.mean() == pytest.approx(0.0, abs=0.06) and free.std() == pytest.approx(1.0, rel=0.05)
    assert np.mean(np.abs(free) > 1.96) == pytest.approx(0.05, abs=0.015)


def test_a_squashed_gaussian_is_refused_such_an_action() -> None:
    with pytest.raises(UnsupportedSpace, match=r"part 1 of the 2 .* and counter acts within bounds only"):
        counter(unbounded(2))


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

    def spy(batch_size: int, generator: np.random.Generator, beta: float) -> Any:
        betas.append((trainer.steps, beta))
        return sample(batch_size, generator, beta)

    monkeypatch.setattr(trainer.buffer, "sample_prioritized", spy)
    learn(trainer, environment, 600)
    assert betas[-1] == (1200, 1.0)
    for steps, beta in betas:
        assert beta == pytest.approx(0.4 + 0.6 * min(1, steps / 1000))


# ---------------------------------------------------------------- the normalizer


def seen_by_agents(trainer: Counter, environment: Environment, steps: int) -> list[NDArray[Any]]:
    """Plays, and returns every observation that an agent is asked to act on, the last ones included."""
    seen = []
    [name] = environment.behaviors
    batch = first_batch(environment)
    random = np.random.default_rng(0)
    trainer.begin(batch)
    seen.append(next(iter(batch.observations.values())))
    for _ in range(steps):
        actions = trainer.act(batch)
        batch = environment.step({name: actions})[name]
        batch.needs_action = random.random(environment.num_envs) < 0.7
        trainer.observe(actions, batch)
        seen.append(next(iter(batch.observations.values()))[batch.needs_action])
    return seen


def test_the_normalizer_has_the_mean_and_variance_of_every_observation_once() -> None:
    environment = IdentityEnvironment(5, continuous=3, episode_length=2)
    trainer = counter(environment, normalize=True, batch_size=4, steps_per_update=0.5)
    seen = seen_by_agents(trainer, environment, 50)
    everything = np.concatenate(seen).astype(np.float64)
    normalizer = trainer.model.inputs.normalizer
    assert normalizer is not None
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
    resumed = counter(environment, **h)
    resumed.load_state_dict(copied(trainer.state_dict()))
    assert [record.getMessage() for record in caplog.records] == [
        "behavior 'Corridor': the checkpoint has no replay buffer, so learning goes on when 30 new transitions are "
        "stored; hyperparameters.save_replay_buffer: true keeps the buffer in checkpoints"
    ]
    batch = first_batch(environment)
    taken = []
    for _ in range(12):  # without begin(): an environment that saves itself continues where it was
        actions = resumed.act(batch)
        batch = environment.step({"Corridor": actions})["Corridor"]
        resumed.observe(actions, batch)
        if resumed.ready():
            resumed.update()
        taken.append(resumed.gradient_steps - trainer.gradient_steps)
    assert taken == [0] * 10 + [6, 12]


def test_without_the_buffer_the_random_beginning_is_not_cut_short() -> None:
    environment = TinyCorridor(3)
    trainer = counter(environment, buffer_init_steps=90)
    learn(trainer, environment, 10)
    resumed = counter(environment, buffer_init_steps=90)
    resumed.load_state_dict(copied(trainer.state_dict()))
    learn(resumed, environment, 19)
    assert resumed.gradient_steps == 0
    learn(resumed, environment, 2)
    assert resumed.gradient_steps == 3


@pytest.mark.parametrize("buffer", [False, True])
def test_a_resumed_normalizer_takes_no_observation_twice(buffer: bool) -> None:
    environment = IdentityEnvironment(3, continuous=2)
    trainer = counter(environment, normalize=True, save_replay_buffer=buffer)
    learn(trainer, environment, 10)
    resumed = counter(environment, normalize=True, save_replay_buffer=buffer)
    resumed.load_state_dict(copied(trainer.state_dict()))
    batch = first_batch(environment)  # the batch that the environment continues with, as the trainer saw it before
    resumed.act(batch)
    normalizer = resumed.model.inputs.normalizer
    assert normalizer is not None and normalizer.count == 33


def test_a_state_of_other_slots_is_refused() -> None:
    state = counter(TinyCorridor(2)).state_dict()
    with pytest.raises(RunStateError, match=r"of 2 agents, this run has 3; set environment\.num_envs as it was"):
        counter(TinyCorridor(3)).load_state_dict(state)


# ---------------------------------------------------------------- rewards that learn, bad input


@pytest.mark.parametrize(("of_its_own", "updates", "last_mean"), [(None, 20, 20), (3.0, 13, 13), (0.5, 80, 78.5)])
def test_rewards_that_learn_have_a_ratio_of_their_own_and_their_statistics_are_averaged(
    of_its_own: float | None, updates: int, last_mean: float
) -> None:
    environment, reward = TinyCorridor(1), CountingReward()
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
    with pytest.raises(TrainingDiverged, match=rf"at step 2 \({told}\); lower learning_rate"):
        learn(trainer, environment, 3)


def test_a_buffer_that_does_not_fit_is_refused_before_anything_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(allocation, "available_memory", lambda: 10**6)
    with pytest.raises(
        ConfigError, match=r"buffer_size: 1000000 rows of behavior 'Corridor' need .*; at most \d+ fits"
    ):
        counter(TinyCorridor(1), buffer_size=10**6)


def test_a_policy_that_only_acts_needs_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(allocation, "available_memory", lambda: 10**6)
    assert counter(TinyCorridor(3), buffer_size=10**6, inference=True).buffer.capacity == 12
