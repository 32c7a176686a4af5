"""The hooks of rlcore-ppo. Imported whenever rlcore starts, so torch is imported with the target, not here."""

from __future__ import annotations

from rlcore import Preset, TrainerSpec, hookimpl
from rlcore_torch import AccelerationSpec


@hookimpl
def rlcore_trainers() -> list[TrainerSpec]:
    return [
        TrainerSpec(
            name="ppo",
            target="rlcore_ppo.trainer:PPOTrainer",
            settings="rlcore_ppo.settings:PPOSettings",
            network="rlcore_torch:NetworkSettings",
            summary="proximal policy optimization: on-policy, clipped policy gradient",
            behavioral_cloning=True,
            memory=True,
            critic=True,
            privileged_critic=True,
            action_distributions=True,
            ranks=True,
        )
    ]


@hookimpl
def rlcore_accelerations() -> list[AccelerationSpec]:
    return [
        AccelerationSpec(
            name="ppo",
            trainer="rlcore_ppo.trainer:PPOTrainer",
            target="rlcore_ppo.by_hand:GRADIENTS",
            summary="the gradient of PPO's loss written by hand, for networks of linear layers",
        )
    ]


@hookimpl
def rlcore_config_sections() -> list[Preset]:
    return [
        Preset(
            name="ppo-discrete",
            target="rlcore_ppo.presets:PPO_DISCRETE",
            trainer="ppo",
            spaces={"discrete"},
            summary="PPO for discrete actions, such as CartPole and LunarLander",
            source="steps, batch, passes and clip range are defaults of Stable-Baselines3 2, in 8 environments; a rate "
            "that falls, chosen on LunarLander; gamma, lambda and entropy bonus those of RL Zoo's LunarLander; "
            "network: Andrychowicz et al. 2021 (arXiv:2006.05990)",
        ),
        Preset(
            name="ppo-continuous",
            target="rlcore_ppo.presets:PPO_CONTINUOUS",
            trainer="ppo",
            spaces={"continuous", "hybrid"},
            summary="PPO for continuous actions, alone or beside discrete ones, such as Pendulum and BipedalWalker",
            source="Schulman et al. 2017 (arXiv:1707.06347), table 3; normalized observations and rewards as in "
            "CleanRL's ppo_continuous_action; first deviation after Andrychowicz et al. 2021 (arXiv:2006.05990)",
        ),
        Preset(
            name="ppo-mujoco",
            target="rlcore_ppo.presets:PPO_MUJOCO",
            trainer="ppo",
            spaces={"continuous"},
            marks={"mujoco"},
            summary="PPO for robots with joints to move, such as MuJoCo's HalfCheetah and Ant",
            source="as ppo-continuous, with a smaller first deviation, rollouts of 1,024 steps, and updates that end "
            "at a KL divergence of 0.03: chosen by HalfCheetah after 100,000 steps, and by HalfCheetah, Walker2d, "
            "Hopper and Ant after 1,000,000, seed 11",
        ),
        Preset(
            name="ppo-atari",
            target="rlcore_ppo.presets:PPO_ATARI",
            trainer="ppo",
            spaces={"discrete"},
            images=True,
            marks={"atari"},
            summary="PPO for discrete actions and images, such as Atari games",
            source="Schulman et al. 2017 (arXiv:1707.06347), table 5, but with a constant clip range and 4 passes; "
            "clipped rewards and network: Mnih et al. 2015 (doi:10.1038/nature14236)",
        ),
    ]
