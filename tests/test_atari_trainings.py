"""Trainings in Atari games: what is reported is the score, lives are for learning, frames are stored once."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from rlcore import AgentBatch, Run
from rlcore_devkit.conformance.states import assert_equal
from rlcore_torch.on_policy.rollout import RolloutBuffer

ale_py = pytest.importorskip("ale_py", reason="Atari needs the extra 'atari'")
TEN_GAMES = (
    "Alien", "Assault", "Boxing", "Breakout", "MsPacman", "Pong", "Qbert", "Riverraid", "Seaquest", "SpaceInvaders",
)  # fmt: skip


def rom_of(env_id: str) -> str:
    return str(gymnasium.registry[env_id.rpartition(":")[2]].kwargs["game"])


def emulator(env_id: str, seed: int, frames: int, sticky: float = 0.25) -> Any:
    """Return ale-py's emulator itself, ``frames`` frames after the start of the game with this seed.

    The first frame presses fire where the game has it, as the vectorized form does; in the others nothing is done.
    """
    ale = ale_py.ALEInterface()
    ale.setFloat("repeat_action_probability", sticky)
    ale.setInt("random_seed", seed)
    ale.loadROM(ale_py.roms.get_rom_path(rom_of(env_id)))
    ale.reset_game()
    for frame in range(frames):
        fires = frame == 0 and ale_py.Action.FIRE in ale.getMinimalActionSet()
        ale.act(ale_py.Action.FIRE if fires else ale_py.Action.NOOP)
    return ale


def score_of(ale: Any, actions: Sequence[int]) -> tuple[int, list[int]]:
    """Play ``actions``, four frames each, to the end of the game at most; return the score and the lives after each."""
    score = 0
    lives = []
    options = ale.getMinimalActionSet()
    for action in actions:
        for _ in range(4):
            if not ale.game_over():
                score += ale.act(options[action])
        lives.append(ale.lives())
    return score, lives


class Watched:
    """Notes what the vectorized form is told: the seed, the frames before the first action, and every action."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        kind = importlib.import_module("ale_py.vector_env").AtariVectorEnv
        self.starts: list[tuple[int, np.ndarray]] = []
        self.actions: list[list[np.ndarray]] = []
        reset = kind.reset
        step = kind.step

        def watched_reset(env: Any, *, seed: Any = None, options: Any = None) -> Any:
            observations, info = reset(env, seed=seed, options=options)
            self.starts.append((seed, np.array(info["episode_frame_number"])))
            self.actions.append([])
            return observations, info

        def watched_step(env: Any, actions: Any) -> Any:
            self.actions[-1].append(np.array(actions))
            return step(env, actions)

        monkeypatch.setattr(kind, "reset", watched_reset)
        monkeypatch.setattr(kind, "step", watched_step)


def configuration(tmp_path: Path, env_id: str, num_envs: int, **blocks: Any) -> dict[str, Any]:
    """A small policy of random weights."""
    return {
        "preset": "none",
        "environment": {"type": "gymnasium", "id": env_id, "num_envs": num_envs, **blocks.pop("environment", {})},
        "env_settings": {"seed": blocks.pop("seed", 2)},
        **({"evaluation": {"interval": 10**6, **blocks.pop("evaluation")}} if "evaluation" in blocks else {}),
        "behaviors": {
            "Game": {
                "trainer_type": "ppo",
                "network_settings": {"vis_encode_type": "fully_connected", "hidden_units": 4, "num_layers": 0},
                "hyperparameters": {"buffer_size": 64, "batch_size": 64, "num_epoch": 1},
                "time_horizon": 32,
                "max_steps": 64,
                **blocks,
            }
        },
        "checkpoint_settings": {"run_id": "atari", "results_dir": str(tmp_path)},
    }


GAMES_OF_EVERY_DAY = ("Breakout", "MsPacman")


