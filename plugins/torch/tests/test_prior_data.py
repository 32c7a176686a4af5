# mypy: allow-untyped-calls
"""Recorded transitions beside those of a run: which a minibatch has, what they are worth, what resumes."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import attrs
import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from run_of_trainers import run_of

from rlcore import (
    Actions,
    BehaviorSettings,
    BehaviorSpec,
    ConfigError,
    Environment,
    ExtrinsicReward,
    Recording,
    RunStateError,
    SettingError,
)
from rlcore_devkit.conformance.loop import learn
from rlcore_devkit.conformance.states import assert_equal, copied
from rlcore_devkit.environments import TinyCorridor, identity_hybrid
from rlcore_torch import (
    ActionLayout,
    Actor,
    GradientStep,
    MemorySettings,
    NetworkSettings,
    OffPolicySettings,
    OffPolicyTrainer,
    Optimizer,
    ReplayBuffer,
    Sample,
    SquashedGaussian,
    TransitionBatch,
    allocation,
)
from rlcore_torch.off_policy.prior_data import read_prior_data
from rlcore_torch.off_policy.replay_sampler import UniformSampler
from rlcore_torch.settings import PriorDataSettings, PrioritizedSamplerSettings

LENGTHS = (4, 1, 3)
TERMINATED = (True, False, True)
GAMMA = 0.9


def recorded(behavior: BehaviorSpec, masked: bool = False) -> Recording:
    """Three episodes, the second of which is truncated; observations are their row, 1000 and more; rewards 1 to 8."""
    count = sum(LENGTHS)
    rows = count + len(LENGTHS)
    ends = np.cumsum(LENGTHS) - 1
    terminated = np.zeros(count, np.bool_)
    terminated[ends] = TERMINATED
    truncated = np.zeros(count, np.bool_)
    truncated[ends] = ~terminated[ends]
    observations = {}
    for observation in behavior.observations:
        values = np.arange(1000, 1000 + rows).reshape(rows, *[1 for _ in observation.shape])
        observations[observation.name] = np.broadcast_to(values, (rows, *observation.shape)).astype(observation.dtype)
    continuous = np.ones((count, behavior.continuous), np.float32) if behavior.continuous else None
    discrete = np.zeros((count, len(behavior.discrete)), np.int64) if behavior.discrete else None
    mask = None
    if masked:
        mask = np.ones((rows, behavior.mask_size), np.bool_)
        mask[:, -1] = False
    return Recording(
        attrs.evolve(behavior, env_index=np.zeros(1, np.int64)),
        observations,
        Actions(continuous, discrete),
        np.arange(1, count + 1, dtype=np.float32),
        terminated,
        truncated,
        np.array(LENGTHS),
        mask,
    )


def worth(n: int) -> dict[int, tuple[float, float]]:
    """The return of n steps and the discount by the first observation of each stretch, walked step by step."""
    found = {}
    row = 1000
    reward = 1.0
    for length, terminated in zip(LENGTHS, TERMINATED, strict=True):
        for step in range(length):
            taken = min(n, length - step)
            total = sum(GAMMA**k * (reward + step + k) for k in range(taken))
            ended = terminated and step + taken == length
            found[row + step] = (total, 0.0 if ended else GAMMA**taken)
        row += length + 1
        reward += length
    return found


class Watcher(OffPolicyTrainer):
    """Keeps the batches that it is given."""

    def build_model(self, value_heads: int) -> Actor:
        self.batches: list[TransitionBatch] = []
        return Actor(self.behavior, self.settings.network_settings, SquashedGaussian(self.behavior))

    def build_optimizers(self) -> Mapping[str, Optimizer]:
        return {"policy": self.make_optimizer(self.model.parameters())}

    def gradient_step(self, batch: TransitionBatch) -> GradientStep:
        self.batches.append(batch)
        return GradientStep({}, torch.arange(1.0, 1.0 + len(batch.reward)))


def watcher(
    environment: Environment,
    recording: Recording | None,
    share: float = 0.5,
    inference: bool = False,
    network: Mapping[str, Any] = {},
    **hyperparameters: Any,
) -> Watcher:
    def read_recording(*given: Any) -> Recording:
        assert recording is not None and given == ("somewhere", behavior.name)
        return recording

    [behavior] = environment.behaviors.values()
    prior_data = PriorDataSettings(demo_path="somewhere", share=share) if recording or inference else None
    h = {"batch_size": 8, "buffer_size": 1000, "save_replay_buffer": True, "prior_data": prior_data, **hyperparameters}
    settings = BehaviorSettings(
        trainer_type="watcher",
        hyperparameters=OffPolicySettings(**h),
        network_settings=NetworkSettings(hidden_units=2, num_layers=0, **network),
        reward_signals={"extrinsic": None},
        max_steps=1000,
    )
    run = run_of(ExtrinsicReward(gamma=GAMMA), inference=inference, read_recording=read_recording)
    return Watcher(settings, behavior, run)


def watched(environment: Environment, masked: bool = False, **settings: Any) -> Watcher:
    [behavior] = environment.behaviors.values()
    return watcher(environment, recorded(behavior, masked), **settings)


def first_numbers(inputs: Any) -> NDArray[Any]:
    """The first number of each observation."""
    numbers: NDArray[Any] = inputs[0][:, 0].numpy()
    return numbers


# ---------------------------------------------------------------- what a minibatch has


@pytest.mark.parametrize("share", [0.25, 0.5, 0.9])
@pytest.mark.parametrize("n_steps", [1, 3])
def test_a_share_of_every_minibatch_is_recorded_and_worth_what_the_recording_says(share: float, n_steps: int) -> None:
    trainer = watched(environment := identity_hybrid(3), share=share, n_steps=n_steps)
    learn(trainer, environment, 30)
    count = round(8 * share)
    expected = worth(n_steps)
    seen = set()
    assert len(trainer.batches) > 50
    for batch in trainer.batches:
        where = first_numbers(batch.inputs)
        assert len(where) == 8 and (where[: 8 - count] < 1000).all()
        for row, place in enumerate(where[8 - count :].tolist(), start=8 - count):
            total, discount = expected[int(place)]
            assert batch.reward[row, 0].item() == pytest.approx(total)
            assert batch.discount[row, 0].item() == pytest.approx(discount)
            seen.add(int(place))
    assert seen == expected.keys(), "all recorded transitions, and no final observation"


def test_the_draws_are_those_of_the_sampler_and_as_many_numbers_as_recorded_rows() -> None:
    trainer = watched(environment := identity_hybrid(2), share=0.5, steps_per_update=10.0)
    learn(trainer, environment, 40)
    generator = np.random.default_rng()
    generator.bit_generator.state = trainer.generator.bit_generator.state
    own = trainer.buffer.sample(4, generator)
    assert trainer._prior_data is not None
    rows = trainer._prior_data.rows[generator.integers(8, size=4)]
    batch = trainer._minibatch()
    np.testing.assert_array_equal(batch.starts, own)
    np.testing.assert_array_equal(first_numbers(batch.inputs)[4:], 1000 + rows)
    np.testing.assert_array_equal(first_numbers(batch.inputs)[:4], first_numbers(trainer.reader.read(own).inputs))
    assert trainer.generator.bit_generator.state == generator.bit_generator.state


@pytest.mark.parametrize(("here", "there"), [(True, True), (True, False), (False, True), (False, False)])
def test_masks_of_one_kind_leave_all_options_to_the_other(here: bool, there: bool) -> None:
    trainer = watched(environment := TinyCorridor(2, masked=here), masked=there)
    learn(trainer, environment, 20)
    batch = trainer.batches[-1]
    if not here and not there:
        assert batch.mask is None and batch.next_mask is None
        return
    for mask in (batch.mask, batch.next_mask):
        assert mask is not None
        assert mask[:4].all() or here
        assert bool((~mask[4:, -1]).all() and mask[4:, :-1].all()) == there
        assert mask[4:].all() or there


def test_priorities_are_those_of_own_transitions_and_recorded_ones_weigh_one() -> None:
    trainer = watched(environment := identity_hybrid(2), replay_sampler=PrioritizedSamplerSettings(alpha=1.0, beta=1.0))
    learn(trainer, environment, 30)
    for batch in trainer.batches:
        assert batch.weight is not None and (batch.weight[4:] == 1).all() and batch.weight[:4].max() == 1
    priorities = trainer.buffer.priorities
    assert priorities is not None
    [last] = trainer.batches[-1:]
    of_row = dict(zip(last.starts.tolist(), [1.0, 2.0, 3.0, 4.0], strict=True))
    for row, error in of_row.items():
        assert priorities.tree.leaves[row] == pytest.approx(error)
    assert priorities.largest == pytest.approx(4.0), "the errors of recorded rows, 5 to 8, are nowhere"


class Doubling(UniformSampler):
    """Doubles the rewards of what it draws, as hindsight changes transitions."""

    changes_steps = True

    def sample(self, buffer: ReplayBuffer, *given: Any) -> Sample:
        rows = super().sample(buffer, *given).rows
        steps = buffer.transitions(rows)
        return Sample(rows, steps=attrs.evolve(steps, reward=2 * steps.reward))


def test_transitions_that_a_sampler_changes_are_joined_with_recorded_ones_as_they_are() -> None:
    trainer = watched(environment := identity_hybrid(2))
    trainer.sampler = Doubling()
    learn(trainer, environment, 30)
    expected = worth(1)
    for batch in trainer.batches:
        own = trainer.buffer.reward.take(batch.starts)
        np.testing.assert_allclose(batch.reward[:4, 0].numpy(), 2 * own)
        places = first_numbers(batch.inputs)[4:].astype(int).tolist()
        np.testing.assert_allclose(batch.reward[4:, 0].numpy(), [expected[place][0] for place in places])


# ---------------------------------------------------------------- normalized observations, resuming, bad input


def test_a_new_run_normalizes_with_the_recorded_observations_and_a_resumed_one_with_what_was_saved() -> None:
    environment = identity_hybrid(2)
    trainer = watched(environment, network={"normalize": True})
    normalizer: Any = trainer.model.inputs.normalizer
    assert normalizer.count == 11
    np.testing.assert_allclose(normalizer.mean, np.arange(1000, 1011).mean())
    learn(trainer, environment, 10)
    other = watched(environment, network={"normalize": True})
    other.load_state_dict(copied(trainer.state_dict()))
    resumed: Any = other.model.inputs.normalizer
    assert resumed.count == 11 + 22
    assert_equal(other.state_dict(), trainer.state_dict())


def test_a_checkpoint_is_resumed_with_as_many_recorded_transitions() -> None:
    environment = identity_hybrid(2)
    [behavior] = environment.behaviors.values()
    trainer = watched(environment)
    state = copied(trainer.state_dict())
    assert state["recorded_transitions"] == 8
    whole = recorded(behavior)
    rows = slice(5)
    actions = [None if array is None else array[:4] for array in (whole.actions.continuous, whole.actions.discrete)]
    first = Recording(
        whole.behavior,
        {name: array[rows] for name, array in whole.observations.items()},
        Actions(*actions),
        whole.reward[:4],
        whole.terminated[:4],
        whole.truncated[:4],
        whole.lengths[:1],
    )
    for recording, here in ((first, 4), (None, 0)):
        with pytest.raises(RunStateError, match=rf"learned with 8 recorded transitions .*, and this run has {here}; "):
            watcher(environment, recording).load_state_dict(state)
    with pytest.raises(RunStateError, match="learned with 0 recorded transitions"):
        trainer.load_state_dict(copied(watcher(environment, None).state_dict()))
    del state["buffer"]
    watcher(environment, None, inference=True).load_state_dict(state)  # reads no recording


def test_without_prior_data_a_state_has_no_entry_of_it() -> None:
    assert "recorded_transitions" not in watcher(identity_hybrid(2), None).state_dict()


@pytest.mark.parametrize(("share", "told"), [(0.01, "is 0 recorded"), (1.0, "is 8 recorded"), (0.99, "is 8 recorded")])
def test_a_share_that_leaves_out_one_kind_is_refused(share: float, told: str) -> None:
    with pytest.raises(SettingError, match=rf"share {share:g} of batch_size \(8\) {told} transitions; .* 1 to 7 of"):
        OffPolicySettings(batch_size=8, prior_data=PriorDataSettings(demo_path="x", share=share))


def test_networks_with_memory_and_ranks_are_refused() -> None:
    environment = identity_hybrid(2)
    [behavior] = environment.behaviors.values()
    with pytest.raises(ConfigError, match="mixes single transitions, and networks with memory learn") as refused:
        watched(environment, network={"memory": MemorySettings(memory_size=4, sequence_length=4)})
    assert refused.value.key == ("behaviors", behavior.name, "hyperparameters", "prior_data")
    settings = PriorDataSettings(demo_path="somewhere")
    several: Any = SimpleNamespace(ranks=SimpleNamespace(size=2))
    model = Actor(behavior, NetworkSettings())
    with pytest.raises(ConfigError, match="works in one process; leave it out, or start the run without ranks"):
        read_prior_data(settings, behavior, model, ActionLayout(behavior), several)


def test_what_does_not_fit_into_memory_beside_the_recording_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(allocation, "available_memory", lambda: 100)
    with pytest.raises(ConfigError, match=r"recorded data: 11 rows of behavior .* need"):
        watched(identity_hybrid(2))


def test_the_replay_buffer_is_asked_for_the_memory_that_the_recording_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = []
    available = allocation.available_memory

    def seen() -> int:
        taken.append(len(taken))
        return available()

    monkeypatch.setattr(allocation, "available_memory", seen)
    made = watched(identity_hybrid(2))
    assert made._prior_data is not None and len(taken) == 3, "recorded rows, their buffer, then the run's own"
