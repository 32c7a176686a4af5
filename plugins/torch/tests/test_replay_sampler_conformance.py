"""The core's own replay samplers keep the rules of every one; a broken rule is noticed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest

from rlcore_devkit import ReplaySamplerConformance
from rlcore_torch import ReplayBuffer, ReplaySampler, Sample, UniformSampler


class TestUniform(ReplaySamplerConformance):
    sampler = "rlcore-torch/uniform"


class TestPrioritized(ReplaySamplerConformance):
    sampler = "prioritized"
    settings = {"alpha": 0.7, "beta": 0.5}


# ---------------------------------------------------------------- broken on purpose


class DrawsCurrentObservations(ReplaySampler):
    def sample(self, buffer: ReplayBuffer, batch_size: int, generator: np.random.Generator, progress: float) -> Sample:
        return Sample(generator.integers(buffer.filled, size=batch_size))


class WaitsForMore(UniformSampler):
    def sample(self, buffer: ReplayBuffer, batch_size: int, generator: np.random.Generator, progress: float) -> Sample:
        return Sample(np.flatnonzero(buffer.flags)[1:][generator.integers(len(buffer) - 1, size=batch_size)])


class WeighsNothing(UniformSampler):
    def sample(self, buffer: ReplayBuffer, batch_size: int, generator: np.random.Generator, progress: float) -> Sample:
        return Sample(buffer.sample(batch_size, generator), np.zeros(batch_size, np.float32))


class WritesRewards(UniformSampler):
    def sample(self, buffer: ReplayBuffer, batch_size: int, generator: np.random.Generator, progress: float) -> Sample:
        rows = buffer.sample(batch_size, generator)
        buffer.rewrite(rows, reward=np.ones(batch_size, np.float32))
        return Sample(rows)


class HandsOutTheBuffer(UniformSampler):
    changes_steps = True

    def sample(self, buffer: ReplayBuffer, batch_size: int, generator: np.random.Generator, progress: float) -> Sample:
        rows = np.full(batch_size, np.flatnonzero(buffer.flags)[0])
        steps = buffer.transitions(rows)
        return Sample(rows, steps=attrs.evolve(steps, reward=np.broadcast_to(buffer.reward[rows[0], None], rows.shape)))


class ChangesMore(UniformSampler):
    changes_steps = True

    def sample(self, buffer: ReplayBuffer, batch_size: int, generator: np.random.Generator, progress: float) -> Sample:
        rows = buffer.sample(batch_size, generator)
        steps = buffer.transitions(rows)
        return Sample(rows, steps=attrs.evolve(steps, terminated=~steps.terminated))


class DrawsFromTheProcess(UniformSampler):
    def sample(self, buffer: ReplayBuffer, batch_size: int, generator: np.random.Generator, progress: float) -> Sample:
        return Sample(np.random.choice(np.flatnonzero(buffer.flags), batch_size))  # noqa: NPY002


class Forgets(UniformSampler):
    """Every second sample is of the newest row; which one comes next is not saved."""

    drawn = 0

    def sample(self, buffer: ReplayBuffer, batch_size: int, generator: np.random.Generator, progress: float) -> Sample:
        self.drawn += 1
        return Sample(np.full(batch_size, np.flatnonzero(buffer.flags)[-1 if self.drawn % 2 else 0]))


class LearnsInPlace(UniformSampler):
    uses_td_errors = True

    def learned(self, buffer: ReplayBuffer, rows: Any, td_errors: Any) -> None:
        buffer.rewrite(rows, reward=buffer.reward[rows] + td_errors)


class KeepsAnObject(UniformSampler):
    def state_dict(self) -> dict[str, Any]:
        return {"kind": object()}


FILLING = "test_samples_hold_stored_transitions_while_the_buffer_fills_and_wraps"
UNCHANGED = "test_sampling_and_learning_change_no_stored_transition"


@pytest.mark.parametrize(
    ("broken", "rule", "given", "message"),
    [
        (DrawsCurrentObservations, FILLING, {"slots": 1}, "rows must hold transitions"),
        (WeighsNothing, FILLING, {"slots": 3}, "weights must be finite and positive"),
        (ChangesMore, FILLING, {"slots": 3}, "terminated changed; `changed` does not name it"),
        (WaitsForMore, "test_a_sample_comes_from_a_single_transition", {}, "high <= 0"),
        (WritesRewards, UNCHANGED, {}, "sampling changed the replay buffer"),
        (LearnsInPlace, UNCHANGED, {}, "learned changed more than priorities"),
        (HandsOutTheBuffer, UNCHANGED, {}, "reward of steps is not a copy"),
        (DrawsFromTheProcess, "test_equal_seeds_draw_equal_samples", {}, "draw from `generator` only"),
        (Forgets, "test_a_resumed_sampler_continues_as_if_never_stopped", {}, "resumed after 1 steps"),
        (KeepsAnObject, "test_a_resumed_sampler_continues_as_if_never_stopped", {}, "neither a numpy array nor JSON"),
        (ChangesMore, "test_several_steps_start_at_the_rows_of_a_sample", {}, "DID NOT RAISE"),
    ],
)
def test_a_broken_sampler_is_noticed(
    tmp_path: Path, broken: type[ReplaySampler], rule: str, given: Mapping[str, Any], message: str
) -> None:
    class Conformance(TestUniform):
        def make(self, slots: int = 3, n_steps: int = 1, **settings: Any) -> ReplaySampler:
            return broken()

    conformance = Conformance()
    conformance.directory = tmp_path
    with pytest.raises((AssertionError, ValueError, pytest.fail.Exception), match=message):
        getattr(conformance, rule)(**given)
