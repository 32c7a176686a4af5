"""Play an environment with random actions, and check its batches: the building blocks of the environment tests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

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

Array = NDArray[Any]
Batches = Mapping[str, AgentBatch]
Observations = dict[str, Array]
Mask = NDArray[np.bool_] | None


def random_observations(behavior: BehaviorSpec, rows: int, generator: np.random.Generator) -> Observations:
    """Draw observations by name, each [rows, *shape]: in [-1, 1], one-hot, or whole numbers from 0 to 9.

    Some entities are absent, and in the first row all are.
    """
    return {spec.name: _random_observation(spec, rows, generator) for spec in behavior.observations}


def _random_observation(spec: ObservationSpec, rows: int, generator: np.random.Generator) -> Array:
    shape = (rows, *spec.shape)
    if spec.kind == "one_hot":
        options = generator.integers(spec.size, size=rows)
        indicators = np.eye(spec.size, dtype=spec.dtype)
        return indicators[options]
    if spec.dtype.kind == "f":
        values = generator.uniform(-1.0, 1.0, shape).astype(spec.dtype)
    else:
        values = generator.integers(0, 10, shape).astype(spec.dtype)
    if spec.kind == "entities":
        # Zeros mean that an entity is absent. Without any, attention must not divide by the number of entities.
        entities = spec.shape[0]
        present = generator.random((rows, entities)) < 0.5
        values[~present] = 0
        values[:1] = 0
    return values


def random_mask(behavior: BehaviorSpec, rows: int, generator: np.random.Generator) -> Mask:
    """Draw a mask [rows, mask_size] that allows at least one option of each branch, not always the first.

    None for a behavior without discrete actions.
    """
    if not behavior.discrete:
        return None
    mask = generator.random((rows, behavior.mask_size)) < 0.5
    every_row = np.arange(rows)
    first = 0
    for options in behavior.discrete:
        allowed = first + generator.integers(options, size=rows)
        mask[every_row, allowed] = True
        first += options
    return mask


def random_actions(
    behaviors: Mapping[str, BehaviorSpec], batches: Batches | None, generator: np.random.Generator
) -> dict[str, Actions]:
    """Draw allowed actions of every agent uniformly; unbounded real parts from [-1, 1]."""
    chosen = {}
    for name, spec in behaviors.items():
        mask = batches[name].action_mask if batches else None
        chosen[name] = drawn_actions(spec, spec.slots, mask, generator)
    return chosen


def drawn_actions(spec: BehaviorSpec, rows: int, mask: Mask, generator: np.random.Generator) -> Actions:
    """Draw actions of ``rows`` agents uniformly, of the options that ``mask`` [rows, mask_size] allows."""
    actions = Actions()
    if spec.continuous:
        low = np.where(np.isfinite(spec.low), spec.low, -1.0)
        high = np.where(np.isfinite(spec.high), spec.high, 1.0)
        reals = generator.uniform(low, high, (rows, spec.continuous))
        actions.continuous = reals.astype(np.float32)
    if spec.discrete:
        # The option with the largest of independent uniform scores is uniform among those that are allowed.
        scores = generator.random((rows, spec.mask_size))
        if mask is not None:
            scores = np.where(mask, scores, -1.0)
        best = [branch.argmax(axis=1) for branch in split_branches(spec, scores)]
        options = np.stack(best, axis=1)
        actions.discrete = options.astype(np.int64)
    return actions


def split_branches(spec: BehaviorSpec, options: Array) -> list[Array]:
    """Split [rows, mask_size] into an array [rows, options] for each branch."""
    edges = np.cumsum(spec.discrete)[:-1]
    return np.split(options, edges, axis=1)


def first_batches(environment: Any, run_seed: int = 1) -> Any:
    """Reset an environment of arrays or tensors to episode 0 of every copy; return the batches by behavior."""
    episodes = np.zeros(environment.num_envs, np.int64)
    return environment.reset(EpisodeSeeds(run_seed), episodes)


def play(environment: Environment, steps: int, run_seed: int = 1) -> Iterator[Batches]:
    """Reset, then yield the batches of the reset and of ``steps`` random steps. A batch is valid until the next one."""
    for batches, _ in played(environment, steps, run_seed):
        yield batches


def played(
    environment: Environment, steps: int, run_seed: int = 1
) -> Iterator[tuple[Batches, Mapping[str, Actions] | None]]:
    """Yield batches as :func:`play` does, each with the actions that led to it; None for the reset."""
    generator = np.random.default_rng(run_seed)
    batches: Batches = first_batches(environment, run_seed)
    yield batches, None
    for _ in range(steps):
        actions = random_actions(environment.behaviors, batches, generator)
        batches = environment.step(actions)
        yield batches, actions


def check_batch(spec: BehaviorSpec, batch: AgentBatch) -> None:
    """Check everything that a batch of any environment must satisfy."""
    slots = spec.slots
    ended = len(batch.ended)
    names = {observation.name for observation in spec.observations}
    assert set(batch.observations) == names
    for observation in spec.observations:
        values = batch.observations[observation.name]
        _check_observation(observation, values, slots)
        if ended:
            assert batch.final_observations is not None, "an episode ended without its final observation"
            final = batch.final_observations[observation.name]
            _check_observation(observation, final, ended)
    _check_form("reward", batch.reward, np.float32, slots)
    _check_form("terminated", batch.terminated, np.bool_, slots)
    _check_form("truncated", batch.truncated, np.bool_, slots)
    both = batch.terminated & batch.truncated
    assert not both.any(), "a row is either terminated or truncated"
    ended_rows = np.flatnonzero(batch.terminated | batch.truncated)
    assert batch.ended.tolist() == ended_rows.tolist()
    if batch.group_reward is not None:
        _check_form("group_reward", batch.group_reward, np.float32, slots)
    if batch.needs_action is not None:
        _check_form("needs_action", batch.needs_action, np.bool_, slots)
        _check_waiting_agents(batch, batch.needs_action)
    final_info = batch.final_info or {}
    for name, values in final_info.items():
        about = f"final_info {name!r}"
        assert isinstance(name, str), about
        _check_form(about, values, np.float64, ended)
    if batch.action_mask is not None and batch.truncated.any():
        assert batch.final_action_mask is not None, (
            "an episode with action masks was truncated without final_action_mask: it says what is allowed at the "
            "final observations, whose values trainers need"
        )
    _check_mask(spec, batch.action_mask, slots)
    _check_mask(spec, batch.final_action_mask, ended)


def _check_mask(spec: BehaviorSpec, mask: Mask, rows: int) -> None:
    if mask is None:
        return
    _check_form("a mask", mask, np.bool_, rows, spec.mask_size)
    for branch in split_branches(spec, mask):
        allows_some = branch.any(axis=1)
        assert allows_some.all(), "a mask must leave at least one option in each branch"


def _check_form(name: str, array: Array, dtype: Any, *shape: int) -> None:
    actual = f"{name} has shape {array.shape} and type {array.dtype}"
    expected = f"{shape} and {np.dtype(dtype)}"
    assert array.shape == shape and array.dtype == dtype, f"{actual}, but must have {expected}"


def _check_observation(observation: ObservationSpec, values: Array, rows: int) -> None:
    name = f"observation {observation.name!r}"
    _check_form(name, values, observation.dtype, rows, *observation.shape)
    allowed = f"its bounds {observation.low} to {observation.high}"
    if observation.kind == "one_hot":
        allowed = "0 and 1"
    outside = outside_bounds(observation, values)
    assert not outside.any(), f"{name} is outside {allowed}"


def _check_waiting_agents(batch: AgentBatch, needs_action: Array) -> None:
    """Check that only agents that act, or whose episode ended or was lost, have a reward."""
    rewarded = needs_action | batch.terminated | batch.truncated
    if batch.aborted is not None:
        rewarded = rewarded | batch.aborted
    for rewards in (batch.reward, batch.group_reward):
        assert rewards is None or not rewards[~rewarded].any(), (
            "a slot whose needs_action is False has a reward, which is ignored: add it to the reward of the step "
            "in which the agent acts next"
        )


SEEN = ("observations", "action_mask")  # what the next action depends on
# What a step led to, in the episode that it was a step of.
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


def of_env(behaviors: Mapping[str, BehaviorSpec], batches: Batches, env: int, fields: Sequence[str]) -> dict[str, Any]:
    """Return fields of the agents in the environment ``env``: what they are :data:`SEEN`, or :data:`RESULTS`."""
    values = {}
    for name, spec in behaviors.items():
        rows = np.flatnonzero(spec.env_index == env)
        batch = batches[name].take(rows)
        values[name] = {field: getattr(batch, field) for field in fields}
    return values


def random_recording(
    behavior: BehaviorSpec, lengths: Sequence[int], seed: int = 1, *, masked: bool = False
) -> Recording:
    """Return random episodes with these numbers of transitions; the last one is truncated, the others terminated."""
    generator = np.random.default_rng(seed)
    episodes = len(lengths)
    transitions = sum(lengths)
    rows = transitions + episodes  # an episode has one more observation than transitions
    terminated, truncated = np.zeros((2, transitions), np.bool_)
    ends = np.cumsum(lengths) - 1
    terminated[ends[:-1]] = True
    truncated[-1] = True
    mask = random_mask(behavior, rows, generator)
    acted_on = None
    if mask is not None:
        # An action follows all rows but the last of each episode.
        episode = np.repeat(np.arange(episodes), lengths)
        row = np.arange(transitions) + episode
        acted_on = mask[row]
    actions = drawn_actions(behavior, transitions, acted_on, generator)
    observations = random_observations(behavior, rows, generator)
    reward = generator.normal(size=transitions).astype(np.float32)
    recorded_mask = mask if masked else None
    episode_lengths = np.array(lengths, np.int64)
    return Recording(behavior, observations, actions, reward, terminated, truncated, episode_lengths, recorded_mask)
