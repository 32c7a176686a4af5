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

from rlcore import Environment
from rlcore_devkit.conformance.environment import EnvironmentConformance
from rlcore_devkit.conformance.states import assert_equal, copied
from rlcore_devkit.playing import Batches, first_batches, random_actions
from rlcore_torch import AsNumpy, TensorActions, TensorBatch, TensorEnvironment


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

    def played_tensors(self, environment: TensorEnvironment) -> Iterator[Mapping[str, TensorBatch]]:
        """Yield the batches of the reset and of ``steps`` random steps."""
        generator = np.random.default_rng(1)
        batches = first_batches(environment)
        yield batches
        for _ in range(self.steps):
            actions = _random(environment, batches, generator)
            batches = environment.step(actions)
            yield batches

    def test_implements_the_tensor_protocol(self) -> None:
        environment = self.opened_tensors()
        assert isinstance(environment, TensorEnvironment)
        assert isinstance(environment.device, torch.device)

    def test_tensors_are_on_the_device_and_final_observations_have_a_row_for_every_slot(self) -> None:
        environment = self.opened_tensors()
        for batches in self.played_tensors(environment):
            for name, batch in batches.items():
                slots = environment.behaviors[name].slots
                for tensor in _tensors(batch):
                    assert tensor.device == environment.device
                    assert len(tensor) == slots
                assert batch.reward.dtype == torch.float32
                assert {batch.terminated.dtype, batch.truncated.dtype} == {torch.bool}
                assert batch.needs_action is None or environment.takes_turns, "takes_turns must be true"
                ended = batch.terminated | batch.truncated
                assert batch.final_observations is not None or not ended.any()

    def test_episodes_gives_a_copy(self) -> None:
        environment = self.opened_tensors()
        first_batches(environment)
        environment.episodes[:] = 7
        assert not environment.episodes.any()

    def test_reading_the_state_changes_no_batch(self) -> None:
        environment = self.opened_tensors()
        for batches in self.played_tensors(environment):
            kept = _copied(batches)
            state = environment.state_dict()
            assert_equal(kept, _copied(batches))
            assert_equal(state, environment.state_dict())

    def test_actions_may_be_overwritten_after_the_step(self) -> None:
        ours = self.opened_tensors()
        theirs = self.opened_tensors()
        if not self.deterministic:
            return
        batches = first_batches(ours)
        first_batches(theirs)
        for step in range(self.steps):
            overwritten = _random(ours, batches, np.random.default_rng(step))
            kept = _random(ours, batches, np.random.default_rng(step))
            batches = ours.step(overwritten)
            for actions in overwritten.values():
                for part in (actions.continuous, actions.discrete):
                    if part is not None:
                        part.zero_()
            expected = theirs.step(kept)
            assert_equal(_copied(batches), _copied(expected))

    def test_a_saved_state_does_not_change_with_later_steps(self) -> None:
        environment = self.opened_tensors()
        playing = self.played_tensors(environment)
        next(playing)
        state = environment.state_dict()
        kept = copied(state)
        for _ in range(3):
            next(playing)
        assert_equal(state, kept)


def _random(
    environment: TensorEnvironment, batches: Mapping[str, TensorBatch], generator: np.random.Generator
) -> dict[str, TensorActions]:
    device = environment.device
    drawn = random_actions(environment.behaviors, _on_host(batches), generator)
    return {name: TensorActions.of(actions, device) for name, actions in drawn.items()}


def _on_host(batches: Mapping[str, TensorBatch]) -> Batches:
    return {name: batch.on_host() for name, batch in batches.items()}


def _copied(batches: Mapping[str, TensorBatch]) -> Batches:
    copies: Batches = copied(_on_host(batches))
    return copies


def _tensors(batch: TensorBatch) -> Iterator[Tensor]:
    for value in attrs.asdict(batch, recurse=False).values():
        if isinstance(value, Tensor):
            yield value
        elif value is not None:
            yield from value.values()
