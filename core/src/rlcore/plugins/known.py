"""The plugins of rlcore's own repository that the core knows by name.

Names are here for hints in messages and for reading ML-Agents' files. A listed plugin has no other privilege, except
that only :data:`OWN_DISTRIBUTIONS` may turn a statistics writer on by default.
"""

from __future__ import annotations

# Which distribution provides a record, by kind and name: what to install when a configuration names it.
PACKAGES: dict[tuple[str, str], str] = {}
for _package, _records in {
    "rlcore-ppo": "trainer: ppo; preset: ppo-atari, ppo-continuous, ppo-discrete, ppo-mujoco",
    "rlcore-torch": "encoder: simple; schedule: linear; behavior: behavioral_cloning; replay_sampler: prioritized",
    "rlcore-her": "replay_sampler: her",
    "rlcore-sac": "trainer: sac; preset: sac",
    "rlcore-td3": "trainer: ddpg, td3; preset: td3",
    "rlcore-dqn": "trainer: dqn; preset: dqn, dqn-atari",
    "rlcore-poca": "trainer: poca",
    "rlcore-offline": "trainer: bc, iql; recording: minari, mlagents",
    "rlcore-gymnasium": "environment: gymnasium; command: init",
    "rlcore-devkit": "command: plugins new, plugins doctor, schema",
    "rlcore-pettingzoo": "environment: pettingzoo; command: play",
    "rlcore-envpool": "environment: envpool",
    "rlcore-godot": "environment: godot",
    "rlcore-ghost": "behavior: self_play; evaluation: opponents, score_against; opponent: random, run; "
    "command: ratings",
    "rlcore-tensorboard": "writer: tensorboard",
    "rlcore-unity": "environment: unity; option: base-port, capture-frame-rate, env-args, height, no-graphics, "
    "no-graphics-monitor, num-areas, quality-level, target-frame-rate, time-scale, timeout-wait, width",
    "rlcore-onnx": "exporter: onnx",
    "rlcore-intrinsic": "reward: curiosity, gail, rnd",
    "rlcore-workers": "executor: processes",
    "rlcore-ray": "executor: ray; command: ray",
    "rlcore-migrate": "hints: migrate; command: convert",
    "rlcore-report": "command: report",
    "rlcore-study": "option: seeds, jobs",
    "rlcore-sweep": "command: sweep",
    "rlcore-checkpoints": "command: checkpoints",
    "rlcore-curriculum": "curriculum: lessons",
    "rlcore-adaptive-curricula": "curriculum: adr, learning_progress, prioritized_levels",
}.items():
    for _record in _records.split("; "):
        _kind, _names = _record.split(": ")
        for _name in _names.split(", "):
            PACKAGES[_kind, _name] = _package

# The curriculum that ML-Agents' numbers, samplers and lists of lessons mean.
LESSONS = "lessons"

# The advice if no plugin for recordings is loaded.
RECORDING_ADVICE = "pip install rlcore-offline, or turn it on with -p offline if it is installed"

# The advice if no plugin exchanges between the processes that torchrun started.
RANKS_ADVICE = "pip install rlcore-torch, or turn it on with -p torch if it is installed"

# The environment.type of an environment that a Python program gives to its run.
PROGRAM = "program"

# Examples in messages.
ENVIRONMENT_EXAMPLE = "environment: {type: gymnasium, id: CartPole-v1}"
ENVIRONMENT_OPTIONS_EXAMPLE = "--set environment.type=gymnasium --set environment.id=..."
UNITY_EXAMPLE = "environment: {type: unity} of rlcore-unity"
FIRST_UPDATE_EXAMPLE = "hyperparameters.buffer_init_steps of sac"

# Distributions whose statistics writers may run although neither the writer nor its plugin was named. Installing any
# other package must never start to send a run's statistics somewhere.
OWN_DISTRIBUTIONS = ("rlcore", "rlcore-tensorboard")


def first_package(kind: str) -> str | None:
    """A distribution that provides some record of this kind."""
    return next((package for (of, _), package in PACKAGES.items() if of == kind), None)
