"""The tensor contract: the cart-pole, and the rules of the conformance class with environments broken on purpose."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
import torch

from rlcore import Actions, EnvironmentFailed, EpisodeSeeds, RunStateError
from rlcore_devkit import TensorEnvironmentConformance, assert_equal
from rlcore_torch import AsNumpy, TensorActions, TensorBatch, fold_in, uniforms
from rlcore_torch.tensors.cartpole import TorchCartPole
from rlcore_torch.tensors.seeding import run_key


class TestTorchCartPole(TensorEnvironmentConformance):
    steps = 60

    def make_tensors(self, num_envs: int) -> TorchCartPole:
        return TorchCartPole(num_envs)


class TestTorchCartPoleWithATimeLimit(TensorEnvironmentConformance):
    steps = 40

    def make_tensors(self, num_envs: int) -> TorchCartPole:
        return TorchCartPole(num_envs, max_steps=7)


def pushed(rows: list[int]) -> dict[str, TensorActions]:
    return {"CartPole": TensorActions(discrete=torch.tensor(rows)[:, None])}


def test_the_cart_pole_moves_and_ends_as_gymnasiums_does() -> None:
    count = 4
    generator = np.random.default_rng(3)
    ours = TorchCartPole(count)
    state = ours.reset(EpisodeSeeds(5), np.zeros(count, np.int64))["CartPole"].observations["state"]
    theirs = [gymnasium.make("CartPole-v1").unwrapped for _ in range(count)]
    for each in theirs:
        each.reset()
    ends = 0
    for _ in range(300):
        pushes = generator.integers(0, 2, count).tolist()
        for each, row in zip(theirs, state.tolist(), strict=True):
            each.state = tuple(row)
            each.steps_beyond_terminated = None
        expected = [each.step(push) for each, push in zip(theirs, pushes, strict=True)]
        batch = ours.step(pushed(pushes))["CartPole"]
        assert batch.final_observations is not None
        state = batch.observations["state"]
        seen = np.stack([step[0] for step in expected])
        np.testing.assert_allclose(batch.final_observations["state"].numpy(), seen, rtol=1e-5, atol=1e-6)
        assert batch.reward.tolist() == [step[1] for step in expected]
        assert batch.terminated.tolist() == [step[2] for step in expected]
        ends += int(batch.terminated.sum())
    assert ends > 20


def test_a_device_that_is_not_waited_for_restarts_what_the_cpu_does() -> None:
    ours = TorchCartPole(5, max_steps=15)
    theirs = TorchCartPole(5, max_steps=15)
    theirs._reads_flags = False
    generator = np.random.default_rng(1)
    for each in (ours, theirs):
        each.reset(EpisodeSeeds(1), np.zeros(5, np.int64))
    for _ in range(60):
        rows = generator.integers(0, 2, 5).tolist()
        batches = [each.step(pushed(rows))["CartPole"].on_host() for each in (ours, theirs)]
        assert_equal({"CartPole": batches[0]}, {"CartPole": batches[1]})
    assert ours.episodes.tolist() == theirs.episodes.tolist() and ours.episodes.min() > 2


def test_the_first_states_are_uniform_and_differ_by_environment_and_episode() -> None:
    ours = TorchCartPole(4000)
    of_episode = [
        ours.reset(EpisodeSeeds(1), np.full(4000, number))["CartPole"].observations["state"].numpy().copy()
        for number in (0, 1)
    ]
    values = np.concatenate(of_episode)
    assert len(np.unique(values[:, 0])) > 7900
    assert abs(values).max() <= 0.05
    assert abs(values.mean(0)).max() < 0.002
    np.testing.assert_allclose(values.std(0), 0.1 / np.sqrt(12), rtol=0.02)
    assert abs(np.corrcoef(values.T)[0, 1:]).max() < 0.05


def test_environments_of_another_process_have_the_seeds_that_they_have_in_one() -> None:
    whole = TorchCartPole(5)
    part = TorchCartPole(2)
    all_of_them = whole.reset(EpisodeSeeds(9), np.arange(5))["CartPole"].observations["state"]
    last_two = part.reset(EpisodeSeeds(9, first_env=3), np.array([3, 4]))["CartPole"].observations["state"]
    assert torch.equal(all_of_them[3:], last_two)


def test_fold_in_is_the_finalizer_of_splitmix64() -> None:
    """Against the generator in Python's integers; its first output for the seed 0 is published."""

    def mixed(number: int) -> int:
        number = (number + 0x9E3779B97F4A7C15) % 2**64
        number = (number ^ (number >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        number = (number ^ (number >> 27)) * 0x94D049BB133111EB % 2**64
        return number ^ (number >> 31)

    assert mixed(0) == 0xE220A8397B1DCDAF
    key = run_key(2**63 + 5, torch.device("cpu"))
    assert int(key) % 2**64 == mixed(2**63 + 5)
    folded = fold_in(key, torch.tensor([0, 1, -1]))
    for number, found in zip((0, 1, 2**64 - 1), folded.tolist(), strict=True):
        expected = mixed(mixed(2**63 + 5) ^ (number * 0x9E3779B97F4A7C15 % 2**64))
        assert found % 2**64 == expected
    assert uniforms(folded, 2).shape == (3, 2)


def test_a_state_of_other_environments_is_refused() -> None:
    environment = TorchCartPole(3)
    environment.reset(EpisodeSeeds(1), np.zeros(3, np.int64))
    with pytest.raises(RunStateError, match="state"):
        TorchCartPole(2).load_state_dict(environment.state_dict())


# ---------------------------------------------------------------- environments that break a rule


class Broken(TorchCartPole):
    """A cart-pole whose batches ``spoil`` changes."""

    def spoil(self, batch: TensorBatch) -> TensorBatch:
        return batch

    def step(self, actions: Any) -> dict[str, TensorBatch]:
        return {"CartPole": self.spoil(super().step(actions)["CartPole"])}


class BothFlags(Broken):
    def spoil(self, batch: TensorBatch) -> TensorBatch:
        batch.truncated = batch.truncated | batch.terminated
        return batch


class NoFinals(Broken):
    def spoil(self, batch: TensorBatch) -> TensorBatch:
        batch.final_observations = None
        return batch


class FinalsOfEndedRowsOnly(Broken):
    def spoil(self, batch: TensorBatch) -> TensorBatch:
        assert batch.final_observations is not None
        rows = (batch.terminated | batch.truncated).nonzero()[:, 0]
        batch.final_observations = {"state": batch.final_observations["state"][rows]}
        return batch


class DoubleRewards(Broken):
    def spoil(self, batch: TensorBatch) -> TensorBatch:
        batch.reward = batch.reward.double()
        return batch


class TurnsUnsaid(Broken):
    def spoil(self, batch: TensorBatch) -> TensorBatch:
        batch.needs_action = torch.ones_like(batch.terminated)
        return batch


class KeepsActions(TorchCartPole):
    """The actions of a step are read in the next one, as a program would that computes later."""

    _later: Any = None

    def step(self, actions: Any) -> dict[str, TensorBatch]:
        now, self._later = self._later or actions, actions
        return super().step(now)


class StateInPlace(TorchCartPole):
    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "steps": self._steps.numpy()}


class SeedsOfThisProcess(TorchCartPole):
    def _first_states(self, keys: Any, episodes: Any) -> Any:
        return super()._first_states(keys, episodes) + 1e-3 * torch.rand(4, len(episodes))


@pytest.mark.parametrize(
    ("broken", "rule"),
    [
        (BothFlags, "test_batches_have_the_shapes_types_and_flags_of_the_contract"),
        (NoFinals, "test_tensors_are_on_the_device_and_final_observations_have_a_row_for_every_slot"),
        (FinalsOfEndedRowsOnly, "test_tensors_are_on_the_device_and_final_observations_have_a_row_for_every_slot"),
        (DoubleRewards, "test_tensors_are_on_the_device_and_final_observations_have_a_row_for_every_slot"),
        (TurnsUnsaid, "test_tensors_are_on_the_device_and_final_observations_have_a_row_for_every_slot"),
        (KeepsActions, "test_actions_may_be_overwritten_after_the_step"),
        (StateInPlace, "test_a_saved_state_does_not_change_with_later_steps"),
        (SeedsOfThisProcess, "test_equal_seeds_and_actions_give_equal_batches"),
    ],
)
def test_the_conformance_class_finds_what_is_broken(broken: type[TorchCartPole], rule: str) -> None:
    class Rules(TensorEnvironmentConformance):
        steps = 40

        def make_tensors(self, num_envs: int) -> TorchCartPole:
            return broken(num_envs)

    with pytest.raises(AssertionError):
        getattr(Rules(), rule)()


# ---------------------------------------------------------------- the form of batches


def one_row(batch: TensorBatch) -> None:
    batch.reward = batch.reward[:1]  # would be copied to every row


def other_shape(batch: TensorBatch) -> None:
    batch.observations["state"] = batch.observations["state"][:, :1]


def whole_numbers(batch: TensorBatch) -> None:
    batch.observations["state"] = batch.observations["state"].long()


def number_as_flag(batch: TensorBatch) -> None:
    batch.terminated = batch.terminated.float()


def other_device(batch: TensorBatch) -> None:
    batch.truncated = batch.truncated.to("meta")


def array(batch: TensorBatch) -> None:
    batch.reward = batch.reward.numpy()  # type: ignore[assignment]


def final_observation_left_out(batch: TensorBatch) -> None:
    batch.final_observations = {}


def graph(batch: TensorBatch) -> None:
    batch.reward = batch.reward.clone().requires_grad_()


def unannounced_turns(batch: TensorBatch) -> None:
    batch.needs_action = torch.ones_like(batch.terminated)


def mask_of_another_branch(batch: TensorBatch) -> None:
    batch.action_mask = torch.ones((2, 3), dtype=torch.bool)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (
            one_row,
            r"reward is a tensor of float32 of shape \[1\] on cpu, not a tensor of float32 of shape \[2\] on cpu",
        ),
        (other_shape, r"observation 'state' is a tensor of float32 of shape \[2, 1\] on cpu, not .* of shape \[2, 4\]"),
        (whole_numbers, r"observation 'state' is a tensor of int64 of shape"),
        (number_as_flag, r"terminated is a tensor of float32 of shape \[2\] on cpu, not a tensor of bool"),
        (other_device, r"truncated is a tensor of bool of shape \[2\] on meta, not a tensor of bool .* on cpu"),
        (array, r"reward is ndarray, not a tensor of float32"),
        (final_observation_left_out, r"final observation 'state' is missing"),
        (graph, r"reward requires a gradient; detach it"),
        (unannounced_turns, r"needs_action is given, and takes_turns is false"),
        (mask_of_another_branch, r"action_mask is a tensor of bool of shape \[2, 3\]"),
    ],
)
def test_a_batch_of_another_form_is_refused_where_it_is_returned(spoil: Any, message: str) -> None:
    class Spoiled(TorchCartPole):
        def step(self, actions: Any) -> dict[str, TensorBatch]:
            batches = super().step(actions)
            spoil(batches["CartPole"])
            return batches

    environment = AsNumpy(Spoiled(2), "environment spoiled")
    environment.reset(EpisodeSeeds(1), np.zeros(2, np.int64))
    with pytest.raises(EnvironmentFailed, match=rf"environment spoiled: behavior 'CartPole': {message}.*\(in step\)"):
        environment.step({"CartPole": Actions(discrete=np.zeros((2, 1), np.int64))})


def test_more_digits_than_declared_are_taken() -> None:
    class Precise(TorchCartPole):
        def reset(self, seeds: EpisodeSeeds, episodes: Any) -> dict[str, TensorBatch]:
            batch = super().reset(seeds, episodes)["CartPole"]
            batch.observations = {"state": batch.observations["state"].double()}
            return {"CartPole": batch}

    seen = AsNumpy(Precise(2)).reset(EpisodeSeeds(1), np.zeros(2, np.int64))["CartPole"].observations["state"]
    assert seen.dtype == np.float64
