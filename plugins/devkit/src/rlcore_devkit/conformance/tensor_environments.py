"""The rules of :class:`rlcore_torch.TensorEnvironment` as tests for authors of environments to inherit.

::

    class TestMySimulator(TensorEnvironmentConformance):
        def make_tensors(self, num_envs):
            return MySimulator(num_envs)

The rules of :class:`rlcore.Environment` are tested through :class:`rlcore_torch.AsNumpy`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import cast

import attrs
import numpy as np
import torch
from torch import Tensor

from rlcore import AgentBatch, Environment, EpisodeSeeds
from rlcore_devkit.conformance.environment import EnvironmentConformance
from rlcore_devkit.conformance.states import assert_equal, copied
from rlcore_devkit.playing import assert_equal_batches, random_actions, snapshot
from rlcore_torch import AsNumpy, TensorActions, TensorBatch, TensorEnvironment

__all__ = ["TensorEnvironmentConformance"]


class TensorEnvironmentConformance(EnvironmentConformance):
    """Tests of tensor environments: override :meth:`make_tensors`."""

    def make_tensors(self, num_envs: int) -> TensorEnvironment:
        """Return a new object with ``num_envs`` environments."""
        raise NotImplementedError

    def make(self, num_envs: int) -> Environment:
        """Return a new object as an environment of a run."""
        return cast(Environment, AsNumpy(self.make_tensors(num_envs)))

    def opened_tensors(self) -> TensorEnvironment:
        """Return a new object, which is closed after the test."""
        return cast(AsNumpy, self.opened()).tensors

    def played_tensors(self, environment: TensorEnvironment) -> Iterator[tuple[Mapping[str, TensorBatch], bool]]:
        """Yield the batches of the reset and of ``steps`` random steps, each with whether it is that of the reset."""
        generator = np.random.default_rng(1)
        batches = environment.reset(EpisodeSeeds(1), np.zeros(self.num_envs, np.int64))
        yield batches, True
        for _ in range(self.steps):
            batches = environment.step(_random(environment, batches, generator))
            yield batches, False

    def test_implements_the_tensor_protocol(self) -> None:
        environment = self.opened_tensors()
        assert isinstance(environment, TensorEnvironment)
        assert isinstance(environment.device, torch.device)

    def test_tensors_are_on_the_device_and_final_observations_have_a_row_for_every_slot(self) -> None:
        environment = self.opened_tensors()
        for batches, _ in self.played_tensors(environment):
            for name, batch in batches.items():
                slots = environment.behaviors[name].slots
                for tensor in _tensors(batch):
                    assert tensor.device == environment.device
                    assert len(tensor) == slots
                assert batch.reward.dtype == torch.float32
                assert {batch.terminated.dtype, batch.truncated.dtype} == {torch.bool}
                assert batch.needs_action is None or environment.takes_turns, "takes_turns must be true"
                ended = bool((batch.terminated | batch.truncated).any())
                assert batch.final_observations is not None or not ended

    def test_episodes_gives_a_copy(self) -> None:
        environment = self.opened_tensors()
        environment.reset(EpisodeSeeds(1), np.zeros(self.num_envs, np.int64))
        environment.episodes[:] = 7
        assert not environment.episodes.any()

    def test_reading_the_state_changes_no_batch(self) -> None:
        environment = self.opened_tensors()
        for batches, _ in self.played_tensors(environment):
            kept = _copied(batches)
            state = environment.state_dict()
            assert_equal_batches(kept, _copied(batches))
            assert_equal(state, environment.state_dict())

    def test_actions_may_be_overwritten_after_the_step(self) -> None:
        ours = self.opened_tensors()
        theirs = self.opened_tensors()
        if not self.deterministic:
            return
        first, second = (each.reset(EpisodeSeeds(1), np.zeros(self.num_envs, np.int64)) for each in (ours, theirs))
        generators = np.random.default_rng(1), np.random.default_rng(1)
        for _ in range(self.steps):
            chosen = _random(ours, first, generators[0])
            kept = _random(theirs, second, generators[1])
            first = ours.step(chosen)
            for actions in chosen.values():
                for part in (actions.continuous, actions.discrete):
                    if part is not None:
                        part.zero_()
            second = theirs.step(kept)
            assert_equal_batches(_copied(first), _copied(second))

    def test_a_saved_state_does_not_change_with_later_steps(self) -> None:
        environment = self.opened_tensors()
        batches = environment.reset(EpisodeSeeds(1), np.zeros(self.num_envs, np.int64))
        generator = np.random.default_rng(1)
        state = environment.state_dict()
        kept = copied(state)
        for _ in range(3):
            batches = environment.step(_random(environment, batches, generator))
        assert_equal(state, kept)


def _random(
    environment: TensorEnvironment, batches: Mapping[str, TensorBatch], generator: np.random.Generator
) -> dict[str, TensorActions]:
    on_host = {name: batch.on_host() for name, batch in batches.items()}
    drawn = random_actions(environment.behaviors, on_host, generator)
    return {name: TensorActions.of(actions, environment.device) for name, actions in drawn.items()}


def _copied(batches: Mapping[str, TensorBatch]) -> dict[str, AgentBatch]:
    return snapshot({name: batch.on_host() for name, batch in batches.items()})


def _tensors(batch: TensorBatch) -> Iterator[Tensor]:
    for value in attrs.asdict(batch, recurse=False).values():
        if isinstance(value, Tensor):
            yield value
        elif value is not None:
            yield from value.values()
