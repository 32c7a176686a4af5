"""Self-play in two ranks plays the games of one process: the oracle is a run without torchrun."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rank_training import SCRIPT, torchrun, train_both, written

from rlcore import load_checkpoint

pytestmark = [pytest.mark.distributed, pytest.mark.xdist_group("ranks")]

SUPPORT = SCRIPT.parent
GAME = f"""
plugins: {{local: ['{SUPPORT / "duels.py"}']}}
environment: {{type: duel, num_envs: 5, options: {{agents: 2, deaths: true}}}}
env_settings: {{seed: 5}}
stats: {{tensorboard: false}}
"""
TURNS = """
plugins: {local: [selfplay_games]}
environment: {type: game, id: tictactoe, num_envs: 5}
env_settings: {seed: 5}
stats: {tensorboard: false}
"""
PPO = """
default_settings:
  trainer_type: ppo
  max_steps: 1200
  summary_freq: 500
  checkpoint_interval: 500
  hyperparameters: {batch_size: 48, buffer_size: 96, num_epoch: 2}
  network_settings: {hidden_units: 16, num_layers: 1, normalize: true}
  self_play: {save_steps: 150, swap_steps: 60, team_change: 400, window: 3, opponents: pfsp}
"""
SAC = """
default_settings:
  trainer_type: sac
  max_steps: 600
  summary_freq: 300
  checkpoint_interval: 300
  hyperparameters:
    {batch_size: 32, buffer_size: 400, buffer_init_steps: 150, steps_per_update: 20, save_replay_buffer: true}
  network_settings: {hidden_units: 16, num_layers: 1, normalize: true}
  self_play: {save_steps: 90, swap_steps: 40, team_change: 200, window: 2, opponents: uniform}
"""
ONE = "behaviors: {Agent: {}}\n"
TWO = "behaviors: {Chaser: {}, Runner: {}}\n"
UNEVEN = "behaviors: {Chaser: {}, Runner: {max_steps: 500}}\n"
MEMORY = "normalize: true, memory: {memory_size: 8, sequence_length: 8}}"
SHORT = {"ppo": GAME + PPO + ONE, "sac": GAME + SAC + TWO}
LONG = {
    "uneven": GAME + PPO + UNEVEN,
    "cut": GAME.replace("deaths: true", "deaths: true, saves: false") + PPO + UNEVEN,
    "sac": GAME.replace("deaths: true", "deaths: false") + SAC + ONE,
    "all": GAME + PPO.replace("window: 3", "window: 3, learn_from: all") + ONE,
    "memory": GAME + PPO.replace("normalize: true}", MEMORY) + ONE,
    "turns": TURNS + PPO.replace("opponents: pfsp", "opponents: uniform") + "behaviors: {Player: {}}\n",
}  # fmt: skip


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train_both(tmp_path_factory.mktemp("selfplay"), SHORT)


def require_equal(where: Path, name: str) -> None:
    """Weights, opponents, games and ratings of both ranks are those of one process."""
    one = written(where / "one", name, "one")
    ranks = [written(where / "two", name, rank) for rank in (0, 1)]
    for key in one:
        if key.startswith("weights"):
            assert len(one[key]) >= 5
            assert np.abs(one[key][-1] - one[key][0]).max() > 1e-3
            np.testing.assert_allclose(ranks[0][key], one[key], rtol=0, atol=1e-6, err_msg=key)
            assert ranks[0][key].tobytes() == ranks[1][key].tobytes()
        elif key.startswith("games"):
            ours, theirs = ([json.loads(text) for text in each[key]] for each in (ranks[0], one))
            assert theirs[-1]["rated"] > 30
            assert len({name for each in theirs for team in each["opponents"] for name in team}) >= 3
            assert theirs[-1]["changes"] >= 1
            assert ours == theirs
            assert ranks[0][key].tolist() == ranks[1][key].tolist()
        elif key not in ("exchanges", "listening"):
            for rank in ranks:
                np.testing.assert_allclose(rank[key], one[key], rtol=2e-3, atol=1e-4, err_msg=key)


@pytest.mark.parametrize("name", SHORT)
def test_ranks_play_the_games_of_one_process(played: Path, name: str) -> None:
    require_equal(played, name)


def test_another_number_of_ranks_resumes_the_window_and_the_ratings(played: Path) -> None:
    where = played / "resumed"
    where.mkdir()
    shutil.copytree(played / "two" / "results", where / "results")
    (where / "ppo.yaml").write_text(f"checkpoint_settings: {{run_id: ppo}}\n{SHORT['ppo']}")
    before = newest(where / "results" / "ppo")["Agent"]
    more = ["--set", "default_settings.max_steps=1500"]
    command = [sys.executable, "-m", "rlcore", "run", "ppo.yaml", "--resume", *more]
    ended = subprocess.run(command, cwd=where, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    said = ended.stdout + ended.stderr
    assert "the checkpoint was saved by 2 ranks and is resumed by one process: weights, optimizers, counters" in said
    assert "statistical, because this process has another configuration" in said
    assert "one process instead of 2 ranks" in said
    after = newest(where / "results" / "ppo")["Agent"]
    names = after["self_play_log"]["log"]["names"]
    assert names[: len(before["self_play_log"]["log"]["names"])] == before["self_play_log"]["log"]["names"]
    assert after["self_play_log"]["rated"] > before["self_play_log"]["rated"] > 0
    assert after["steps"] >= 1500


def test_a_league_is_refused(tmp_path: Path) -> None:
    text = SHORT["ppo"].replace("opponents: pfsp", "opponents: pfsp, league: {}")
    (tmp_path / "league.yaml").write_text(f"checkpoint_settings: {{run_id: league}}\n{text}")
    ended = torchrun(["-m", "rlcore", "run", "league.yaml"], tmp_path)
    assert ended.returncode != 0
    assert "league.yaml:" in ended.stderr
    assert "self_play.league: a league does not learn in several ranks" in ended.stderr


def newest(run: Path) -> dict[str, Any]:
    steps = [path for path in (run / "checkpoints").iterdir() if path.name.isdecimal()]
    return load_checkpoint(max(steps, key=lambda path: int(path.name)))


@pytest.mark.deep
@pytest.mark.parametrize("name", LONG)
def test_every_kind_of_game_in_ranks_is_that_of_one_process(tmp_path: Path, name: str) -> None:
    require_equal(train_both(tmp_path, {name: LONG[name]}), name)
