"""The contract of trainers, kept by self-play around PPO, POCA and SAC."""

from __future__ import annotations

from typing import Any, ClassVar

import attrs
import numpy as np
import pytest

from rlcore_devkit import PluginConformance, TrainerConformance

SELF_PLAY = {"save_steps": 100, "swap_steps": 60, "team_change": 150, "window": 3}


@pytest.mark.smoke
class TestPlugin(PluginConformance):
    plugin = "ghost"


class Pairs(TrainerConformance):
    """Slots 2 e and 2 e + 1 are the two teams of environment e."""

    settings: ClassVar[dict[str, Any]] = {"self_play": SELF_PLAY}
    trainer_class = "GhostTrainer"
    steps = 150

    def make(self, environment: Any, seed: int = 1, plugins: Any = None, **settings: Any) -> Any:
        [behavior] = environment.behaviors.values()
        slots = np.arange(behavior.slots)
        paired = attrs.evolve(behavior, env_index=slots // 2, team=slots % 2)
        environment.behaviors = {behavior.name: paired}
        trainer = super().make(environment, seed, plugins, **settings)
        assert type(trainer).__name__ == self.trainer_class
        return trainer


class TestGhostOfPPO(Pairs):
    trainer = "ppo"
    hyperparameters: ClassVar[dict[str, Any]] = {"batch_size": 64, "buffer_size": 256, "learning_rate": 3e-3}


@pytest.mark.learning
class TestGhostOfPOCA(TrainerConformance):
    """Slots 4 e to 4 e + 3 are two teams of environment e, and each team is a group."""

    trainer = "poca"
    hyperparameters: ClassVar[dict[str, Any]] = TestGhostOfPPO.hyperparameters
    settings: ClassVar[dict[str, Any]] = Pairs.settings
    skip: ClassVar[dict[str, str]] = {
        "test_what_an_agent_sees_while_it_waits_does_not_count": "the critic reads what waiting mates see",
    }
    steps = 150

    def make(self, environment: Any, seed: int = 1, plugins: Any = None, **settings: Any) -> Any:
        [behavior] = environment.behaviors.values()
        slots = np.arange(behavior.slots)
        teams = attrs.evolve(behavior, env_index=slots // 4, team=slots // 2 % 2, group=slots // 2)
        environment.behaviors = {behavior.name: teams}
        trainer = super().make(environment, seed, plugins, **settings)
        assert type(trainer).__name__ == "GhostTrainer"
        return trainer


@pytest.mark.learning
class TestGhostOfSAC(Pairs):
    trainer = "sac"
    hyperparameters: ClassVar[dict[str, Any]] = {
        "batch_size": 32, "buffer_size": 5000, "buffer_init_steps": 32, "learning_rate": 3e-3, "steps_per_update": 4,
        "save_replay_buffer": True,
    }  # fmt: skip
    settings: ClassVar[dict[str, Any]] = {**Pairs.settings, "network_settings": {"hidden_units": 32, "num_layers": 1}}
    steps = 120
    learns_within = 8000


@pytest.mark.learning
class TestGhostOfTD3(Pairs):
    trainer = "td3"
    hyperparameters: ClassVar[dict[str, Any]] = {
        **TestGhostOfSAC.hyperparameters, "exploration_noise_type": "ornstein_uhlenbeck", "exploration_noise": 0.3,
    }  # fmt: skip
    settings = TestGhostOfSAC.settings
    steps = 120
    learns_within = 8000


@pytest.mark.learning
class TestGhostOfCrossQ(Pairs):
    """Opponents act with the running statistics of their snapshots, whatever rows are beside theirs."""

    trainer = "crossq"
    hyperparameters = TestGhostOfSAC.hyperparameters
    settings: ClassVar[dict[str, Any]] = {
        **Pairs.settings,
        "network_settings": {"hidden_units": 32, "num_layers": 1, "activation": "relu", "batch_norm_momentum": 0.1},
    }
    steps = 120
    learns_within = 8000


@pytest.mark.learning
class TestGhostOfXQC(TestGhostOfCrossQ):
    trainer = "xqc"
    hyperparameters: ClassVar[dict[str, Any]] = {**TestGhostOfSAC.hyperparameters, "tau": 0.05, "num_atoms": 21}


@pytest.mark.learning
class TestGhostOfPQN(Pairs):
    """Opponents act greedily, and what learns explores all the same."""

    trainer = "pqn"
    hyperparameters: ClassVar[dict[str, Any]] = {**TestGhostOfPPO.hyperparameters, "epsilon_steps": 4000}
    settings: ClassVar[dict[str, Any]] = {
        **Pairs.settings, "network_settings": {"hidden_units": 32, "num_layers": 1, "deterministic": True}
    }  # fmt: skip


class TestLeagueOfPPO(Pairs):
    trainer = "ppo"
    hyperparameters = TestGhostOfPPO.hyperparameters
    settings: ClassVar[dict[str, Any]] = {"self_play": {**SELF_PLAY, "league": {}}}
    num_envs = 16
    steps = 75
    trainer_class = "League"
    skip: ClassVar[dict[str, str]] = dict.fromkeys(
        [
            "test_rewards_that_learn_are_updated_saved_and_restored",
            "test_rewards_that_learn_are_shown_each_collected_transition_once_and_in_order",
        ],
        "each policy of a league has rewards of its own",
    )
