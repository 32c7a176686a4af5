"""The core's own replay samplers keep the rules of every one; a broken rule is noticed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest

from rlcore_devkit import ReplaySamplerConformance
from rlcore_torch import ReplayBuffer, ReplaySampler, Sample
from rlcore_torch.off_policy.replay_sampler import UniformSampler


class TestUniform(ReplaySamplerConformance):
    sampler = "rlcore-torch/uniform"


class TestPrioritized(ReplaySamplerConformance):
    sampler = "prioritized"
    settings = {"alpha": 0.7, "beta": 0.5}


# ---------------------------------------------------------------- broken on purpose


Draw = Callable[[ReplaySampler, ReplayBuffer, int, np.random.Generator], Sample]


def broken(draw: Draw, **attributes: Any) -> type[ReplaySampler]:
    """A sampler whose ``sample`` is this function, without the progress."""
    return type("Broken", (UniformSampler,), {"sample": lambda self, *given: draw(self, *given[:-1]), **attributes})


def waits_for_more(self: Any, buffer: ReplayBuffer, size: int, generator: np.random.Generator) -> Sample:
    return Sample(np.flatnonzero(buffer.flags)[1:][generator.integers(len(buffer) - 1, size=size)])


def hands_out_the_buffer(self: Any, buffer: ReplayBuffer, size: int, generator: np.random.Generator) -> Sample:
    rows = np.full(size, np.flatnonzero(buffer.flags)[0])
    reward = np.broadcast_to(buffer.reward[rows[0], None], rows.shape)
    return Sample(rows, steps=attrs.evolve(buffer.transitions(rows), reward=reward))


def changes_more(self: Any, buffer: ReplayBuffer, size: int, generator: np.random.Generator) -> Sample:
    steps = buffer.transitions(rows := buffer.sample(size, generator))
    return Sample(rows, steps=attrs.evolve(steps, terminated=~steps.terminated))


def forgets(self: Any, buffer: ReplayBuffer, size: int, generator: np.random.Generator) -> Sample:
    """Every second sample is of the newest row; which one comes next is not saved."""
    self.drawn = not getattr(self, "drawn", False)
    return Sample(np.full(size, np.flatnonzero(buffer.flags)[-1 if self.drawn else 0]))


class LearnsInPlace(UniformSampler):
    uses_td_errors = True

    def learned(self, buffer: ReplayBuffer, rows: Any, td_errors: Any) -> None:
        buffer.rewrite(rows, reward=buffer.reward[rows] + td_errors)


CURRENT = broken(lambda self, buffer, size, generator: Sample(generator.integers(buffer.filled, size=size)))
CHANGES = broken(changes_more, changes_steps=True)
GLOBAL = broken(lambda self, buffer, size, g: Sample(np.random.choice(np.flatnonzero(buffer.flags), size)))  # noqa: NPY002
FILLING = "test_samples_hold_stored_transitions_while_the_buffer_fills_and_wraps"
UNCHANGED = "test_sampling_and_learning_change_no_stored_transition"


@pytest.mark.parametrize(
    ("sampler", "rule", "given", "message"),
    [
        (CURRENT, FILLING, {"slots": 1}, "rows must hold transitions"),
        (CHANGES, FILLING, {"slots": 3}, "terminated changed; `changed` does not name it"),
        (broken(waits_for_more), "test_a_sample_comes_from_a_single_transition", {}, "high <= 0"),
        (LearnsInPlace, UNCHANGED, {}, "learned changed more than priorities"),
        (broken(hands_out_the_buffer, changes_steps=True), UNCHANGED, {}, "reward of steps is not a copy"),
        (GLOBAL, "test_equal_seeds_draw_equal_samples", {}, "draw from `generator` only"),
        (broken(forgets), "test_a_resumed_sampler_continues_as_if_never_stopped", {}, "resumed after 1 steps"),
        (CHANGES, "test_several_steps_start_at_the_rows_of_a_sample", {}, "DID NOT RAISE"),
    ],
)
def test_a_broken_sampler_is_noticed(
    tmp_path: Path, sampler: type[ReplaySampler], rule: str, given: Mapping[str, Any], message: str
) -> None:
    class Conformance(TestUniform):
        def make(self, slots: int = 3, n_steps: int = 1, **settings: Any) -> ReplaySampler:
            return sampler()

    conformance = Conformance()
    conformance.directory = tmp_path
    with pytest.raises((AssertionError, ValueError, pytest.fail.Exception), match=message):
        getattr(conformance, rule)(**given)
