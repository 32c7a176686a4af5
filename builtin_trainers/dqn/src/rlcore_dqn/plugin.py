"""The hooks of rlcore-dqn. Imported whenever rlcore starts, so torch is imported with the target, not here."""

from __future__ import annotations

from rlcore import Preset, TrainerSpec, hookimpl
from rlcore_torch import AccelerationSpec


@hookimpl
def rlcore_trainers() -> list[TrainerSpec]:
    return [
        TrainerSpec(
            name="dqn",
            target="rlcore_dqn.trainer:DQNTrainer",
            settings="rlcore_dqn.settings:DQNSettings",
            network="rlcore_torch:NetworkSettings",
            spaces={"discrete"},
            summary="deep Q-learning: off-policy, discrete actions; double, dueling, c51 or quantiles, noisy",
            memory=True,
            ranks=True,
        )
    ]


@hookimpl
def rlcore_accelerations() -> list[AccelerationSpec]:
    return [
        AccelerationSpec(
            name="dqn-threads",
            trainer="rlcore_dqn.trainer:DQNTrainer",
            target="rlcore_dqn.threads:THREADS",
            summary="one thread or two in a gradient step, by measuring",
        ),
    ]


@hookimpl
def rlcore_config_sections() -> list[Preset]:
    return [
        Preset(
            name="dqn",
            target="rlcore_dqn.presets:DQN",
            trainer="dqn",
            spaces={"discrete"},
            summary="DQN for discrete actions, such as CartPole and LunarLander",
            source="RL Zoo's dqn.yml (rl_zoo3 2.9.2), LunarLander-v3 and Acrobot-v1, with double Q-learning, half of "
            "the width and half of the gradient steps; a rate that falls to 0, and returns of 3 steps (Hessel et al. "
            "2018, arXiv:1710.02298): chosen by CartPole (seeds 11 to 13), Acrobot and MountainCar",
        ),
        Preset(
            name="dqn-atari",
            target="rlcore_dqn.presets:DQN_ATARI",
            trainer="dqn",
            spaces={"discrete"},
            images=True,
            marks={"atari"},
            summary="DQN for Atari games: stacks of four frames",
            source="Mnih et al. 2015 (doi:10.1038/nature14236), extended data table 1, with Adam and RL Zoo's buffer",
        ),
    ]
