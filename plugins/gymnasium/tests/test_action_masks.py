"""Every form in which Gymnasium environments say which options they allow."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from gym_play import Scripted, register
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space, Tuple
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from numpy.typing import NDArray
from one_behavior import act, begin

from rlcore import AgentBatch, Environment, EnvironmentFailed, EpisodeSeeds
from rlcore_gymnasium.native import ADAPTERS
from rlcore_gymnasium.spaces import ActionCodec, MismatchedValue, ObservationSettings

SEEDS = EpisodeSeeds(5)
NUM_ENVS = 3
BRANCHES = (3, 2)
LENGTH = 4
ENTRIES = ["entry", "entry of each"]


class Masked(Scripted):
    """Allows random options, and notes what it allowed: ``history[episode]`` has a mask for each observation."""

    plain = Box(-1.0, 1.0, (1,))
    action_space = MultiDiscrete(BRANCHES)
    observation_space: Space[Any] = plain
    _length = LENGTH
    _ends = "truncated"

    def __init__(self, form: str = "flat", late: bool = False, odd: bool = False) -> None:
        """``late``: reset gives no mask. ``odd``: only every second episode has masks."""
        self.form, self.late, self.odd = form, late, odd
        self.history: list[list[list[bool]]] = []
        if form in ENTRIES:
            mask: Space[Any] = Box(0, 1, (sum(BRANCHES),), np.int8)
            if form == "entry of each":
                mask = Tuple([Box(0, 1, (options,), np.int8) for options in BRANCHES])
            self.observation_space = Dict({"place": self.plain, "action_mask": mask})

    def begin(self, seed: int | None, options: Any) -> None:
        self.history.append([])

    def act(self, action: Any) -> float:
        return 0.0

    def observe(self) -> Any:
        mask = self.np_random.random(sum(BRANCHES)) < 0.5
        mask[self.np_random.integers(3)] = True
        mask[3 + self.np_random.integers(2)] = True
        shows = (self._steps > 0 or not self.late) and not (self.odd and len(self.history) % 2)
        self.mask = mask if shows else np.ones_like(mask)
        self.history[-1].append(self.mask.tolist())
        place = np.zeros(1, np.float32)
        self.masks: dict[str, Any] = {}
        if self.form in ENTRIES:
            entry: Any = self.mask.astype(np.int8)
            if self.form == "entry of each":
                entry = tuple(np.split(entry, [3]))
            return {"place": place, "action_mask": entry}
        if shows and self.form != "method":
            parts = tuple(np.split(mask.astype(np.int8), [3]))
            self.masks = {"action_mask": parts if self.form == "tuple" else mask}
        return place

    def info(self) -> dict[str, Any]:
        return self.masks


class Asked(Masked):
    """Has the method that sb3-contrib calls."""

    def action_masks(self) -> NDArray[np.bool_]:
        return self.mask


FORMS = ["flat", "tuple", *ENTRIES, "method"]


@pytest.fixture
def masked(make: Callable[..., Environment]) -> Callable[..., Environment]:
    """``masked(form, late=True)``: three environments that are stepped one by one."""

    def masked(form: str, **options: Any) -> Environment:
        env_id = register("rlcore-tests/Masked-v0", Asked if form == "method" else Masked)
        return make(env_id, NUM_ENVS, form=form, **options)

    return masked


def masks_of(environment: Any, steps: int) -> list[list[list[list[bool]]]]:
    """Play, and return the masks of each observation, by environment and episode; only finished episodes."""
    episodes: list[list[list[list[bool]]]] = [[[]] for _ in range(NUM_ENVS)]
    batch: AgentBatch = begin(environment, SEEDS)
    for _ in range(steps):
        acts = np.ones(NUM_ENVS, np.bool_) if batch.needs_action is None else batch.needs_action
        for env in np.flatnonzero(acts):
            everything = [True] * sum(BRANCHES)
            episodes[env][-1].append(everything if batch.action_mask is None else batch.action_mask[env].tolist())
        batch = act(environment)
        for row, env in enumerate(batch.ended):
            final = batch.final_action_mask
            episodes[env][-1].append([True] * sum(BRANCHES) if final is None else final[row].tolist())
            episodes[env].append([])
    return [each[:-1] for each in episodes]


@pytest.mark.parametrize("odd", [False, True], ids=["", "every second episode"])
@pytest.mark.parametrize("late", [False, True], ids=["", "late"])
@pytest.mark.parametrize("form", FORMS)
def test_masks_are_those_of_each_observation_whatever_their_form(masked: Any, form: str, late: bool, odd: bool) -> None:
    environment = masked(form, late=late, odd=odd)
    found = masks_of(environment, 3 * LENGTH)
    assert found == [env.unwrapped.history[:3] for env in environment.vector.envs]
    assert [spec.name for spec in environment.behaviors["Agent"].observations] == [
        "place" if form in ENTRIES else "observation"
    ]


@pytest.mark.parametrize("mode", list(AutoresetMode), ids=lambda mode: mode.name)
@pytest.mark.parametrize("odd", [False, True], ids=["", "every second episode"])
@pytest.mark.parametrize("form", FORMS)
def test_masks_of_vectorized_forms_are_those_of_each_observation(form: str, odd: bool, mode: AutoresetMode) -> None:
    kind = Asked if form == "method" else Masked
    vector = SyncVectorEnv([lambda: kind(form, odd=odd)] * NUM_ENVS, autoreset_mode=mode)
    found = masks_of(ADAPTERS[mode]("Masked-v0", "Agent", vector), 3 * LENGTH + 3)
    for ours, env in zip(found, vector.envs, strict=True):
        theirs = env.history[: len(ours)]
        if form == "method":  # a vectorized form that has ended is not asked
            theirs = [[*each[:-1], [True] * sum(BRANCHES)] for each in theirs]
        assert len(ours) == 3 and ours == theirs


def test_a_copy_without_masks_allows_everything_beside_one_with_masks(masked: Any) -> None:
    environment = masked("flat")
    environment.vector.envs[0].unwrapped.odd = True
    found = masks_of(environment, LENGTH)
    assert found == [env.unwrapped.history[:1] for env in environment.vector.envs]
    assert all(map(all, found[0][0])) and not all(map(all, found[1][0]))


def test_masks_that_come_late_are_told_once(masked: Any, caplog: pytest.LogCaptureFixture) -> None:
    environment = masked("flat", late=True)
    with caplog.at_level(logging.WARNING):
        masks_of(environment, 3 * LENGTH)
    (record,) = caplog.records
    assert "step returns an action_mask and reset returned none" in record.getMessage()


@pytest.mark.parametrize("mode", [None, *AutoresetMode], ids=str)
def test_a_mask_that_is_missing_within_an_episode_is_an_error_of_the_environment(
    masked: Any, mode: AutoresetMode | None
) -> None:
    if mode is None:
        environment = masked("flat")
    else:
        environment = ADAPTERS[mode]("Masked-v0", "Agent", SyncVectorEnv([Masked] * NUM_ENVS, autoreset_mode=mode))
    begin(environment, SEEDS)
    environment.vector.envs[1].unwrapped.odd = True
    with pytest.raises(EnvironmentFailed, match=r"step returned an info without 'action_mask', although the infos of"):
        act(environment)


SAMPLED = {
    "discrete": (Discrete(3, start=5), lambda mask: mask),
    "branches": (MultiDiscrete([3, 2]), lambda mask: tuple(np.split(mask, [3]))),
    "matrix": (
        MultiDiscrete([[3, 2], [2, 2]]),
        lambda mask: (tuple(np.split(mask[:5], [3])), tuple(np.split(mask[5:], [2]))),
    ),
    "tuple": (Tuple((Box(-1, 1), Discrete(3), Discrete(2))), lambda mask: (
        None, mask[:3], mask[3:])),
    "dict": (
        Dict(go=MultiDiscrete([3, 2]), aim=Box(-1, 1)),
        lambda mask: {"go": tuple(np.split(mask, [3])), "aim": None},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SAMPLED)
def test_a_mask_that_a_space_samples_with_allows_what_is_sampled(name: str) -> None:
    space, form = SAMPLED[name]
    space.seed(0)
    codec = ActionCodec.of(space, "Env-v0")
    generator = np.random.default_rng(0)
    first = np.cumsum((0, *codec.discrete[:-1]))
    for _ in range(20):
        flat = (generator.random(sum(codec.discrete)) < 0.5).astype(np.int8)
        flat[first + generator.integers(codec.discrete)] = 1
        mask = codec.mask(form(flat))
        np.testing.assert_array_equal(mask, flat)
        actions = codec.empty(1)
        seen = np.zeros_like(mask)
        for _ in range(60):
            sample = space.sample(form(flat))
            batch = sample if isinstance(sample, dict) else (sample,) if codec.single else sample
            stacked = {k: np.array([v]) for k, v in batch.items()} if isinstance(batch, dict) else tuple(
                np.array([value]) for value in batch
            )  # fmt: skip
            codec.read(stacked[0] if codec.single else stacked, actions, slice(None))
            seen[first + actions.discrete[0]] = True
        np.testing.assert_array_equal(seen, mask)


def test_a_mask_of_bits_is_that_of_their_space_or_one_for_both_values() -> None:
    space = MultiBinary(3)
    codec = ActionCodec.of(space, "Env-v0")
    mask = np.array([0, 1, 2], np.int8)
    samples = np.array([space.sample(mask) for _ in range(50)])
    assert samples.min(0).tolist() == [0, 1, 0] and samples.max(0).tolist() == [0, 1, 1]
    flat = [1, 0, 0, 1, 1, 1]
    assert codec.mask(mask).tolist() == codec.mask(np.array(flat)).tolist() == list(map(bool, flat))
    assert codec.mask(np.array(flat).reshape(3, 2)).tolist() == list(map(bool, flat))


@pytest.mark.parametrize(
    "wrong", [np.ones(6), np.ones(4, np.int8), ([1, 0, 0],), ([1, 0], [1, 0, 1]), "all", 1, [None, None, None]], ids=str
)
def test_a_mask_that_does_not_fit_the_actions_is_refused(wrong: Any) -> None:
    with pytest.raises(MismatchedValue, match=r"action_mask as .*expected zeros and ones of shape \[[235]\]"):
        ActionCodec.of(MultiDiscrete(BRANCHES), "Env-v0").mask(wrong)


def test_an_entry_that_the_configuration_names_or_that_does_not_fit_is_observed(
    make: Callable[..., Environment], masked: Any, caplog: pytest.LogCaptureFixture
) -> None:
    named = masked("entry", observations={"action_mask": ObservationSettings()})
    assert [spec.name for spec in named.behaviors["Agent"].observations] == ["action_mask", "place"]
    assert begin(named, SEEDS).action_mask is None
    assert not caplog.records
    stacked = masked("entry", wrappers=[{"name": "FrameStackObservation", "stack_size": 2}])
    assert {spec.name for spec in stacked.behaviors["Agent"].observations} == {"action_mask", "place"}
    assert "the observation 'action_mask' is observed, and masks nothing" in caplog.text
