"""The plugins of rlcore's own repository that the core knows by name.

Names are here for hints in messages and for reading ML-Agents' files. A listed plugin has no other privilege, except
that only :data:`OWN_DISTRIBUTIONS` may turn a statistics writer on by default.
"""

from __future__ import annotations

# Which distribution provides a record, by kind and name: what to install when a configuration names it.
PACKAGES = {
    ("trainer", "ppo"): "rlcore-ppo",
    ("encoder", "simple"): "rlcore-torch",
    ("schedule", "linear"): "rlcore-torch",
    ("behavior", "behavioral_cloning"): "rlcore-torch",
    ("trainer", "sac"): "rlcore-sac",
    ("trainer", "bc"): "rlcore-offline",
    ("trainer", "iql"): "rlcore-offline",
    ("environment", "gymnasium"): "rlcore-gymnasium",
    ("environment", "pettingzoo"): "rlcore-pettingzoo",
    ("behavior", "self_play"): "rlcore-ghost",
    ("evaluation", "opponents"): "rlcore-ghost",
    ("evaluation", "score_against"): "rlcore-ghost",
    ("opponent", "random"): "rlcore-ghost",
    ("opponent", "run"): "rlcore-ghost",
    ("writer", "tensorboard"): "rlcore-tensorboard",
    ("recording", "minari"): "rlcore-offline",
    ("exporter", "onnx"): "rlcore-onnx",
    ("recording", "mlagents"): "rlcore-offline",
    ("reward", "curiosity"): "rlcore-intrinsic",
    ("reward", "gail"): "rlcore-intrinsic",
    ("reward", "rnd"): "rlcore-intrinsic",
    ("command", "plugins new"): "rlcore-devkit",
    ("command", "play"): "rlcore-pettingzoo",
    ("command", "ratings"): "rlcore-ghost",
    ("command", "ray"): "rlcore-ray",
    ("executor", "processes"): "rlcore-workers",
    ("executor", "ray"): "rlcore-ray",
    ("command", "report"): "rlcore-report",
    ("curriculum", "lessons"): "rlcore-curriculum",
    ("curriculum", "adr"): "rlcore-adaptive-curricula",
    ("curriculum", "learning_progress"): "rlcore-adaptive-curricula",
    ("curriculum", "prioritized_levels"): "rlcore-adaptive-curricula",
}

# The curriculum that ML-Agents' numbers, samplers and lists of lessons mean.
LESSONS = "lessons"

# The advice if no plugin for recordings is loaded.
RECORDING_ADVICE = "pip install rlcore-offline, or turn it on with -p offline if it is installed"

# The advice if no plugin exchanges between the processes that torchrun started.
RANKS_ADVICE = "pip install rlcore-torch, or turn it on with -p torch if it is installed"

# Examples in messages.
ENVIRONMENT_EXAMPLE = "environment: {type: gymnasium, id: CartPole-v1}"
ENVIRONMENT_OPTIONS_EXAMPLE = "--set environment.type=gymnasium --set environment.id=..."
FIRST_UPDATE_EXAMPLE = "hyperparameters.buffer_init_steps of sac"

# Names that ML-Agents knows and no plugin of rlcore provides yet, by kind and name.
NOT_BUILT = {
    ("trainer", "poca"): "the POCA trainer",
    ("environment", "unity"): "Unity environments",
}

# Distributions whose statistics writers may run although neither the writer nor its plugin was named. Installing any
# other package must never start to send a run's statistics somewhere.
OWN_DISTRIBUTIONS = ("rlcore", "rlcore-tensorboard")


def is_known(kind: str, name: str) -> bool:
    """Whether a distribution of rlcore's own repository provides the record, or is to provide it."""
    return (kind, name) in PACKAGES or (kind, name) in NOT_BUILT


def package_of(kind: str, name: str) -> str | None:
    """The distribution that provides the record, if it is one of rlcore's own repository."""
    return PACKAGES.get((kind, name))


def first_package(kind: str) -> str | None:
    """A distribution that provides some record of this kind."""
    return next((package for (of, _), package in PACKAGES.items() if of == kind), None)
