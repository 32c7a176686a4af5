"""Runs in real processes that speak as a Unity player does: from ML-Agents' file to the model that Unity loads."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from pages import blocks_of
from unity_games import drawn_actions, make_game, player_processes
from unity_player import make_player
from workspace import ROOT

from rlcore import ConfigError, EnvironmentFailed, EnvSettings, EpisodeSeeds

FILE = """\
behaviors:
  Reach:
    trainer_type: ppo
    hyperparameters:
      batch_size: 128
      buffer_size: 512
      learning_rate: 3.0e-3
      learning_rate_schedule: constant
    network_settings: {hidden_units: 32, num_layers: 1}
    reward_signals:
      extrinsic: {gamma: 0.95, strength: 1.0}
    max_steps: 2000
    time_horizon: 32
    summary_freq: 500
env_settings:
  seed: 7
engine_settings:
  time_scale: 10
  width: 100
environment_parameters:
  size:
    sampler_type: uniform
    sampler_parameters: {min_value: 0.4, max_value: 0.8}
"""


def rlcore(where: Path, *arguments: str, code: int = 0) -> str:
    """Run the command line in ``where``; return what it printed."""
    words = [sys.executable, "-m", "rlcore", *arguments]
    done = subprocess.run(words, cwd=where, capture_output=True, text=True, timeout=300, check=False)
    text = done.stdout + done.stderr
    assert done.returncode == code, text
    return text


def journal_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


@pytest.mark.long
def test_a_file_of_mlagents_trains_in_players_and_leaves_the_model_of_its_behavior(tmp_path: Path) -> None:
    (tmp_path / "Reach.yaml").write_text(FILE, encoding="utf-8")
    make_player(tmp_path, "Reach.x86_64", world="lessons", behavior="Reach", journal=tmp_path / "journal")
    options = ["--num-envs", "2", "--no-graphics", "--time-scale", "5", "--env-args", "--level 3"]
    text = rlcore(tmp_path, "run", "Reach.yaml", "--env", "Reach.x86_64", "--run-id", "reach", *options)
    assert "unity Reach.x86_64, 2 copies" in text
    assert "statistical, because a player's state is neither saved nor set" in text
    assert (tmp_path / "results/reach/Reach.onnx").is_file()
    assert {"Player-0.log", "Player-1.log"} <= set(os.listdir(tmp_path / "results/reach/run_logs"))

    entries = journal_of(tmp_path / "journal")
    starts = [entry for entry in entries if "handshake" in entry]
    assert [start["handshake"][:3] for start in starts] == [[7, "1.5.0", "1.1.0"], [8, "1.5.0", "1.1.0"]]
    for start in starts:
        words = start["arguments"]
        assert (words[-8:-6], words[-2:]) == (["-nographics", "-batchmode"], ["--level", "3"])
    engines = [list(entry["engine"].items()) for entry in entries if "engine" in entry]
    rates = [["target_frame_rate", -1], ["capture_frame_rate", 60]]
    assert [list(map(list, engine)) for engine in engines] == [
        [["resolution", [100, 84]], ["quality_level", 5], ["time_scale", 5], *rates]
    ] * 2
    told = [each for entry in entries for each in entry.get("parameters", ())]
    assert [(key, kind, bounds) for key, kind, seed, *bounds in told] == [
        ("size", "uniform", [pytest.approx(0.4), pytest.approx(0.8)])
    ] * 2, "the game draws for each episode: nothing changes within one"
    assert len({seed for _, _, seed, *_ in told}) == 2, "not the same in both players"

    tags: set[str] = set()
    for line in (tmp_path / "results/reach/metrics.jsonl").read_text("utf-8").splitlines():
        tags |= set(json.loads(line)["stats"])
    assert "Goals/Right" in tags  # a statistic of the players

    played = rlcore(tmp_path, "evaluate", "results/reach", "--episodes", "1")
    assert "over 16 episodes" in played  # of the 16 agents of one player


@pytest.mark.long
@pytest.mark.documentation
def test_a_game_in_the_editor_trains_and_talks_with_the_side_channel_of_the_page(tmp_path: Path) -> None:
    """The test player connects to the run as the editor does, and sends the channel's messages back."""
    (page,) = (block for block in blocks_of(ROOT / "docs/how-to/unity.md") if "SideChannelSpec(" in block.text)
    (tmp_path / "weather.py").write_text(page.text, encoding="utf-8")
    block = "plugins: {local: [weather.py]}\nenvironment: {side_channels: [weather]}\n"
    (tmp_path / "Reach.yaml").write_text(FILE + block, encoding="utf-8")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    words = [sys.executable, "-m", "rlcore", "run", "Reach.yaml", "--env", "editor", "--base-port", port]
    words += ["--run-id", "x", "--allow-local"]
    player = make_player(tmp_path, world="lessons", behavior="Reach", echo="621f0a70-4f87-11ea-a6bf-784f4387d1f7")
    with subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as run:
        assert run.stdout is not None
        text = ""
        while f"waits for Unity's editor at port {port}: press Play in the editor" not in text:
            line = run.stdout.readline()
            assert line, text
            text += line
        with subprocess.Popen([player, "--mlagents-port", port], stdout=subprocess.PIPE, text=True) as game:
            text += run.stdout.read()
            assert (run.wait(60), game.wait(60)) == (0, 0), text
    assert text.count("player 0 says b'rain'") == 1
    assert "environment  unity editor" in text
    assert (tmp_path / "results/x/Reach.onnx").is_file()


