"""The plugins of rlcore's own repository that the core knows by name.

Names are here for hints in messages and for reading ML-Agents' files. A listed plugin has two other privileges: only
:data:`OWN_DISTRIBUTIONS` may turn a statistics writer on by default, and a name of :data:`DEFAULTS`, which a run means
without writing it, stays with its distribution if another one registers the name too.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

# Which distribution provides a record, by kind and name: what to install when a configuration names it.
PACKAGES: dict[tuple[str, str], str] = {
    (kind, name): package
    for package, records in tomllib.loads((Path(__file__).parent / "packages.toml").read_text(encoding="utf-8")).items()
    for kind, names in records.items()
    for name in names
}

# The curriculum that ML-Agents' numbers, samplers and lists of lessons mean.
LESSONS = "lessons"

# The distribution and the plugin that choose environment parameters, those that read recordings, and those that
# exchange between the processes of torchrun.
PARAMETERS = ("rlcore-curriculum", "curriculum")
RECORDINGS = ("rlcore-offline", "offline")
RANKS = ("rlcore-torch", "torch")

# The distribution that reads keys of ML-Agents which rlcore has under another name or not at all, and these keys.
FOREIGN_KEYS = "rlcore-migrate"
KEYS_OF_ML_AGENTS = frozenset(
    {
        "engine_settings",
        "env_settings.num_envs",
        "env_settings.env_path",
        "env_settings.env_args",
        "env_settings.base_port",
        "env_settings.num_areas",
        "checkpoint_settings.load_model",
        "checkpoint_settings.train_model",
    }
)

# The environment.type of an environment that a Python program gives to its run.
PROGRAM = "program"

# Examples in messages.
ENVIRONMENT_EXAMPLE = "environment: {type: gymnasium, id: CartPole-v1}"
ENVIRONMENT_ADVICE = f"{ENVIRONMENT_EXAMPLE}, or --env ID; --env PLAYER or --env editor for Unity"
ENVIRONMENT_OPTIONS_EXAMPLE = "--set environment.type=gymnasium --set environment.id=..."

# Names that a run means without writing them, because settings have them by default, and the distribution whose record
# each means where another one has the name too. Any other name that two plugins have is refused where it is used.
DEFAULTS: dict[tuple[str, str], str] = {
    ("reward", "extrinsic"): "rlcore",
    ("environment", PROGRAM): "rlcore",
    ("writer", "console"): "rlcore",
    ("writer", "jsonl"): "rlcore",
    ("environment", "gymnasium"): "rlcore-gymnasium",
    ("curriculum", LESSONS): "rlcore-curriculum",
    ("executor", "processes"): "rlcore-workers",
    ("encoder", "simple"): "rlcore-torch",
    ("optimizer", "adam"): "rlcore-torch",
    ("action_distribution", "gaussian"): "rlcore-torch",
    ("replay_sampler", "uniform"): "rlcore-torch",
    ("schedule", "constant"): "rlcore-torch",
    ("schedule", "linear"): "rlcore-torch",
}

# Distributions whose statistics writers may run although neither the writer nor its plugin was named. Installing any
# other package must never start to send a run's statistics somewhere.
OWN_DISTRIBUTIONS = ("rlcore", "rlcore-tensorboard")


def first_package(kind: str) -> str | None:
    """A distribution that provides some record of this kind."""
    for (kind_of_record, _), package in PACKAGES.items():
        if kind_of_record == kind:
            return package
    return None
