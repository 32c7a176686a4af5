"""Play an environment with random actions, and compare batches: the building blocks of the environment tests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from rlcore import (
    Actions,
    AgentBatch,
    BehaviorSpec,
    Environment,
    EpisodeSeeds,
    ObservationSpec,
    Recording,
    outside_bounds,
)
from rlcore_devkit.conformance.states import assert_equal, copied, equal

Batches = Mapping[str, AgentBatch]
Observations = dict[str, NDArray[Any]]


def random_observations(behavior: BehaviorSpec, rows: int, generator: np.random.Generator) -> Observations:
    """Draw observations by name, each [rows, *shape]: in [-1, 1], one-hot, or whole numbers from 0 to 9.

    Some entities are absent, and in the first row all are.
    """
    drawn: dict[str, NDArray[Any]] = {}
    for o in behavior.observations:
        if o.kind == "one_hot":
            drawn[o.name] = np.eye(o.size, dtype=o.dtype)[generator.integers(o.size, size=rows)]
        elif o.dtype.kind == "f":
            drawn[o.name] = generator.uniform(-1.0, 1.0, (rows, *o.shape)).astype(o.dtype)
        else:
            drawn[o.name] = generator.integers(0, 10, (rows, *o.shape)).astype(o.dtype)
        if o.kind == "entities":
            present = generator.random((rows, o.shape[0])) < 0.5
            drawn[o.name][~present] = 0
            drawn[o.name][:1] = 0
    return drawn


def random_mask(behavior: BehaviorSpec, rows: int, generator: np.random.Generator) -> NDArray[np.bool_] | None:
    """Draw a mask [rows, mask_size] that allows at least one option of each branch, not always the first.

    None for a behavior without discrete actions.
    """
    if not behavior.discrete:
        return None
    mask = generator.random((rows, behavior.mask_size)) < 0.5
    for first, options in zip(np.cumsum((0, *behavior.discrete)), behavior.discrete, strict=False):
        mask[np.arange(rows), first + generator.integers(options, size=rows)] = True
    return mask


def random_actions(
    behaviors: Mapping[str, BehaviorSpec], batches: Batches | None, generator: np.random.Generator
) -> dict[str, Actions]:
    """Draw allowed actions uniformly; unbounded real parts from [-1, 1]."""
    chosen: dict[str, Actions] = {}
    for name, spec in behaviors.items():
        actions = Actions()
        if spec.continuous:
            low = np.where(np.isfinite(spec.low), spec.low, -1.0)
            high = np.where(np.isfinite(spec.high), spec.high, 1.0)
            actions.continuous = generator.uniform(low, high, (spec.slots, spec.continuous)).astype(np.float32)
        if spec.discrete:
            mask = batches[name].action_mask if batches else None
            scores = generator.random((spec.slots, spec.mask_size))
            if mask is not None:
                scores = np.where(mask, scores, -1.0)
            edges = np.cumsum(spec.discrete)[:-1]
            branches = [branch.argmax(axis=1) for branch in np.split(scores, edges, axis=1)]
            actions.discrete = np.stack(branches, axis=1).astype(np.int64)
        chosen[name] = actions
    return chosen


def play(environment: Environment, steps: int, run_seed: int = 1) -> Iterator[Batches]:
    """Reset, then yield the batches of the reset and of ``steps`` random steps. A batch is valid until the next one."""
    for batches, _ in played(environment, steps, run_seed):
        yield batches


def played(
    environment: Environment, steps: int, run_seed: int = 1
) -> Iterator[tuple[Batches, Mapping[str, Actions] | None]]:
    """Yield batches as :func:`play` does, each with the actions that led to it; None for the reset."""
    generator = np.random.default_rng(run_seed)
    batches: Batches = environment.reset(EpisodeSeeds(run_seed), np.zeros(environment.num_envs, np.int64))
    yield batches, None
    for _ in range(steps):
        actions = random_actions(environment.behaviors, batches, generator)
        batches = environment.step(actions)
        yield batches, actions


def check_batch(spec: BehaviorSpec, batch: AgentBatch) -> None:
    """Check everything that a batch of any environment must satisfy."""
    slots = spec.slots
    ended = len(batch.ended)
    assert set(batch.observations) == {observation.name for observation in spec.observations}
    for observation in spec.observations:
        array = batch.observations[observation.name]
        assert array.shape == (slots, *observation.shape) and array.dtype == observation.dtype
        _check_bounds(observation, array)
        if ended:
            assert batch.final_observations is not None, "an episode ended without its final observation"
            final = batch.final_observations[observation.name]
            assert final.shape == (ended, *observation.shape) and final.dtype == observation.dtype
            _check_bounds(observation, final)
    assert batch.reward.shape == (slots,) and batch.reward.dtype == np.float32
    for flags in (batch.terminated, batch.truncated):
        assert flags.shape == (slots,) and flags.dtype == np.bool_
    assert not (batch.terminated & batch.truncated).any(), "a row is either terminated or truncated"
    assert batch.ended.tolist() == np.flatnonzero(batch.terminated | batch.truncated).tolist()
    if batch.needs_action is not None:
        assert batch.needs_action.shape == (slots,) and batch.needs_action.dtype == np.bool_
        taken = batch.needs_action | batch.terminated | batch.truncated
        if batch.aborted is not None:
            taken = taken | batch.aborted
        for rewards in (batch.reward, batch.group_reward):
            assert rewards is None or not rewards[~taken].any(), (
                "a slot whose needs_action is False has a reward, which is ignored: add it to the reward of the step "
                "in which the agent acts next"
            )
    for name, values in (batch.final_info or {}).items():
        assert isinstance(name, str) and values.shape == (ended,) and values.dtype == np.float64, f"final_info {name!r}"
    if batch.group_reward is not None:
        assert batch.group_reward.shape == (slots,) and batch.group_reward.dtype == np.float32
    assert batch.action_mask is None or batch.final_action_mask is not None or not batch.truncated.any(), (
        "an episode with action masks was truncated without final_action_mask: it says what is allowed at the final "
        "observations, whose values trainers need"
    )
    for mask, rows in ((batch.action_mask, slots), (batch.final_action_mask, ended)):
        if mask is not None:
            assert mask.shape == (rows, spec.mask_size) and mask.dtype == np.bool_
            edges = np.cumsum(spec.discrete)[:-1]
            for branch in np.split(mask, edges, axis=1):
                assert branch.any(axis=1).all(), "a mask must leave at least one option in each branch"


def _check_bounds(observation: ObservationSpec, values: NDArray[Any]) -> None:
    allowed = "0 and 1" if observation.kind == "one_hot" else f"its bounds {observation.low} to {observation.high}"
    assert not outside_bounds(observation, values).any(), f"observation {observation.name!r} is outside {allowed}"


def as_tree(batches: Batches) -> dict[str, dict[str, Any]]:
    """Return the fields of each batch by name."""
    return {name: attrs.asdict(batch, recurse=False) for name, batch in batches.items()}


def assert_equal_batches(ours: Batches, theirs: Batches) -> None:
    """Assert that two batches are equal bit for bit."""
    assert_equal(as_tree(ours), as_tree(theirs))


def equal_batches(ours: Batches, theirs: Batches) -> bool:
    """Return whether two batches are equal bit for bit."""
    return equal(as_tree(ours), as_tree(theirs))


def snapshot(batches: Batches) -> dict[str, AgentBatch]:
    """Return a copy of a batch that does not change when the environment steps."""
    return {name: AgentBatch(**copied(fields)) for name, fields in as_tree(batches).items()}


SHOWN = ("observations", "action_mask")
RESULTS = (
    "reward",
    "terminated",
    "truncated",
    "group_reward",
    "final_observations",
    "final_info",
    "final_action_mask",
    "life_lost",
)


def of_env(
    behaviors: Mapping[str, BehaviorSpec], batches: Batches, env: int, fields: Sequence[str]
) -> list[NDArray[Any]]:
    """Return fields of the agents in the environment ``env``: what they are :data:`SHOWN`, or :data:`RESULTS`."""
    found = []
    for name, spec in behaviors.items():
        rows = spec.env_index == env
        batch = batches[name]
        ended = rows[batch.ended]
        for field in fields:
            value = getattr(batch, field)
            final = field.startswith("final")
            parts = value.values() if isinstance(value, Mapping) else () if value is None else (value,)
            found += [part[ended if final else rows] for part in parts if ended.any() or not final]
    return found


def all_equal(ours: list[NDArray[Any]], theirs: list[NDArray[Any]]) -> bool:
    """Return whether all arrays are equal bit for bit; NaN equals NaN."""
    return len(ours) == len(theirs) and all(map(partial(np.array_equal, equal_nan=True), ours, theirs))


def random_recording(
    behavior: BehaviorSpec, lengths: Sequence[int], seed: int = 1, *, masked: bool = False
) -> Recording:
    """Return random episodes with these numbers of transitions; the last one is truncated, the others terminated."""
    generator = np.random.default_rng(seed)
    transitions = sum(lengths)
    rows = sum(lengths) + len(lengths)
    terminated, truncated = np.zeros((2, transitions), np.bool_)
    terminated[np.cumsum(lengths)[:-1] - 1] = True
    truncated[-1] = True
    continuous = discrete = None
    if behavior.continuous:
        low = np.where(np.isfinite(behavior.low), behavior.low, -3.0)
        high = np.where(np.isfinite(behavior.high), behavior.high, 3.0)
        continuous = generator.uniform(low, high, (transitions, behavior.continuous)).astype(np.float32)
    mask = random_mask(behavior, rows, generator)
    if mask is not None:  # an option that the mask of its row allows
        begins = np.arange(transitions) + np.repeat(np.arange(len(lengths)), lengths)
        scores = generator.random((transitions, behavior.mask_size)) * mask[begins]
        branches = np.split(scores, np.cumsum(behavior.discrete)[:-1], axis=1)
        discrete = np.stack([branch.argmax(axis=1) for branch in branches], axis=1)
    return Recording(
        behavior,
        random_observations(behavior, rows, generator),
        Actions(continuous, discrete),
        generator.normal(size=transitions).astype(np.float32),
        terminated,
        truncated,
        np.array(lengths, np.int64),
        mask if masked else None,
    )
