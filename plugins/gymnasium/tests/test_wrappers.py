"""Wrappers of a file: each alone and in pairs, compared with a loop over Gymnasium's own classes, and restored."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import gymnasium
import numpy as np
import pytest
from gym_play import Scripted, register
from gymnasium import wrappers as gw
from one_behavior import act, begin

from rlcore import (
    Actions,
    AgentBatch,
    ConfigError,
    Environment,
    EpisodeSeeds,
    SavedValueError,
    SavesState,
    UnsupportedSpace,
    load_checkpoint,
    save_checkpoint,
)
from rlcore_devkit.playing import random_actions
from rlcore_gymnasium.spaces import ActionCodec, ObservationCodec

NUM_ENVS = 2
SEEDS = EpisodeSeeds(3, 5)
EPISODES = (2, 9)
LIMIT = 11  # steps of an episode at most
STEPS = 26
SAVED_AT = 17  # within an episode, after others

Wrap = Callable[[Any], Any]


def wrapper(name: str, **arguments: Any) -> tuple[Any, Wrap]:
    """Return the entry of a file, with what YAML has in place of Python's values, and the same wrapper made by hand."""
    written: dict[str, Any] = {"name": name}
    for key, value in arguments.items():
        if isinstance(value, tuple | np.ndarray):
            written[key] = np.asarray(value).tolist()
        else:
            written[key] = np.dtype(value).name if isinstance(value, type) else value
    return written if arguments else name, lambda env: getattr(gw, name)(env, **arguments)


VECTORS: Mapping[str, tuple[Any, Wrap]] = {
    "clip action": wrapper("ClipAction"),
    "clip reward": wrapper("ClipReward", min_reward=-1.0, max_reward=0.5),
    "delay": wrapper("DelayObservation", delay=2),
    "discrete actions": wrapper("DiscretizeAction", bins=3),
    "dtype": wrapper("DtypeObservation", dtype=np.float64),
    "filter": wrapper("FilterObservation", filter_keys=("time",)),
    "flatten": wrapper("FlattenObservation"),
    "frames": wrapper("FrameStackObservation", stack_size=3),
    "frames from zero": wrapper("FrameStackObservation", stack_size=2, padding_type="zero"),
    "limit": wrapper("TimeLimit", max_episode_steps=4),
    "repeat": wrapper("RepeatAction", num_repeats=2),
    "rescale action": wrapper("RescaleAction", min_action=np.float32([0.0]), max_action=1.0),
    "rescale": wrapper("RescaleObservation", min_obs=0.0, max_obs=1.0),
    "reshape": wrapper("ReshapeObservation", shape=(3, 1)),
    "skip": wrapper("MaxAndSkipObservation", skip=3),
    "statistics": wrapper("RecordEpisodeStatistics"),
    "sticky": wrapper("StickyAction", repeat_action_probability=0.7, repeat_action_duration=(2, 4)),
    "time": wrapper("TimeAwareObservation"),
    "time apart": wrapper("TimeAwareObservation", flatten=False, normalize_time=True),
}
PICTURES: Mapping[str, tuple[Any, Wrap]] = {
    "gray": wrapper("GrayscaleObservation", keep_dim=True),
    "gray without channel": wrapper("GrayscaleObservation"),
    "resize": wrapper("ResizeObservation", shape=(6, 5)),
    **{name: VECTORS[name] for name in ("delay", "frames", "limit", "skip", "sticky", "time apart", "flatten")},
}

Content = tuple[Any, ...]


def content(batch: AgentBatch) -> Content:
    """Return a batch as plain values that can be compared."""
    finals = batch.final_observations or {}
    masks = [None if mask is None else mask.tolist() for mask in (batch.action_mask, batch.final_action_mask)]
    return (
        {name: array.tobytes() for name, array in batch.observations.items()},
        {name: array.tobytes() for name, array in finals.items()},
        *(array.tolist() for array in (batch.reward, batch.terminated, batch.truncated, batch.ended)),
        *masks,
    )


