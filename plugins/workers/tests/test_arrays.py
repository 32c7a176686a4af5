"""Batches of several workers, in shared memory and by messages, are put together into the batch of one process."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import attrs
import numpy as np
import pytest

from rlcore import Actions, AgentBatch, BehaviorSpec, EnvironmentFailed, EpisodeSeeds, NonFiniteError, ObservationSpec
from rlcore_workers.arrays import BatchArrays
from rlcore_workers.contract import Task
from rlcore_workers.create import split
from rlcore_workers.layout import OPTIONAL_DEFAULTS, Layout
from rlcore_workers.messages import PartMessages
from rlcore_workers.part import Part

SEEN = ObservationSpec("seen", (2,), np.float32)
OBSERVATIONS = (ObservationSpec("place", (3,), np.float32), ObservationSpec("camera", (2, 2), np.uint8, "image"))
BOUNDS = [0, 2, 5]
NAN = float("nan")


@pytest.mark.parametrize(
    ("num_envs", "workers", "counts"), [(5, 2, [3, 2]), (4, 4, [1, 1, 1, 1]), (7, 3, [3, 2, 2]), (2, 1, [2])]
)
def test_environments_are_split_as_equally_as_possible(num_envs: int, workers: int, counts: list[int]) -> None:
    assert split(num_envs, workers) == counts


# ---------------------------------------------------------------- random batches of two behaviors


def part(envs: int, interleaved: bool) -> dict[str, BehaviorSpec]:
    """Two behaviors, of which the first has two agents in each environment."""
    index = np.tile(np.arange(envs), 2) if interleaved else np.repeat(np.arange(envs), 2)
    return {
        "a": BehaviorSpec("a", OBSERVATIONS, continuous=2, discrete=(2, 3), env_index=index),
        "b": BehaviorSpec("b", OBSERVATIONS[:1], discrete=(2,), env_index=np.arange(envs)),
    }


def drawn(random: np.random.Generator, spec: BehaviorSpec) -> AgentBatch:
    """A random batch; each array that it may leave out is there or not."""
    slots = spec.slots

    def observed(rows: int) -> dict[str, Any]:
        return {o.name: random.integers(0, 200, (rows, *o.shape)).astype(o.dtype) for o in spec.observations}

    def mask(rows: int) -> Any:
        allowed = random.random((rows, spec.mask_size)) < 0.5
        allowed[:, np.cumsum((0, *spec.discrete))[:-1]] = True
        return allowed

    terminated, truncated = random.random((2, slots)) < random.choice([0.0, 0.4])
    batch = AgentBatch(observed(slots), random.random(slots).astype(np.float32), terminated, truncated)
    batch.final_observations = observed(len(batch.ended)) if batch.ended.size else None
    optional = {
        "needs_action": random.random(slots) < 0.5,
        "action_mask": mask(slots),
        "group_reward": random.random(slots).astype(np.float32),
        "aborted": random.random(slots) < 0.2,
        "life_lost": random.random(slots) < 0.3,
        "final_action_mask": mask(len(batch.ended)),
    }
    for what, array in optional.items():
        setattr(batch, what, array if random.random() < 0.5 else None)
    if batch.ended.size:
        batch.final_info = {"won": random.random(len(batch.ended))} if random.random() < 0.5 else None
    return batch


def require_equal(found: AgentBatch, expected: AgentBatch) -> None:
    np.testing.assert_equal(attrs.asdict(found, recurse=False), attrs.asdict(expected, recurse=False))


def with_defaults(part_batch: AgentBatch, complete: AgentBatch) -> AgentBatch:
    """The batch of a worker beside those of others, which have arrays that it leaves out."""
    filled = attrs.evolve(part_batch)
    for what, default in OPTIONAL_DEFAULTS.items():
        beside = getattr(complete, what)
        rows = len(part_batch.ended) if what == "final_action_mask" else len(part_batch.reward)
        if beside is None or (what == "final_action_mask" and not rows):
            setattr(filled, what, None)
        elif getattr(part_batch, what) is None:
            setattr(filled, what, np.full((rows, *beside.shape[1:]), default, beside.dtype))
    if complete.final_info is not None and part_batch.ended.size and part_batch.final_info is None:
        filled.final_info = {"won": np.full(len(part_batch.ended), np.nan)}
    return filled


@pytest.mark.parametrize("interleaved", [False, True])
def test_the_whole_batch_has_the_rows_of_each_worker_and_messages_equal_shared_memory(interleaved: bool) -> None:
    random = np.random.default_rng(1)
    layout = Layout.of([part(end - start, interleaved) for start, end in ((0, 2), (2, 5))], BOUNDS, 2)
    twice = np.arange(5).tolist() * 2
    assert layout.behaviors["a"].env_index.tolist() == (twice if interleaved else sorted(twice))
    slots = [
        {name: np.arange(spec.slots)[rows[name]] for name, spec in layout.behaviors.items()} for rows in layout.rows
    ]
    shared, sent = (BatchArrays(layout, bytearray(layout.size)) for _ in range(2))
    remote = [BatchArrays(layout, bytearray(b"\xff" * layout.size)) for _ in range(2)]  # workers start with anything
    for arrays in (shared, sent):
        arrays.fill_defaults()
    here = [PartMessages(sent, number) for number in range(2)]
    there = [PartMessages(arrays, number) for number, arrays in enumerate(remote)]
    parts = [(shared.part(number), remote[number].part(number)) for number in range(2)]
    for step in range(60):
        actions = {
            name: Actions(
                random.random((spec.slots, spec.continuous)).astype(np.float32) if spec.continuous else None,
                random.integers(0, 2, (spec.slots, len(spec.discrete))),
            )
            for name, spec in layout.behaviors.items()
        }
        for arrays in (shared, sent):
            arrays.put_actions(actions)
            arrays.begin[:], arrays.parameters[:] = step + np.arange(5), step * np.ones((5, 2))
        infos: dict[int, Any] = {}
        of_parts: list[dict[str, AgentBatch]] = []
        for number, (local, far) in enumerate(parts):
            there[number].accept(here[number].request())
            for each in (local, far):
                for name, chosen in each.actions().items():
                    np.testing.assert_equal(attrs.asdict(chosen), attrs.asdict(actions[name].take(slots[number][name])))
            assert far.begin.tolist() == local.begin.tolist()
            assert far.parameters.tolist() == local.parameters.tolist()
            batches = {name: drawn(random, spec) for name, spec in part(len(local.begin), interleaved).items()}
            of_parts.append(batches)
            for each in (local, far):
                info = each.put(batches, step + np.arange(len(local.begin)))
                infos |= {} if info is None else {number: info}
            here[number].take(there[number].answer())
        assert sent.episodes.tolist() == shared.episodes.tolist() == [step + n for n in (0, 1, 0, 1, 2)]
        for name, complete in shared.batches(infos).items():
            require_equal(sent.batches(infos)[name], complete)
            for mine, batches in zip(slots, of_parts, strict=True):
                require_equal(complete.take(mine[name]), with_defaults(batches[name], complete))
            for what in set(OPTIONAL_DEFAULTS) - {"final_action_mask"}:
                left_out = all(getattr(batches[name], what) is None for batches in of_parts)
                assert (getattr(complete, what) is None) == left_out


@pytest.mark.parametrize("change", [lambda data: data[:-1], lambda data: data + b"x", lambda data: b""])
def test_a_message_of_another_size_is_refused(change: Any) -> None:
    layout = Layout.of([part(2, False)], [0, 2], 0)
    arrays = BatchArrays(layout, bytearray(layout.size))
    arrays.fill_defaults()
    messages = PartMessages(arrays, 0)
    with pytest.raises(ValueError, match="bytes"):
        messages.take(change(messages.answer()))
    with pytest.raises(ValueError, match="bytes"):
        messages.accept(change(messages.request()))


# ---------------------------------------------------------------- lost workers, and what is refused


def spec(env_index: list[int], **more: Any) -> BehaviorSpec:
    return BehaviorSpec("A", (SEEN,), discrete=(3,), env_index=np.array(env_index), **more)


def arrays_of(parts: list[list[int]], bounds: list[int]) -> BatchArrays:
    layout = Layout.of([{"A": spec(part)} for part in parts], bounds, parameters=1)
    arrays = BatchArrays(layout, bytearray(layout.size))
    arrays.fill_defaults()
    return arrays


def batch(ends: list[bool], **changed: Any) -> AgentBatch:
    rows = np.arange(len(ends), dtype=np.float32)
    over = np.array(ends)
    seen = np.stack([rows, -rows], 1)
    complete = AgentBatch({"seen": seen}, rows * 2, over, np.zeros(len(rows), np.bool_))
    complete.final_observations = {"seen": seen[over]} if over.any() else None
    for name, value in changed.items():
        setattr(complete, name, value)
    return complete


def test_aborted_rows_and_rows_without_a_worker() -> None:
    arrays = arrays_of([[0, 1], [0]], [0, 2, 3])
    arrays.part(0).put({"A": batch([True, False], aborted=np.array([False, True]))}, np.zeros(2, np.int64))
    arrays.part(1).put({"A": batch([False], reward=np.ones(1, np.float32))}, np.zeros(1, np.int64))
    lost = arrays.batches({}, lost={1})["A"].aborted
    assert lost is not None and lost.tolist() == [False, True, True]
    reported = arrays.batches({})["A"].aborted
    assert reported is not None and reported.tolist() == [False, True, False]
    arrays.silence(0)
    complete = arrays.batches({})["A"]
    assert complete.needs_action is not None and complete.needs_action.tolist() == [False, False, True]
    assert complete.ended.size == 0 and complete.reward.tolist() == [0, 0, 1]
    assert not complete.observations["seen"].any()  # of a worker that may have failed while it wrote


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"reward": np.zeros(3, np.float32)}, "reward is an array of float32 of shape [3], not an array of real"),
        ({"reward": np.zeros(2, np.int64)}, "reward is an array of int64 of shape [2], not an array of real"),
        ({"terminated": None}, "terminated is None, not an array of booleans"),
        ({"observations": {}}, "observation 'seen' is missing"),
        ({"observations": {"seen": np.zeros((2, 1), np.float32)}}, "'seen' is an array of float32 of shape [2, 1]"),
    ],
)
def test_a_batch_that_does_not_fit_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(EnvironmentFailed) as failed:
        arrays_of([[0, 1]], [0, 2]).part(0).put({"A": batch([False] * 2, **change)}, np.zeros(2, np.int64))
    assert message in str(failed.value)


@pytest.mark.parametrize("envs", [[0, 1], [1, 0]], ids=["a block of rows", "rows apart"])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"reward": np.array([0.0, NAN])}, "reward of slot 1 (environment {second}) is nan in its worker; fix"),
        ({"group_reward": np.array([np.inf, 0.0])}, "group reward of slot 0 (environment {first}) is inf in its"),
        ({"observations": {"seen": np.array([[0.0, NAN], [0.0, 0.0]])}}, "'seen' of slot 0 (environment {first}) is"),
        ({"observations": {"seen": np.array([[1.0, 0.0], [1e39, 0.0]])}}, "is [1.e+39 0.e+00] in its worker; values"),
        ({"final_observations": {"seen": np.array([[0.0, -np.inf]])}}, "final observation 'seen' of slot 1 (env"),
    ],
)
@pytest.mark.filterwarnings("ignore:overflow encountered in cast")
def test_numbers_that_are_not_finite_are_refused_with_their_environment(
    envs: list[int], change: dict[str, Any], message: str
) -> None:
    """As in one process; a worker counts its own slots, and does not know at which step of the run it is."""
    arrays = arrays_of([[0, 1], envs], [0, 2, 4])
    with pytest.raises(NonFiniteError) as failed:
        arrays.part(1).put({"A": batch([False, True], **change)}, np.zeros(2, np.int64))
    first, second = (2 + env for env in envs)
    assert message.format(first=first, second=second) in str(failed.value)
    arrays.silence(1)
    assert np.isfinite(arrays.batches({})["A"].observations["seen"]).all()


@pytest.mark.filterwarnings("ignore:overflow encountered in dot")
def test_large_numbers_that_are_finite_are_accepted() -> None:
    large = batch([False] * 2, observations={"seen": np.full((2, 2), 3e38, np.float32)})
    arrays_of([[0, 1]], [0, 2]).part(0).put({"A": large}, np.zeros(2, np.int64))


def test_groups_of_different_workers_are_different_groups_and_other_behaviors_are_refused() -> None:
    layout = Layout.of([{"A": spec([0, 0, 1, 1], group=np.array([0, 1, 2, 3]))}] * 2, [0, 2, 4], 0)
    group = layout.behaviors["A"].group
    assert group is not None and group.tolist() == list(range(8))
    layout = Layout.of([{"A": spec([0, 0, 1], group=np.array([0, -1, 1]))}] * 2, [0, 2, 4], 0)
    group = layout.behaviors["A"].group
    assert group is not None and group.tolist() == [0, -1, 1, 2, -1, 3]  # a negative number: in no group
    with pytest.raises(EnvironmentFailed, match="worker 1"):
        Layout.of([{"A": spec([0])}, {"B": spec([0])}], [0, 1, 2], 0)
    other = BehaviorSpec("A", (SEEN,), discrete=(4,), env_index=np.array([0]))
    with pytest.raises(EnvironmentFailed, match="behavior 'A' of worker 1"):
        Layout.of([{"A": spec([0])}, {"A": other}], [0, 1, 2], 0)


def test_a_worker_seeds_the_generators_of_its_process_by_its_environments_and_their_episodes() -> None:
    drawn: dict[tuple[int, int], tuple[float, float]] = {}

    class Drawing:
        episodes = np.zeros(1, np.int64)

        def reset(self, seeds: EpisodeSeeds, episodes: Any) -> dict[str, AgentBatch]:
            key = (seeds.first_env, int(episodes[0]))
            now = (random.random(), float(np.random.rand()))  # noqa: NPY002
            assert drawn.setdefault(key, now) == now
            return {}

    worker: Any = Part(Task(0, 0, 1, b"", b""))
    worker._environment = Drawing()
    for episode in (0, 3, 0):
        worker._arrays = SimpleNamespace(begin=np.array([episode]), put=lambda *_: None)
        for first_env in (0, 4, 0):
            worker.reset(EpisodeSeeds(7, first_env), ())
    assert len(drawn) == len(set(drawn.values())) == 4
