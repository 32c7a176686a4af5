"""Keys and values of Stable-Baselines3, RL Zoo, Tianshou and RLlib in a configuration: what rlcore has instead.

The tables of ``docs/how-to/stable-baselines3.md`` say more about each key; a test compares them with :data:`OF_SB3`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from rlcore.errors import KeyPath

ZOO_FILE = (
    "a file of RL Zoo, whose keys have other names here: docs/how-to/stable-baselines3.md turns such a file into one "
    "of rlcore, step by step"
)
RLLIB_FILE = (
    "a file of RLlib, whose keys have other names here: write environment: {type: gymnasium, id: ...} and behaviors: "
    "{NAME: {trainer_type: ppo, max_steps: ...}}; keys of RLlib in them are refused with the ones to write instead"
)
_LACKS = ", which rlcore lacks: delete this key"
_UPDATES = (
    ": write hyperparameters.steps_per_update, which is train_freq times num_envs, divided by gradient_steps (1 for "
    "gradient_steps: -1)"
)
_REPLAY = ": write hyperparameters.replay_sampler, if a plugin has one of this kind; else delete this key"
_IN_ENVIRONMENT = ": delete this key, and put wrappers into the environment that environment.id names"

# What follows "a key of Stable-Baselines3 and RL Zoo".
OF_SB3: Mapping[str, str] = MappingProxyType(
    {
        "n_timesteps": ": write max_steps, in the behavior",
        "total_timesteps": ": write max_steps, in the behavior",
        "n_envs": ": write num_envs, in environment",
        "policy": ": delete this key; the network follows from the spaces, and network_settings sets its size",
        "n_steps": ": write hyperparameters.buffer_size, which is n_steps times n_envs",
        "n_epochs": ": write hyperparameters.num_epoch",
        "gae_lambda": ": write hyperparameters.lambd",
        "clip_range": ": write hyperparameters.epsilon with epsilon_schedule: constant, or for lin_ with "
        "epsilon_schedule: linear and final_epsilon: 0.0",
        "clip_range_vf": ": write hyperparameters.value_clip",
        "normalize_advantage": ": write hyperparameters.advantage_normalization: minibatch for true, none for false",
        "ent_coef": ": for ppo, write hyperparameters.beta with beta_schedule: constant; for sac, init_entcoef, with "
        "learn_entcoef: false for a number, or without it for auto",
        "vf_coef": ": write hyperparameters.value_coefficient",
        "learning_starts": ": write hyperparameters.buffer_init_steps",
        "train_freq": _UPDATES,
        "gradient_steps": _UPDATES,
        "target_update_interval": ": delete this key; target networks follow at each gradient step, as with 1",
        "target_entropy": ": delete this key for auto; a number divided by the number of actions is "
        "hyperparameters.continuous_target_entropy",
        "replay_buffer_class": _REPLAY,
        "replay_buffer_kwargs": _REPLAY,
        "optimize_memory_usage": ": delete this key; an observation is always stored once",
        **dict.fromkeys(("action_noise", "noise_type", "noise_std", "policy_delay"), _LACKS),
        **dict.fromkeys(("use_sde", "sde_sample_freq", "use_sde_at_warmup"), _LACKS),
        "policy_kwargs": ": write network_settings, with hidden_units, num_layers and activation",
        "net_arch": ": write network_settings.hidden_units and num_layers, or hidden_layers",
        "activation_fn": ": write network_settings.activation",
        "ortho_init": ": write network_settings.init: orthogonal for true",
        "log_std_init": ": write hyperparameters.initial_log_std",
        "seed": ": write env_settings.seed",
        "device": ": write torch_settings.device",
        "verbose": ": delete this key, or for 0 write stats: {console: false}",
        "tensorboard_log": ": delete this key; the run directory has files of TensorBoard",
        **dict.fromkeys(("frame_stack", "env_wrapper", "vec_env_wrapper"), _IN_ENVIRONMENT),
    }
)
_OF_TIANSHOU: Mapping[str, str] = MappingProxyType(
    {
        "max_epoch": "max_steps, in the behavior",
        "hidden_sizes": "network_settings.hidden_units and num_layers",
        "repeat_per_collect": "hyperparameters.num_epoch",
        "eps_clip": "hyperparameters.epsilon",
    }
)
_OF_RLLIB: Mapping[str, str] = MappingProxyType(
    {
        "env": "environment.id",
        "env_config": "environment.options",
        "lr": "hyperparameters.learning_rate",
        "lambda": "hyperparameters.lambd",
        "clip_param": "hyperparameters.epsilon",
        "entropy_coeff": "hyperparameters.beta",
        "vf_loss_coeff": "hyperparameters.value_coefficient",
        "fcnet_hiddens": "network_settings.hidden_layers",
        "rollout_fragment_length": "time_horizon, in the behavior",
        "num_gpus": "torch_settings.device",
        **dict.fromkeys(("train_batch_size", "train_batch_size_per_learner"), "hyperparameters.buffer_size"),
        **dict.fromkeys(("minibatch_size", "sgd_minibatch_size"), "hyperparameters.batch_size"),
        **dict.fromkeys(("num_epochs", "num_sgd_iter"), "hyperparameters.num_epoch"),
        **dict.fromkeys(("num_workers", "num_rollout_workers", "num_env_runners"), "environment.workers"),
        **dict.fromkeys(
            ("num_envs_per_worker", "num_envs_per_env_runner"),
            "environment.num_envs, the environments of all workers together",
        ),
    }
)
# Messages about keys; a key that rlcore has too means what it means in rlcore.
OTHER_KEYS: Mapping[str, str] = MappingProxyType(
    {
        **{key: f"a key of Stable-Baselines3 and RL Zoo{instead}" for key, instead in OF_SB3.items()},
        **{key: f"a key of Tianshou: write {instead}" for key, instead in _OF_TIANSHOU.items()},
        **{key: f"a key of RLlib: write {instead}" for key, instead in _OF_RLLIB.items()},
    }
)
_ANYONES = {"seed", "device", "verbose"}  # keys that do not say whose file it is
_LINEAR = re.compile(r"lin_(\d[\d.]*(?:e[+-]?\d+)?)")
_AUTO = re.compile(r"auto(?:_(\d[\d.]*(?:e[+-]?\d+)?))?")
_FALLING = {
    "learning_rate": "learning_rate_schedule: linear",
    "epsilon": "epsilon_schedule: linear and final_epsilon: 0.0",
    "beta": "beta_schedule: linear and final_beta: 0.0",
}


def is_of_zoo(keys: Iterable[str]) -> bool:
    """Return whether a block at the top level with these keys is an entry of a file of RL Zoo."""
    return not OF_SB3.keys().isdisjoint(set(keys) - _ANYONES)


def is_of_rllib(keys: Iterable[str]) -> bool:
    """Return whether a block at the top level with these keys is an experiment of RLlib."""
    keys = set(keys)
    return "run" in keys and not keys.isdisjoint({"env", "config", "stop"})


def value_hint(path: KeyPath, value: str) -> str:
    """Return ``"; write 0.001 with learning_rate_schedule: linear"`` for ``lin_0.001`` of RL Zoo, and the like.

    Empty for a text that no hyperparameter has in files of RL Zoo.
    """
    key = str(path[-1]) if "hyperparameters" in path[-2:-1] else ""
    if key in _FALLING and (linear := _LINEAR.fullmatch(value)):
        return f"; write {linear[1]} with {_FALLING[key]}"
    if key == "init_entcoef" and (auto := _AUTO.fullmatch(value)):
        return f"; write {auto[1] or '1.0'}, from which it is learned while learn_entcoef is true"
    return ""