class Pictures(Scripted):
    """Observes noise, allows two of three actions, and ends at random; its state is unknown to a checkpoint."""

    metadata = {"render_modes": []}
    observation_space = gymnasium.spaces.Box(0, 255, (8, 7, 3), np.uint8)
    action_space = gymnasium.spaces.Discrete(3)

    def observe(self) -> Any:
        self.mask = np.arange(3) != self.np_random.integers(3)
        return self.np_random.integers(0, 256, (8, 7, 3), np.uint8)

    def flags(self) -> Any:
        return (self.np_random.random(2) < (0.1, 0.05)).tolist()

    def info(self) -> dict[str, Any]:
        return {"action_mask": self.mask}


@pytest.fixture
def pictures() -> str:
    return register("rlcore-tests/Pictures-v0", Pictures, max_episode_steps=LIMIT)


def actions_of(environment: Environment, steps: int) -> list[Mapping[str, Actions]]:
    generator = np.random.default_rng(8)
    return [random_actions(environment.behaviors, None, generator) for _ in range(steps)]


def played(environment: Environment, actions: Sequence[Any]) -> Iterator[Content]:
    for each in actions:
        yield content(environment.step(copy.deepcopy(each))["Agent"])


def by_hand(envs: list[Any], make: Callable[[], Any] | None, actions: Sequence[Any]) -> Iterator[Content]:
    """Yield the content of each step of a loop over single environments; ``make`` makes a new one for each episode."""
    observing = ObservationCodec.of(envs[0].observation_space, "by hand")
    acting = ActionCodec.of(envs[0].action_space, "by hand")
    episodes = list(EPISODES[: len(envs)])
    infos = [env.reset(seed=SEEDS(index, episodes[index]))[1] for index, env in enumerate(envs)]
    masked = "action_mask" in infos[0]
    for each in actions:
        rows = []
        finals = []
        masks = []
        final_masks = []
        rewards = []
        ended = []
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
                envs[index] = envs[index] if make is None else make()
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
    make: Any,
    env_id: str,
    chosen: Sequence[tuple[Any, Wrap]],
    place: Path | None = None,
    num_envs: int = NUM_ENVS,
    **options: Any,
) -> str:
    """Prove that these wrappers are right and exact. Return why they do not fit each other, or how they resume."""

    def wrapped() -> Any:
        env = gymnasium.make(env_id, disable_env_checker=True, **options)
        for _, wrap in chosen:
            env = wrap(env)
        return env

    def made() -> Any:
        return make(env_id, num_envs, wrappers=[entry for entry, _ in chosen], **options)

    try:
        envs = [wrapped()]
        ObservationCodec.of(envs[0].observation_space, "by hand")
    except Exception as error:  # Gymnasium refuses the pair, or a network could not read it
        with pytest.raises((ConfigError, UnsupportedSpace)):
            made()
        return str(error)
    envs += [wrapped() for _ in range(num_envs - 1)]
    first = made()
    actions = actions_of(first, STEPS)
    first.reset(SEEDS, np.array(EPISODES[:num_envs]))
    seen = list(played(first, actions[:SAVED_AT]))
    if isinstance(first, SavesState):
        state = copy.deepcopy(first.state_dict())
        if place is not None:
            state = load_checkpoint(save_checkpoint(place, 1, {"run": state}))["run"]
        seen += played(first, actions[SAVED_AT:])
        assert seen == list(by_hand(envs, None, actions))
        assert any(any(step[4]) for step in seen[:SAVED_AT])
        resumed = made()
        resumed.load_state_dict(state)
        assert list(played(resumed, actions[SAVED_AT:])) == seen[SAVED_AT:]
        return "saved"
    assert seen == list(by_hand(envs, wrapped, actions[:SAVED_AT]))
    # a checkpoint ends the episodes
    resumed = made()
    upcoming = first.episodes + 1
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
        and checked(make, "Pendulum-v1", [VECTORS[name], VECTORS[other]], num_envs=1, max_episode_steps=LIMIT)
        == "saved"
    ]
    assert len(fitting) >= 9 if name != "filter" else not fitting
    assert ("filter" in fitting) == (name == "time apart")


