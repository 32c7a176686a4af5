"""Wrappers of a file: each alone and in pairs, compared with a loop over Gymnasium's own classes, and restored."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import wrappers as gw

from rlcore import (
    Actions,
    AgentBatch,
    ConfigError,
    Environment,
    EpisodeSeeds,
    SavesState,
    UnsupportedSpace,
    load_checkpoint,
    save_checkpoint,
)
from rlcore_devkit.playing import random_actions
from rlcore_gymnasium.spaces import ActionCodec, ObservationCodec

NUM_ENVS = 2
SEEDS = EpisodeSeeds(3, 5)
LIMIT = 11  # steps of an episode at most
STEPS = 26
SAVED_AT = 17  # within an episode, after others

Wrap = Callable[[Any], Any]
# The entry of a file, and the same wrapper made by hand.
VECTORS: Mapping[str, tuple[Any, Wrap]] = {
    "clip action": ("ClipAction", gw.ClipAction),
    "clip reward": (
        {"name": "ClipReward", "min_reward": -1.0, "max_reward": 0.5},
        lambda env: gw.ClipReward(env, min_reward=-1.0, max_reward=0.5),
    ),
    "delay": ({"name": "DelayObservation", "delay": 2}, lambda env: gw.DelayObservation(env, 2)),
    "discrete actions": ({"name": "DiscretizeAction", "bins": 3}, lambda env: gw.DiscretizeAction(env, 3)),
    "dtype": ({"name": "DtypeObservation", "dtype": "float64"}, lambda env: gw.DtypeObservation(env, np.float64)),
    "filter": (
        {"name": "FilterObservation", "filter_keys": ["time"]},
        lambda env: gw.FilterObservation(env, ("time",)),
    ),
    "flatten": ("FlattenObservation", gw.FlattenObservation),
    "frames": ({"name": "FrameStackObservation", "stack_size": 3}, lambda env: gw.FrameStackObservation(env, 3)),
    "frames from zero": (
        {"name": "FrameStackObservation", "stack_size": 2, "padding_type": "zero"},
        lambda env: gw.FrameStackObservation(env, 2, padding_type="zero"),
    ),
    "limit": ({"name": "TimeLimit", "max_episode_steps": 4}, lambda env: gw.TimeLimit(env, 4)),
    "repeat": ({"name": "RepeatAction", "num_repeats": 2}, lambda env: gw.RepeatAction(env, 2)),
    "rescale action": (
        {"name": "RescaleAction", "min_action": [0.0], "max_action": 1.0},
        lambda env: gw.RescaleAction(env, np.float32([0.0]), 1.0),
    ),
    "rescale": (
        {"name": "RescaleObservation", "min_obs": 0.0, "max_obs": 1.0},
        lambda env: gw.RescaleObservation(env, 0.0, 1.0),
    ),
    "reshape": ({"name": "ReshapeObservation", "shape": [3, 1]}, lambda env: gw.ReshapeObservation(env, (3, 1))),
    "skip": ({"name": "MaxAndSkipObservation", "skip": 3}, lambda env: gw.MaxAndSkipObservation(env, 3)),
    "statistics": ("RecordEpisodeStatistics", gw.RecordEpisodeStatistics),
    "sticky": (
        {"name": "StickyAction", "repeat_action_probability": 0.5, "repeat_action_duration": [1, 3]},
        lambda env: gw.StickyAction(env, 0.5, (1, 3)),
    ),
    "time": ("TimeAwareObservation", gw.TimeAwareObservation),
    "time apart": (
        {"name": "TimeAwareObservation", "flatten": False, "normalize_time": True},
        lambda env: gw.TimeAwareObservation(env, flatten=False, normalize_time=True),
    ),
}
PICTURES: Mapping[str, tuple[Any, Wrap]] = {
    "gray": ({"name": "GrayscaleObservation", "keep_dim": True}, lambda env: gw.GrayscaleObservation(env, True)),
    "gray without channel": ("GrayscaleObservation", gw.GrayscaleObservation),
    "resize": ({"name": "ResizeObservation", "shape": [6, 5]}, lambda env: gw.ResizeObservation(env, (6, 5))),
    **{name: VECTORS[name] for name in ("delay", "frames", "limit", "skip", "sticky", "time apart", "flatten")},
}

Content = tuple[Any, ...]


def content(batch: AgentBatch) -> Content:
    """What a step returns, as plain values that can be compared."""
    finals = batch.final_observations or {}
    masks = [None if mask is None else mask.tolist() for mask in (batch.action_mask, batch.final_action_mask)]
    return (
        {name: array.tobytes() for name, array in batch.observations.items()},
        {name: array.tobytes() for name, array in finals.items()},
        *(array.tolist() for array in (batch.reward, batch.terminated, batch.truncated, batch.ended)),
        *masks,
    )


class Pictures(gymnasium.Env[Any, Any]):
    """Observes noise, allows two of three actions, and ends at random; its state is unknown to a checkpoint."""

    metadata = {"render_modes": []}
    observation_space = gymnasium.spaces.Box(0, 255, (8, 7, 3), np.uint8)
    action_space = gymnasium.spaces.Discrete(3)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return self._seen()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observation, info = self._seen()
        terminated, truncated = (self.np_random.random(2) < (0.1, 0.05)).tolist()
        return observation, float(action), terminated, truncated, info

    def _seen(self) -> tuple[Any, dict[str, Any]]:
        mask = np.arange(3) != self.np_random.integers(3)
        return self.np_random.integers(0, 256, (8, 7, 3), np.uint8), {"action_mask": mask}


@pytest.fixture
def pictures(monkeypatch: pytest.MonkeyPatch) -> str:
    spec = gymnasium.envs.registration.EnvSpec("rlcore-tests/Pictures-v0", Pictures, max_episode_steps=LIMIT)
    monkeypatch.setitem(gymnasium.registry, spec.id, spec)
    return spec.id


def actions_of(environment: Environment, steps: int) -> list[Mapping[str, Actions]]:
    generator = np.random.default_rng(8)
    return [random_actions(environment.behaviors, None, generator) for _ in range(steps)]


def played(environment: Environment, actions: Sequence[Any]) -> Iterator[Content]:
    for each in actions:
        yield content(environment.step(copy.deepcopy(each))["Agent"])


def by_hand(make: Callable[[], Any], actions: Sequence[Any]) -> Iterator[Content]:
    """The same steps, in a loop over single environments; each episode has a new environment."""
    envs = [make() for _ in range(NUM_ENVS)]
    observing = ObservationCodec.of(envs[0].observation_space, "by hand")
    acting = ActionCodec.of(envs[0].action_space, "by hand")
    episodes = [2, 9]
    infos = [env.reset(seed=SEEDS(index, episodes[index]))[1] for index, env in enumerate(envs)]
    masked = "action_mask" in infos[0]
    for each in actions:
        rows, finals, masks, final_masks, rewards, ended = [], [], [], [], [], []
        flags: tuple[list[bool], list[bool]] = ([], [])
        for index, action in enumerate(acting.rows(copy.deepcopy(each["Agent"]))):
            observation, reward, terminated, truncated, info = envs[index].step(action)
            rewards.append(reward)
            flags[0].append(bool(terminated))
            flags[1].append(bool(truncated) and not terminated)
            if terminated or truncated:
                finals.append(observation)
                final_masks.append(info.get("action_mask"))
                ended.append(index)
                episodes[index] += 1
                envs[index] = make()
                observation, info = envs[index].reset(seed=SEEDS(index, episodes[index]))
            rows.append(observation)
            masks.append(info.get("action_mask"))
        yield (
            {name: array.tobytes() for name, array in observing.stack(rows).items()},
            {name: array.tobytes() for name, array in observing.stack(finals).items()} if ended else {},
            np.float32(rewards).tolist(),
            *flags,
            ended,
            np.bool_(masks).tolist() if masked else None,
            np.bool_(final_masks).tolist() if masked and ended else None,
        )


def checked(
    make: Any, env_id: str, chosen: Sequence[tuple[Any, Wrap]], place: Path | None = None, **options: Any
) -> str:
    """Prove that these wrappers are right and exact. Return why they do not fit each other, or how they resume."""

    def wrapped() -> Any:
        env = gymnasium.make(env_id, disable_env_checker=True, **options)
        for _, wrap in chosen:
            env = wrap(env)
        return env

    def made() -> Any:
        return make(env_id, NUM_ENVS, wrappers=[entry for entry, _ in chosen], **options)

    try:
        ObservationCodec.of(wrapped().observation_space, "by hand")
    except Exception as error:  # Gymnasium refuses the pair, or a network could not read it
        with pytest.raises((ConfigError, UnsupportedSpace)):
            made()
        return str(error)
    first = made()
    actions = actions_of(first, STEPS)
    first.reset(SEEDS, np.array([2, 9]))
    seen = list(played(first, actions[:SAVED_AT]))
    if isinstance(first, SavesState):
        state = first.state_dict()
        state = state if place is None else load_checkpoint(save_checkpoint(place, 1, {"run": state}))["run"]
        seen += played(first, actions[SAVED_AT:])
        assert seen == list(by_hand(wrapped, actions))
        assert any(step[2] for step in seen[:SAVED_AT]) and any(any(step[4]) for step in seen)
        resumed = made()
        resumed.load_state_dict(copy.deepcopy(state))
        assert list(played(resumed, actions[SAVED_AT:])) == seen[SAVED_AT:]
        return "saved"
    assert seen == list(by_hand(wrapped, actions[:SAVED_AT]))
    resumed, upcoming = made(), first.episodes + 1  # a checkpoint ends the episodes
    for each in (first, resumed):
        each.reset(SEEDS, upcoming)
    ours, theirs = (list(played(each, actions[SAVED_AT:])) for each in (first, resumed))
    assert ours == theirs
    return "ended"


@pytest.mark.parametrize("name", VECTORS)
def test_wrappers_of_vectors_are_exact_alone_and_in_pairs(make: Any, name: str, tmp_path: Path) -> None:
    """Rewards, flags, final observations as in a loop over Gymnasium's classes; a restored one continues equally."""
    alone = checked(make, "Pendulum-v1", [VECTORS[name]], tmp_path, max_episode_steps=LIMIT)
    assert alone == "saved" if name != "filter" else "only usable with" in alone
    fitting = [
        other
        for other in VECTORS
        if (name, other) != ("statistics", "statistics")  # Gymnasium's class refuses its own key
        and checked(make, "Pendulum-v1", [VECTORS[name], VECTORS[other]], max_episode_steps=LIMIT) == "saved"
    ]
    assert len(fitting) >= 9 if name != "filter" else not fitting
    assert ("filter" in fitting) == (name == "time apart")


@pytest.mark.parametrize("name", PICTURES)
def test_wrappers_of_pictures_are_exact_alone_and_in_pairs(make: Any, pictures: str, name: str) -> None:
    """With action masks. This environment cannot be saved: a checkpoint ends episodes, a new one continues equally."""
    pytest.importorskip("cv2")
    assert checked(make, pictures, [PICTURES[name]]) == "ended"
    fitting = [other for other in PICTURES if checked(make, pictures, [PICTURES[name], PICTURES[other]]) == "ended"]
    assert len(fitting) >= 5
