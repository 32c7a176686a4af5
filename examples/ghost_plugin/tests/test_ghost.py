"""Earlier selves: the contract of trainers, who plays against whom, exact resumes, and a game that is learned."""

from __future__ import annotations

import copy
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import attrs
import numpy as np
import pytest
import yaml

from rlcore import Actions, AgentBatch, ConfigError, Run, RunStateError, load_policies
from rlcore_devkit import EnvironmentConformance, PluginConformance, RunRlcore, TrainerConformance

EXAMPLE = Path(__file__).parents[1]
CONFIG = yaml.safe_load((EXAMPLE / "nim.yaml").read_text(encoding="utf-8"))
EARLIER_SELVES = {"save_steps": 100, "window": 3, "play_against_latest_model_ratio": 0.5}

Configure = Callable[..., dict[str, Any]]


class TestPlugin(PluginConformance):
    plugin = "acme-ghost"


class Pairs(TrainerConformance):
    """Slots 2 e and 2 e + 1 are the two teams of environment e."""

    settings: ClassVar = {"earlier_selves": EARLIER_SELVES}

    def make(self, environment: Any, seed: int = 1, plugins: Any = None, **settings: Any) -> Any:
        [behavior] = environment.behaviors.values()
        slots = np.arange(behavior.slots)
        paired = attrs.evolve(behavior, env_index=slots // 2, team=slots % 2)
        environment.behaviors = {behavior.name: paired}
        trainer = super().make(environment, seed, plugins, **settings)
        assert type(trainer).__name__ == "GhostTrainer" and trainer.learning_slots.sum() == behavior.slots // 2
        return trainer


class TestGhostOfPPO(Pairs):
    trainer = "ppo"
    hyperparameters: ClassVar = {"batch_size": 64, "buffer_size": 256, "learning_rate": 3e-3}


class TestGhostOfSAC(Pairs):
    trainer = "sac"
    hyperparameters: ClassVar = {
        "batch_size": 32,
        "buffer_size": 5000,
        "buffer_init_steps": 32,
        "learning_rate": 3e-3,
        "save_replay_buffer": True,
    }
    learns_within = 8000


@pytest.fixture
def configure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Configure:
    """``configure(**behavior)``: the example's configuration with these changes, in a directory with its files."""
    shutil.copy(EXAMPLE / "nim.py", tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "nim", raising=False)  # another test's copy

    def changed(run_id: str = "nim", seed: int = 1, **behavior: Any) -> dict[str, Any]:
        config = copy.deepcopy(CONFIG)
        config["behaviors"]["Player"] |= behavior
        config["env_settings"] = {"seed": seed}
        config["evaluation"]["interval"] = 1_000_000
        return config | {"checkpoint_settings": {"run_id": run_id}, "stats": {"console": False}}

    return changed


@pytest.mark.parametrize("perfect_opponent", [False, True])
class TestNim(EnvironmentConformance):
    @pytest.fixture(autouse=True)
    def _options(self, configure: Configure, perfect_opponent: bool) -> None:
        self.perfect_opponent = perfect_opponent

    def make(self, num_envs: int) -> Any:
        from nim import Nim, NimSettings

        return Nim(num_envs, "Player", NimSettings(perfect_opponent=self.perfect_opponent))


# ---------------------------------------------------------------- who plays against whom


class Constant:
    """A policy that chooses the same option in each row."""

    def __init__(self, option: int) -> None:
        self.option = option

    def act(self, observations: Any, action_mask: Any = None, deterministic: bool = True) -> Actions:
        return Actions(discrete=np.full((len(observations["seen"]), 1), self.option))

    def seed(self, seed: int) -> None:
        """Nothing is drawn."""

    def state_dict(self) -> dict[str, Any]:
        return {"option": self.option}


class Recorder:
    """A trainer that notes what it is given; its snapshots are numbered from 1."""

    def __init__(self) -> None:
        self.steps, self.snapshots, self.policy = 0, 0, Constant(0)
        self.observed: list[tuple[Actions, AgentBatch]] = []

    def snapshot(self, state: Any = None) -> Constant:
        self.snapshots += 1
        return Constant(self.snapshots)

    def begin(self, batch: AgentBatch) -> None:
        self.begun = batch

    def act(self, batch: AgentBatch) -> Actions:
        return Actions(discrete=100 + batch.observations["seen"].astype(np.int64))

    def observe(self, actions: Actions, batch: AgentBatch) -> None:
        self.observed.append((actions, batch))


LEARNING = np.array([True, False, False, True] * 50)  # slots 2 e and 2 e + 1 are environment e


def made(ratio: float, window: int = 3) -> Any:
    from acme_ghost.plugin import EarlierSelvesSettings
    from acme_ghost.trainer import GhostTrainer

    settings = EarlierSelvesSettings(save_steps=100, window=window, play_against_latest_model_ratio=ratio)
    return GhostTrainer(Recorder(), settings, LEARNING, "Agent", 1)


def batch(*ended: int) -> AgentBatch:
    """Each agent sees the number of its slot, and gets it as its reward."""
    slots = np.arange(len(LEARNING), dtype=np.float32)
    over = np.isin(slots, ended)
    final = {"seen": slots[over][:, None]}
    return AgentBatch({"seen": slots[:, None]}, slots, over, np.zeros_like(over), final_observations=final)


def test_the_inner_trainer_sees_the_learning_agents_and_the_others_act_as_they_drew() -> None:
    ghost = made(0.5)
    for ghost.trainer.steps in (0, 100, 200):
        ghost.begin(batch())
    opponents = ghost.opponent.copy()
    assert set(opponents.tolist()) == {0, 1, 2, 3} and ghost.trainer.begun.reward.tolist() == ghost.learning.tolist()
    chosen = ghost.act(batch())
    assert chosen.discrete[LEARNING, 0].tolist() == (100 + np.flatnonzero(LEARNING)).tolist()
    assert chosen.discrete[~LEARNING, 0].tolist() == opponents.tolist()
    ghost.observe(chosen, batch(6, 7))
    [(actions, seen)] = ghost.trainer.observed
    assert actions.discrete[:, 0].tolist() == (100 + np.flatnonzero(LEARNING)).tolist()
    assert seen.reward.tolist() == np.flatnonzero(LEARNING).tolist() and seen.ended.tolist() == [3]  # slot 7


@pytest.mark.parametrize("ratio", [0.0, 0.3, 1.0])
def test_opponents_are_drawn_as_often_as_the_ratio_says(ratio: float) -> None:
    ghost = made(ratio)
    for ghost.trainer.steps in (0, 100, 200):
        ghost.begin(batch())
    drawn = []
    for _ in range(300):
        ghost.observe(Actions(discrete=np.zeros((200, 1), np.int64)), batch(*range(200)))
        drawn += ghost.opponent.tolist()
    shares = np.bincount(drawn, minlength=4) / len(drawn)
    np.testing.assert_allclose(shares, [ratio, *[(1 - ratio) / 3] * 3], atol=0.015)


def test_an_opponent_keeps_its_policy_until_its_episode_ends() -> None:
    ghost = made(0.5)
    for ghost.trainer.steps in (0, 100, 200):
        ghost.begin(batch())
    changed: set[int] = set()
    for _ in range(20):
        before = ghost.opponent.copy()
        ghost.observe(Actions(discrete=np.zeros((200, 1), np.int64)), batch(4, 5, 7))
        changed |= set(ghost.playing[before != ghost.opponent].tolist())
    assert changed == {5}


def test_a_snapshot_is_taken_every_save_steps_and_replaces_the_oldest() -> None:
    ghost = made(0.5)
    kept = []
    for ghost.trainer.steps in (0, 99, 100, 150, 230, 310, 410, 1000):
        ghost.draw(np.arange(0))
        kept.append([policy.option for policy in ghost.mix.policies])
    assert kept == [[0, 1], [0, 1], [0, 1, 2], [0, 1, 2], [0, 1, 2, 3], [0, 4, 2, 3], [0, 4, 5, 3], [0, 4, 5, 6]]


def test_half_of_the_agents_learn_one_in_each_environment_and_of_both_teams(configure: Configure) -> None:
    with Run(configure()) as run:
        run.start()
        behavior = run.behaviors["Player"].spec
        ghost = run.behaviors["Player"].trainer
        assert behavior.slots == 32 and sorted([*ghost.learning, *ghost.playing]) == list(range(32))
        assert behavior.env_index[ghost.learning].tolist() == list(range(16))
        assert behavior.team[ghost.learning].tolist() == [0, 1] * 8
        assert ghost.trainer.behavior.slots == 16


@pytest.mark.parametrize("team", [None, [0] * 4, [0, 1, 2, 3]])
def test_a_behavior_without_two_teams_is_refused(configure: Configure, team: Any, monkeypatch: Any) -> None:
    import nim

    make = nim.Nim.__init__

    def other(self: Any, *arguments: Any) -> None:
        make(self, *arguments)
        [(name, behavior)] = self.behaviors.items()
        column = None if team is None else np.array(team * 8)
        self.behaviors = {name: attrs.evolve(behavior, team=column)}

    monkeypatch.setattr(nim.Nim, "__init__", other)
    with pytest.raises(ConfigError, match=r"behaviors.Player.earlier_selves: needs agents of two teams"):
        Run(configure()).start()


# ---------------------------------------------------------------- saving


def contents(step: Path) -> dict[str, Any]:
    """Everything in a checkpoint but the time that it took."""
    files: dict[str, Any] = {file.name: file.read_bytes() for file in step.glob("*.safetensors")}
    state = json.loads((step / "state.json").read_text())
    del state["run"]["wall_seconds"]
    return files | {"state": state}


@pytest.mark.parametrize("trainer", ["ppo", "ppo with memory", "sac"])
def test_a_run_that_is_killed_and_resumed_equals_one_that_is_not(configure: Configure, trainer: str) -> None:
    block: dict[str, Any] = {"max_steps": 1600, "checkpoint_interval": 320, "summary_freq": 800, "keep_checkpoints": 0}
    block |= {"earlier_selves": EARLIER_SELVES, "trainer_type": trainer[:3]}
    if trainer == "sac":
        sac = {"batch_size": 32, "buffer_init_steps": 64, "steps_per_update": 8, "save_replay_buffer": True}
        block["hyperparameters"] = sac
    else:
        block["hyperparameters"] = {"batch_size": 64, "buffer_size": 256}
    if trainer == "ppo with memory":
        block["network_settings"] = {"hidden_units": 16, "memory": {"memory_size": 8, "sequence_length": 8}}
    for run_id in ("whole", "again"):
        Run(configure(run_id, **block)).train()
    whole, again = (Path("results") / run_id / "checkpoints" for run_id in ("whole", "again"))
    steps = sorted(int(step.name) for step in whole.iterdir() if step.name.isdecimal())
    assert len(steps) == 5
    for step in steps:
        assert contents(whole / str(step)) == contents(again / str(step)), "equal seeds"
    shutil.copytree("results/whole", "results/killed")
    killed = Path("results/killed/checkpoints")
    for step in steps[2:]:
        shutil.rmtree(killed / str(step))
    config = configure("killed", **block)
    config["checkpoint_settings"]["resume"] = True
    Run(config).train()
    for step in steps[2:]:
        assert contents(killed / str(step)) == contents(whole / str(step))
    saved = contents(whole / str(steps[-1]))["state"]["Player"]["earlier_selves"]
    assert len(saved["snapshots"]) == 3 and saved["saved"] > 10


def test_a_state_without_earlier_selves_is_refused_and_changes_nothing(configure: Configure) -> None:
    with Run(configure()) as run:
        run.start()
        ghost: Any = run.behaviors["Player"].trainer
        state = copy.deepcopy(ghost.trainer.state_dict())
        before = ghost.generator.bit_generator.state
        with pytest.raises(RunStateError, match="'earlier_selves' is missing"):
            ghost.load_state_dict(state)
        assert ghost.generator.bit_generator.state == before


# ---------------------------------------------------------------- the game


def score(config: dict[str, Any]) -> tuple[float, float]:
    """The score against a perfect opponent before and after training: 1 if all games are won, -1 if none is."""
    with Run(config) as run:
        before = run.evaluate(episodes=200).score
        run.train()
        return before, run.evaluate(episodes=200).score


def test_an_opponent_that_stays_as_it_was_at_first_is_beaten_and_teaches_little(configure: Configure) -> None:
    """The mean reward is that of the learning agents: over both teams, it would be 0."""
    frozen = {"save_steps": 1_000_000, "window": 1, "play_against_latest_model_ratio": 0.0}
    with Run(configure(max_steps=8192, earlier_selves=frozen)) as run:
        run.train()
        assert run.results()["Player"].mean_reward > 0.5
        assert run.evaluate(episodes=100).score < 0.5


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_nim_is_learned_and_its_policy_is_read_from_the_checkpoint(
    configure: Configure, run_rlcore: RunRlcore, seed: int
) -> None:
    before, after = score(configure(seed=seed))
    assert before < -0.9 and after >= 0.95
    # In an environment of one team:
    evaluated = run_rlcore("evaluate", Path("results/nim").resolve(), "--allow-local", "--json")
    assert json.loads(evaluated.stdout)["behaviors"]["Player"]["mean_reward"] >= 0.95
    policy = load_policies("results/nim")["Player"]
    heaps = np.array([heap for heap in range(4, 21) if heap % 4])
    chosen = policy.act({"heap": np.eye(21, dtype=np.float32)[heaps]}, np.ones((len(heaps), 3), np.bool_)).discrete
    assert np.mean(1 + chosen[:, 0] == heaps % 4) >= 0.9  # the only moves that keep a game won