@pytest.mark.parametrize("name", PICTURES)
def test_wrappers_of_pictures_are_exact_alone_and_in_pairs(make: Any, pictures: str, name: str) -> None:
    """With action masks. This environment cannot be saved: a checkpoint ends episodes, a new one continues equally."""
    pytest.importorskip("cv2")
    assert checked(make, pictures, [PICTURES[name]]) == "ended"
    pairs = {other: [PICTURES[name], PICTURES[other]] for other in PICTURES}
    fitting = [other for other, pair in pairs.items() if checked(make, pictures, pair, num_envs=1) == "ended"]
    assert len(fitting) >= 5


def test_cartpole_with_a_time_limit_is_truncated_at_the_limit_and_terminated_at_a_fall(make: Any) -> None:
    """CartPole is stepped natively without wrappers. Both ends are in the same run."""
    limit = wrapper("TimeLimit", max_episode_steps=14)
    assert checked(make, "CartPole-v1", [limit]) == "saved"
    environment = make("CartPole-v1", NUM_ENVS, wrappers=[limit[0]])
    begin(environment, SEEDS)
    steps = list(played(environment, actions_of(environment, 60)))
    assert any(any(step[3]) for step in steps) and any(any(step[4]) for step in steps)
    assert not any(terminated and truncated for step in steps for terminated, truncated in zip(*step[3:5], strict=True))


def test_atari_preprocessing_with_a_stack_of_frames_is_the_single_game_in_gymnasiums_wrappers(make: Any) -> None:
    pytest.importorskip("ale_py", reason="Atari needs the extra 'atari'")
    pytest.importorskip("cv2")
    chosen = [
        wrapper("AtariPreprocessing", screen_size=(42, 36), terminal_on_life_loss=True),
        wrapper("FrameStackObservation", stack_size=4),
        wrapper("TimeLimit", max_episode_steps=10),
    ]
    assert checked(make, "ale_py:ALE/MsPacman-v5", chosen, num_envs=1, frameskip=1) == "ended"
    environment = make("ale_py:ALE/MsPacman-v5", 1, wrappers=[entry for entry, _ in chosen], frameskip=1)
    (spec,) = environment.behaviors["Agent"].observations
    assert (spec.kind, spec.shape, spec.dtype) == ("image", (36, 42, 4), np.uint8)
    with pytest.raises(ConfigError, match=r"options\.frameskip: must be 1, because AtariPreprocessing skips frames"):
        make("ale_py:ALE/MsPacman-v5", 1, wrappers=["AtariPreprocessing"])


def test_a_maximum_over_frames_has_none_of_an_episode_before(make: Any, pictures: str) -> None:
    """An episode that ends within the steps that its first action skips."""
    entries = [{"name": "TimeLimit", "max_episode_steps": 1}, VECTORS["skip"][0]]
    environment = make(pictures, 1, wrappers=entries)
    for env in environment.vector.envs:  # as an episode before would leave it
        env._obs_buffer[...] = 255
    begin(environment, SEEDS)
    batch = environment.step(actions_of(environment, 1)[0])["Agent"]
    assert batch.final_observations is not None and not batch.final_observations["observation"].any()


class Remembering(gymnasium.ObservationWrapper[Any, Any, Any]):
    """Adds the number of observations that it has seen in all episodes."""

    seen = 0

    def observation(self, observation: Any) -> Any:
        self.seen += 1
        return observation + self.seen


def test_what_an_unknown_wrapper_remembers_of_finished_episodes_ends_with_them_at_a_checkpoint(
    make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = ModuleType("wraps_of_mine")
    module.Remembering = Remembering  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "wraps_of_mine", module)
    first, resumed = (
        make("Pendulum-v1", NUM_ENVS, wrappers=["wraps_of_mine:Remembering"], max_episode_steps=LIMIT) for _ in range(2)
    )
    assert not isinstance(first, SavesState)
    actions = actions_of(first, STEPS)
    begin(first, SEEDS, [2, 9])
    list(played(first, actions))
    for each in (first, resumed):
        begin(each, SEEDS, [5, 12])
    assert list(played(first, actions)) == list(played(resumed, actions))