@pytest.mark.parametrize(
    ("game", "steps"),
    [
        *((game, 200) for game in GAMES_OF_EVERY_DAY),
        *(pytest.param(game, 3000, marks=pytest.mark.learning) for game in TEN_GAMES),
    ],
)
def test_the_return_of_an_evaluation_is_the_score_that_the_emulator_reports(
    game: str, steps: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The game is played again in ale-py's emulator, without its vectorized form. Lives and sticky actions are on."""
    env_id = f"ALE/{game}-v5"
    watched = Watched(monkeypatch)
    environment = {"options": {"episodic_life": True}}
    evaluation = {"max_episode_steps": steps}
    with Run(configuration(tmp_path, env_id, 2, environment=environment, evaluation=evaluation)) as run:
        found = run.evaluate(2, seed=11, deterministic=False).behaviors["Game"]
    ((seed, frames), taken), *others = [each for each in zip(watched.starts, watched.actions, strict=True) if each[1]]
    assert not others, "nothing but the evaluation has played"
    actions = np.stack(taken)  # [steps, 2]
    scores = [score_of(emulator(env_id, seed + copy, int(frames[copy])), actions[:, copy])[0] for copy in range(2)]
    assert len(actions) > 100
    assert sorted(found.returns) == sorted(scores)
    assert any(scores), "otherwise nothing is shown"


def test_a_life_lost_is_an_end_for_the_trainer_and_the_reported_return_is_the_whole_score(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Breakout has five lives; the trainer's episodes are lives, and the emulator is never set back."""
    env_id = "ALE/Breakout-v5"
    watched = Watched(monkeypatch)
    ends: list[np.ndarray] = []
    observe = RolloutBuffer.observe

    def watched_observe(buffer: RolloutBuffer, batch: AgentBatch, *given: Any) -> int:
        ends.append(batch.terminated.copy())
        return observe(buffer, batch, *given)

    monkeypatch.setattr(RolloutBuffer, "observe", watched_observe)
    blocks = {"environment": {"options": {"episodic_life": True, "noop_max": 0}}, "max_steps": 400, "seed": 4}
    config = configuration(tmp_path, env_id, 1, **blocks)
    config["behaviors"]["Game"]["hyperparameters"]["clip_rewards"] = 0.5  # every brick counts at least 1
    with Run(config) as run:
        run.train()
        reported = run.behaviors["Game"].mean_reward
        assert run.behaviors["Game"].episodes.finished == 1
    first = next(number for number, acted in enumerate(watched.actions) if acted)  # after trial resets
    (seed, frames), actions = watched.starts[first], np.stack(watched.actions[first])[:, 0]
    score, lives = score_of(emulator(env_id, seed, int(frames[0])), actions)
    of_game = lives.index(0) + 1  # steps
    assert of_game < len(actions), "the game ended within the training"
    assert reported == score > 0
    # The step after the last one of a game only starts another.
    assert sum(int(end[0]) for end in ends[: of_game + 1]) == 5


def trained_with_replay(tmp_path: Path, environment: dict[str, Any]) -> tuple[dict[str, Any], Any]:
    """The weights after a short training from replay, and the screens in its replay buffer."""
    config = configuration(tmp_path, environment.pop("id"), 2, environment=environment)
    config["behaviors"]["Game"] |= {
        "trainer_type": "sac",
        "hyperparameters": {"batch_size": 16, "buffer_size": 120, "n_steps": 3, "steps_per_update": 20},
        "max_steps": 300,
    }
    del config["behaviors"]["Game"]["time_horizon"]
    with Run(config) as run:
        run.train()
        trainer = run.behaviors["Game"].trainer
        return trainer.state_dict()["model"], trainer.buffer.observations["observation"]


def test_a_training_with_frames_stored_once_is_that_with_whole_stacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ring goes round, lives are lost and games end."""
    environment = {"id": "ALE/Breakout-v5", "options": {"episodic_life": True, "max_num_frames_per_episode": 240}}
    weights, screens = trained_with_replay(tmp_path / "once", dict(environment))
    assert screens.used < 1.25 * len(screens), "a frame or little more for each row"
    monkeypatch.setattr("rlcore_gymnasium.atari.stacked", lambda behavior: behavior)
    of_whole, whole = trained_with_replay(tmp_path / "whole", dict(environment))
    assert isinstance(whole, np.ndarray) and whole.shape == screens.shape
    assert_equal(weights, of_whole)


def test_frames_stacked_by_a_wrapper_are_stored_once_too(tmp_path: Path) -> None:
    wrappers = [
        {"name": "AtariPreprocessing", "frame_skip": 1},
        {"name": "FrameStackObservation", "stack_size": 4},
    ]
    environment = {"id": "ALE/Breakout-v5", "options": {"frameskip": 4}, "wrappers": wrappers}
    _, screens = trained_with_replay(tmp_path, environment)
    assert screens.shape[1:] == (84, 84, 4)
    assert screens.used < 1.25 * len(screens)