@pytest.mark.long
@pytest.mark.distributed
def test_players_of_workers_train_over_ipv6_and_their_run_is_only_alike_when_resumed(tmp_path: Path) -> None:
    """A run in workers promises what their environments do, and says what it does not know of their players."""
    with socket.socket(socket.AF_INET6) as free:
        try:
            free.bind(("::1", 0))
        except OSError:
            pytest.skip("this machine has no IPv6")
    (tmp_path / "Reach.yaml").write_text(FILE, encoding="utf-8")
    make_player(tmp_path, "Reach.x86_64", world="lessons", behavior="Reach", host="::1")
    sets = ["--set", "environment.workers=2", "--set", "environment.address='::1'", "--set", "export={}"]
    text = rlcore(tmp_path, "run", "Reach.yaml", "--env", "./Reach.x86_64", "--num-envs", "2", "--run-id", "x", *sets)
    assert "unity ./Reach.x86_64, 2 copies in 2 workers" in text
    assert "statistical, because a player's state is neither saved nor set" in text
    assert text.count("environment.workers: statistics that players send in workers are not in the summaries") == 1
    assert "done: " in text
    assert {"Player-0.log", "Player-1.log"} <= set(os.listdir(tmp_path / "results/x/run_logs"))


@pytest.mark.parametrize("key", ["address", "base_port"])
def test_a_place_to_listen_at_that_cannot_be_had_is_an_error_of_its_key(key: str, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        values = {"address": "192.0.2.1", "base_port": taken.getsockname()[1]}  # an address of no machine (RFC 5737)
        with pytest.raises(ConfigError, match="cannot listen at") as caught:
            make_game(tmp_path, settings={key: values[key]}, world="continuous")
    assert caught.value.key == ("environment", key)


def test_a_player_that_dies_is_started_again_and_only_its_episodes_are_dropped(tmp_path: Path) -> None:
    game = make_game(tmp_path, 2, world="continuous", agents=3)
    spec = game.behaviors["Reach"]
    generator = np.random.default_rng(0)
    batch = game.reset(EpisodeSeeds(0), np.zeros(2, np.int64))["Reach"]
    for _ in range(3):
        batch = game.step({"Reach": drawn_actions(spec, batch, generator)})["Reach"]
    victim, survivor = player_processes()
    victim.kill()
    batch = game.step({"Reach": drawn_actions(spec, batch, generator)})["Reach"]
    assert batch.aborted is not None
    assert batch.aborted.tolist() == [True] * 3 + [False] * 3
    assert batch.reward[3:].all() and not batch.reward[:3].any()
    assert batch.needs_action is None
    assert game.episodes.tolist() == [1, 0]
    for _ in range(3):
        batch = game.step({"Reach": drawn_actions(spec, batch, generator)})["Reach"]
        assert batch.aborted is None
    assert game.stats() == {"Environment/Worker Restarts": 1.0, "Environment/Aborted Episodes": 3.0}
    assert survivor.is_running()
    game.close()
    assert player_processes() == []


def test_a_player_that_dies_too_often_ends_the_run_with_the_limit_and_its_log(tmp_path: Path) -> None:
    game = make_game(tmp_path, world="continuous", fault="crashes@15", limits=EnvSettings(restarts_rate_limit_n=1))
    spec = game.behaviors["Reach"]
    generator = np.random.default_rng(0)
    batch = game.reset(EpisodeSeeds(0), np.zeros(1, np.int64))["Reach"]

    def play() -> None:
        seen = batch
        for _ in range(30):
            seen = game.step({"Reach": drawn_actions(spec, seen, generator)})["Reach"]

    with pytest.raises(EnvironmentFailed) as caught:
        play()
    text = str(caught.value)
    assert "was killed by SIGABRT in a step" in text
    assert "Game::Explode()" in text
    assert "env_settings.restarts_rate_limit_n allows 1 within 60 s" in text
    game.close()
    assert player_processes() == []


def test_no_player_outlives_a_run_that_is_killed(tmp_path: Path) -> None:
    (tmp_path / "Reach.yaml").write_text(FILE.replace("max_steps: 2000", "max_steps: 1e9"), encoding="utf-8")
    make_player(tmp_path, "Reach.x86_64", world="lessons", behavior="Reach")
    words = [sys.executable, "-m", "rlcore", "run", "Reach.yaml", "--env", "./Reach.x86_64", "--run-id", "x"]
    with subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as run:
        assert run.stdout is not None
        for line in run.stdout:
            if "Step: 500." in line:
                break
        processes = psutil.Process(run.pid).children(recursive=True)
        assert any("unity_player.py" in " ".join(process.cmdline()) for process in processes)
        os.kill(run.pid, signal.SIGKILL)
        deadline = time.monotonic() + 20
        while any(map(psutil.Process.is_running, processes)) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert [process for process in processes if process.is_running()] == []


def test_behaviors_that_come_later_are_waited_for(tmp_path: Path) -> None:
    """A crowd in which one of two behaviors has no agent in the first messages."""
    world = "crowd:" + json.dumps(
        {"behaviors": {"First": {"sensors": [{"name": "v", "shape": [4]}], "continuous": 1},
                       "Second": {"sensors": [{"name": "v", "shape": [4]}], "branches": [2]}},
         "agents": 3, "pause": 0.5, "later": {"Second": 15}}
    )  # fmt: skip
    game = make_game(tmp_path, wanted=["Second"], world=world)
    assert {name: spec.slots for name, spec in game.behaviors.items()} == {"First": 3, "Second": 3}
    game.close()


def test_a_behavior_that_is_subscribed_in_the_middle_of_a_training_does_not_end_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Agents of a behavior that comes later act with zeros, a warning says so, and the others train on."""
    behaviors = {"First": {"sensors": [{"name": "v", "shape": [4]}], "continuous": 1},
                 "Second": {"sensors": [{"name": "v", "shape": [4]}], "branches": [2]}}  # fmt: skip
    world = "crowd:" + json.dumps({"behaviors": behaviors, "agents": 3, "later": {"Second": 60}})
    game = make_game(tmp_path, world=world, journal=tmp_path / "journal")
    spec = game.behaviors["First"]
    generator = np.random.default_rng(0)
    batch = game.reset(EpisodeSeeds(0), np.zeros(1, np.int64))["First"]
    for _ in range(120):
        batch = game.step({"First": drawn_actions(spec, batch, generator)})["First"]
        assert batch.needs_action is None
    game.close()
    acted = [entry["actions"].get("Second?team=0", {}) for entry in journal_of(tmp_path / "journal")[1:]]
    assert not any(acted[:50]) and all(acted[-40:])
    assert {tuple(action[1]) for each in acted for action in each.values()} == {(0,)}
    assert caplog.text.count("agents of 'Second?team=0', which it did not have in its first decisions") == 1


@pytest.mark.parametrize("settings", [{}, {"agents": 6}])
def test_agents_that_join_their_group_after_their_first_decision_have_places(
    settings: dict[str, int], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    game = make_game(tmp_path, world="scene:PushBlockCollab/late", agents=2, settings=settings)
    spec = game.behaviors["PushBlockCollab"]
    generator = np.random.default_rng(0)
    assert spec.group is not None and spec.group.tolist() == [0, 0, 0, 1, 1, 1]
    batch = game.reset(EpisodeSeeds(0), np.zeros(1, np.int64))["PushBlockCollab"]
    ended = 0
    for _ in range(100):
        batch = game.step({"PushBlockCollab": drawn_actions(spec, batch, generator)})["PushBlockCollab"]
        assert batch.needs_action is None and batch.aborted is None
        ended += len(batch.ended)
    assert ended >= 12 and not caplog.text
    game.close()


def test_a_player_in_which_no_agent_has_a_place_ends_the_run_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All agents get another behavior, which no message of the start had."""
    behaviors = {"First": {"sensors": [{"name": "v", "shape": [4]}], "continuous": 1},
                 "Second": {"sensors": [{"name": "v", "shape": [5]}], "branches": [2]}}  # fmt: skip
    world = "crowd:" + json.dumps(
        {"behaviors": behaviors, "agents": 3, "later": {"Second": 60}, "until": {"First": 70}}
    )
    monkeypatch.setattr("rlcore_unity.environment.PATIENCE", 50)
    game = make_game(tmp_path, world=world)
    spec = game.behaviors["First"]
    generator = np.random.default_rng(0)
    batches = game.reset(EpisodeSeeds(0), np.zeros(1, np.int64))

    def play() -> None:
        batch = batches["First"]
        while True:
            batch = game.step({"First": drawn_actions(spec, batch, generator)})["First"]

    with pytest.raises(EnvironmentFailed, match="no agent has a place, for 50 exchanges") as caught:
        play()
    assert "agents that wait: 3 of 'Second?team=0'; places: 'First?team=0' 3; list" in str(caught.value)
    game.close()


def test_teams_of_a_game_may_have_a_behavior_each(tmp_path: Path) -> None:
    game = make_game(tmp_path, world="scene:StrikersVsGoalie", agents=1)
    teams = {name: spec.team for name, spec in game.behaviors.items()}
    assert {name: None if team is None else team.tolist() for name, team in teams.items()} == {
        "Goalie": [1], "Striker": [0, 0],
    }  # fmt: skip
    game.close()


def test_agents_that_come_and_go_are_followed(tmp_path: Path) -> None:
    """Every observation of the crowd has the agent's number and which decision of its episode it is."""
    crowd = {"agents": 40, "longest": 6, "pause": 0.4, "period": 3, "cut": 0.5}
    game = make_game(tmp_path, world=f"crowd:{json.dumps(crowd)}", settings={"agents": 40})
    spec = game.behaviors["Crowd"]
    generator = np.random.default_rng(0)
    batch = game.reset(EpisodeSeeds(0), np.zeros(1, np.int64))["Crowd"]
    agent = np.full(40, -1.0)
    decision = np.full(40, -1.0)
    acts = np.ones(40, np.bool_) if batch.needs_action is None else batch.needs_action
    agent[acts], decision[acts] = batch.observations["observation"][acts, 0], batch.observations["observation"][acts, 1]
    truncated = terminated = 0
    for _ in range(150):
        batch = game.step({"Crowd": drawn_actions(spec, batch, generator)})["Crowd"]
        if batch.ended.size:
            assert batch.final_observations is not None
            finals = batch.final_observations["observation"]
            assert (finals[:, 0] == agent[batch.ended]).all()
            assert (finals[:, 1] == decision[batch.ended] + 1).all()
            agent[batch.ended] = -1.0
        truncated += int(batch.truncated.sum())
        terminated += int(batch.terminated.sum())
        acts = np.ones(40, np.bool_) if batch.needs_action is None else batch.needs_action
        assert acts.any()
        seen = batch.observations["observation"]
        goes_on = acts & (agent >= 0)
        assert (seen[goes_on, 0] == agent[goes_on]).all()
        assert (seen[goes_on, 1] == decision[goes_on] + 1).all()
        agent[acts], decision[acts] = seen[acts, 0], seen[acts, 1]
        waiting = batch.transition_closed
        assert waiting is None or not batch.reward[~waiting].any()
    assert truncated > 50 and terminated > 50
    game.close()
