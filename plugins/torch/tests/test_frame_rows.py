"""Stacks of frames in a replay buffer: each frame is stored once, and what is read equals whole stacks bit for bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest

from rlcore import AgentBatch, BehaviorSpec, ObservationSpec, RunStateError, load_checkpoint, save_checkpoint
from rlcore_devkit.conformance.states import assert_equal
from rlcore_torch import ReplayBuffer
from rlcore_torch.off_policy import replay_segments
from rlcore_torch.off_policy.frame_rows import FrameRows

SLOTS = 3
SIDE = 6
FRAMES = 4


def spec(frames: int = FRAMES, channels: int = 1, slots: int = SLOTS) -> BehaviorSpec:
    """A camera of stacked frames beside an ordinary observation."""
    screen = ObservationSpec("screen", (SIDE, SIDE, FRAMES * channels), np.uint8, "image", frames=frames)
    return BehaviorSpec(
        "Agent", (screen, ObservationSpec("own", (2,), np.float32)), discrete=(3,), env_index=np.arange(slots)
    )


class Game:
    """Stacks of frames of every slot, as environments with frame stacks give them."""

    def __init__(self, seed: int, start: str, channels: int = 1, slots: int = SLOTS) -> None:
        self.random, self.start, self.channels, self.slots = np.random.default_rng(seed), start, channels, slots
        self.stacks = np.stack([self.first() for _ in range(slots)])

    def frame(self) -> np.ndarray:
        return self.random.integers(0, 256, (SIDE, SIDE, self.channels), np.uint8)

    def first(self) -> np.ndarray:
        """Zeros and then a frame, the first frame again and again, or frames that were never shown before."""
        newest = self.frame()
        older = {"zeros": lambda: np.zeros_like(newest), "repeated": lambda: newest, "unseen": self.frame}[self.start]
        return np.concatenate([*(older() for _ in range(FRAMES - 1)), newest], axis=-1)

    def shown(self) -> dict[str, np.ndarray]:
        return {"screen": self.stacks.copy(), "own": self.random.random((self.slots, 2), np.float32)}

    def next(self, ends: float = 0.2, unseen: float = 0.05, turns: float = 0.5) -> AgentBatch:
        """A step: most stacks move on by a frame, some are entirely new; episodes end, some of them by a life.

        In some of the steps agents wait, so that more than one frame is new when they act again.
        """
        for slot in range(self.slots):
            moved = np.concatenate([self.stacks[slot][..., self.channels :], self.frame()], axis=-1)
            if self.random.random() < unseen:
                moved = self.random.permutation(moved)
            elif self.random.random() < unseen:  # only an older frame is not what it was
                moved[..., : self.channels] = self.frame()
            self.stacks[slot] = moved
        how = self.random.random(self.slots)
        terminated = how < ends / 2
        truncated = (how >= ends / 2) & (how < ends)
        ended = np.flatnonzero(terminated | truncated)
        finals = {name: array[ended] for name, array in self.shown().items()}
        for slot in ended.tolist():
            if self.random.random() < 0.5:  # otherwise the game continues with the same screen
                self.stacks[slot] = self.first()
        reward = self.random.random(self.slots).astype(np.float32)
        aborted = None
        if self.random.random() < ends / 4:
            aborted = ~(terminated | truncated) & (self.random.random(self.slots) < 0.5)
            for slot in np.flatnonzero(aborted).tolist():
                self.stacks[slot] = self.first()
        acts = (
            None if self.random.random() >= turns else (self.random.random(self.slots) < 0.7) | terminated | truncated
        )
        if acts is not None and aborted is not None:
            acts = acts | aborted
        return AgentBatch(
            self.shown(), reward, terminated, truncated, final_observations=finals if ended.size else None,
            needs_action=acts, aborted=aborted,
        )  # fmt: skip


def play(game: Game, buffers: list[ReplayBuffer], steps: int, **chances: float) -> None:
    if not buffers[0].filled or not len(buffers[0]):
        nothing = np.zeros(game.slots, np.bool_)
        batch = AgentBatch(game.shown(), np.zeros(game.slots, np.float32), nothing, nothing)
        for buffer in buffers:
            buffer.begin(batch)
    for _ in range(steps):
        choices = game.random.integers(3, size=(game.slots, 1))
        batch = game.next(**chances)
        for buffer in buffers:
            buffer.act(None, choices)
            buffer.observe(batch)


def sampled(buffer: ReplayBuffer, n_steps: int, seed: int = 7) -> dict[str, Any]:
    """Everything that 300 samples have, and the observations of every step of their stretches."""
    rows = buffer.sample(300, np.random.default_rng(seed))
    indices, valid, last = buffer.stretches(rows, n_steps)
    steps = attrs.asdict(buffer.transitions(rows, last), recurse=False)
    between = {name: array.take(indices.ravel(), 0) for name, array in buffer.observations.items()}
    return {**steps, "rows": rows, "valid": valid, "between": between}


@pytest.mark.parametrize("start", ["zeros", "repeated", "unseen"])
@pytest.mark.parametrize("channels", [1, 3])
def test_samples_equal_those_of_whole_stacks_while_the_ring_goes_round(start: str, channels: int) -> None:
    once, whole = (ReplayBuffer(spec(frames, channels), 30 * SLOTS) for frames in (FRAMES, 1))
    game = Game(3, start, channels)
    for _ in range(15):
        play(game, [once, whole], 9)
        for n_steps in (1, 3):
            assert_equal(sampled(once, n_steps), sampled(whole, n_steps))
    assert whole.filled == whole.capacity, "the ring went round"


def test_prioritized_samples_are_those_of_whole_stacks() -> None:
    buffers = [ReplayBuffer(spec(frames), 20 * SLOTS, priority_alpha=0.6) for frames in (FRAMES, 1)]
    play(Game(4, "zeros"), buffers, 70)
    drawn = []
    for buffer in buffers:
        rows, _ = buffer.sample_prioritized(50, np.random.default_rng(1), 0.4)
        buffer.set_priorities(rows, np.linspace(0.1, 5, 50))
        rows, weight = buffer.sample_prioritized(50, np.random.default_rng(2), 0.4)
        drawn.append({"weight": weight, **attrs.asdict(buffer.transitions(rows), recurse=False)})
    assert_equal(drawn[0], drawn[1])


def pool_of(buffer: ReplayBuffer) -> FrameRows:
    frames = buffer.observations["screen"]
    assert isinstance(frames, FrameRows)
    return frames


def test_a_frame_is_stored_once_and_leaves_with_the_last_row_that_shows_it() -> None:
    buffer = ReplayBuffer(spec(slots=1), 50)
    game = Game(5, "zeros", slots=1)
    play(game, [buffer], 30, ends=0.0, unseen=0.0, turns=0.0)
    assert buffer.filled == 31
    assert pool_of(buffer).used == 31 + 1, "a frame for each row, and the one of zeros in the first three"
    for _ in range(5):
        play(game, [buffer], 50, ends=0.0, unseen=0.0, turns=0.0)
    assert pool_of(buffer).used == 50 + FRAMES - 1, "of the oldest row, the frames before it too"


def test_the_pool_grows_where_stacks_repeat_nothing() -> None:
    """Every stack is new: nothing is saved, and nothing is lost."""
    once, whole = (ReplayBuffer(spec(frames), 40 * SLOTS) for frames in (FRAMES, 1))
    play(Game(6, "unseen"), [once, whole], 100, unseen=1.0, ends=0.3)
    assert_equal(sampled(once, 3), sampled(whole, 3))
    assert pool_of(once).used > 3 * 40 * SLOTS


def test_memory_is_a_quarter_for_stacks_of_four() -> None:
    screen = ObservationSpec("screen", (84, 84, 4), np.uint8, "image", frames=4)
    atari = BehaviorSpec("Agent", (screen,), discrete=(6,), env_index=np.arange(8))
    whole = attrs.evolve(atari, observations=(attrs.evolve(screen, frames=1),))
    rows = 10_000
    ratio = ReplayBuffer(whole, rows).nbytes_of_row / ReplayBuffer(atari, rows).nbytes_of_row
    assert ratio > 3.5


# ---------------------------------------------------------------- checkpoints


def saved_and_loaded(buffer: ReplayBuffer, directory: Path, step: int) -> Any:
    return load_checkpoint(save_checkpoint(directory, step, {"Agent": {"buffer": buffer.state_dict()}}))["Agent"][
        "buffer"
    ]


@pytest.mark.parametrize("steps", [1, 25, 90])
def test_a_resumed_buffer_goes_on_as_the_one_that_was_saved(
    steps: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replay_segments, "SEGMENT_BYTES", 400)
    buffer, resumed = (ReplayBuffer(spec(), 20 * SLOTS) for _ in range(2))
    game = Game(8, "zeros")
    play(game, [buffer], steps)
    saved_and_loaded(buffer, tmp_path, 1)
    play(game, [buffer], 3)
    play(Game(1, "unseen"), [resumed], 11)  # forgotten by loading
    resumed.load_state_dict(saved_and_loaded(buffer, tmp_path, 2))
    assert pool_of(resumed).used == pool_of(buffer).used
    for _ in range(8):
        assert_equal(sampled(resumed, 3), sampled(buffer, 3))
        play(game, [buffer, resumed], 9)
    assert_equal(
        saved_and_loaded(resumed, tmp_path / "again", 3)["segments"][0]["reward"],
        saved_and_loaded(buffer, tmp_path / "other", 3)["segments"][0]["reward"],
    )


def test_a_damaged_pool_is_refused_and_changes_nothing() -> None:
    buffer = ReplayBuffer(spec(), 20 * SLOTS)
    other = ReplayBuffer(spec(), 20 * SLOTS)
    play(Game(10, "zeros"), [buffer, other], 30)
    state = buffer.state_dict()
    before = sampled(other, 1)
    frames = state["frames"]["screen"]
    for broken in ({**frames, "frames": 3}, {**frames, "segments": 5}):
        with pytest.raises(RunStateError):
            other.load_state_dict({**state, "frames": {"screen": broken}})
    assert_equal(sampled(other, 1), before)