@pytest.mark.parametrize("spoil", ["missing", "more", "unknown", "shape", "length", "text"])
def test_a_state_of_wrappers_that_does_not_fit_is_refused(make: Any, spoil: str) -> None:
    entries = [VECTORS[name][0] for name in ("sticky", "time apart", "frames", "delay")]
    saved, restored = (make("Pendulum-v1", NUM_ENVS, wrappers=entries) for _ in range(2))
    begin(saved, SEEDS, [2, 9])
    list(played(saved, actions_of(saved, 5)))
    state = saved.state_dict()
    wrappers = state["environments"][1]["wrappers"]
    delay, frames, time, _ = wrappers
    spoils: Mapping[str, Callable[[], Any]] = {
        "missing": lambda: wrappers.pop(),
        "more": lambda: wrappers.append({}),
        "unknown": lambda: time.update(other=3),
        "shape": lambda: frames["obs_queue"]["parts"][0]["keys"].update(obs=np.zeros(4, np.float32)),
        "length": lambda: delay["observation_queue"]["parts"].extend(delay["observation_queue"]["parts"] * 2),
        "text": lambda: time.update(timesteps="soon"),
    }
    spoils[spoil]()
    with pytest.raises(SavedValueError):
        restored.load_state_dict(state)
    restored.load_state_dict(saved.state_dict())


def test_environments_that_a_parameter_makes_again_have_their_wrappers(make: Any, dial: str) -> None:
    """``size`` is an argument of the constructor: its environments are made again with each other value."""
    entries = [VECTORS["frames"][0], {"name": "TimeLimit", "max_episode_steps": 3}]
    environment = make(dial, NUM_ENVS, wrappers=entries, parameters={"size": {"constructor": "size"}})
    environment.set_parameters({"size": np.array([2.0, 9.0])})
    begin(environment, SEEDS)
    ends = []
    for _ in range(6):
        batch = act(environment)
        assert batch.observations["observation"].shape == (NUM_ENVS, 3, 7)
        ends.append((batch.terminated.tolist(), batch.truncated.tolist()))
        environment.set_parameters({"size": np.array([2.0, 9.0])})
    never = [False, False]
    assert ends == [
        (never, never), ([True, False], never), (never, [False, True]), ([True, False], never), (never, never),
        ([True, False], [False, True]),
    ]  # fmt: skip
    for env in environment.vector.envs:
        assert [type(each) for each in (env, env.env)] == [gw.TimeLimit, gw.FrameStackObservation]
        assert env.env.env.unwrapped._closed == 0


def test_a_wrapped_environment_is_filmed_from_outside_and_plays_the_same_episodes(
    make: Any, dial: str, tmp_path: Path
) -> None:
    """The recorder stays outermost, around the wrappers, also if a parameter makes the environment again."""
    pytest.importorskip("moviepy", reason="films need the extra 'video'")
    entries = [VECTORS["repeat"][0], VECTORS["limit"][0], VECTORS["frames"][0]]
    routes = {"size": {"constructor": "size"}}
    plain, filmed = (make(dial, 1, wrappers=entries, parameters=routes, video=video) for video in (None, tmp_path))
    actions = actions_of(plain, 4)
    for each in (plain, filmed):
        each.set_parameters({"size": np.array([20.0])})
        begin(each, SEEDS)
    for size in (3.0, 20.0):
        for each in (plain, filmed):
            each.set_parameters({"size": np.array([size])})
        assert list(played(plain, actions)) == list(played(filmed, actions))
    filmed.close()
    names = {f"rlcore-tests-Dial-v0-env-0-episode-{episode}.mp4" for episode in (0, 1)}
    assert {path.name for path in tmp_path.iterdir()} == names
