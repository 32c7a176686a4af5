"""SAC, TD3, DDPG and DQN of Stable-Baselines3 as the trainers ``sac``, ``td3``, ``ddpg`` and ``dqn``.

QR-DQN of sb3-contrib is the trainer ``dqn`` too.
"""

from __future__ import annotations

import re
from typing import Any

from rlcore_migrate.zoo.conversion import Conversion, convert_schedule

__all__ = ["convert_ddpg", "convert_dqn", "convert_qrdqn", "convert_sac", "convert_td3"]

_AUTO = re.compile(r"auto(?:_(?P<initial>\d[\d.]*(?:e[+-]?\d+)?))?")
_NO_REPLAY = "another replay buffer is a replay sampler here, such as her of rlcore-her"


def convert_sac(c: Conversion) -> None:
    """Convert the arguments of ``stable_baselines3.SAC``."""
    _off_policy(c, learning_rate=3e-4, batch_size=256, train_freq=1)
    c.same("tau", "tau", 0.005, above=0.0)
    _temperature(c)
    target = c.entry.raw("target_entropy", "auto")
    actions = len(c.world.half_ranges or (1.0,))
    if target == "auto":
        c.hyperparameter("continuous_target_entropy", -1.0, "target_entropy: auto, -1 for each part of an action")
    else:
        entropy = c.entry.number("target_entropy", -1.0)
        comment = f"target_entropy ({entropy:g}) of {actions} parts of an action"
        c.hyperparameter("continuous_target_entropy", entropy / actions, comment)
    interval = c.entry.number("target_update_interval", 1, whole=True, minimum=1)
    if interval != 1:
        c.entry.refuse("target_update_interval", "targets follow at each gradient step", "takes 1")
    c.entry.note("target_update_interval", "1, as here")
    _no_action_noise(c)


def convert_td3(c: Conversion) -> None:
    """Convert the arguments of ``stable_baselines3.TD3``."""
    convert_ddpg(c)
    c.same("policy_delay", "actor_delay", 2, whole=True, minimum=1)
    c.same("target_policy_noise", "target_noise", 0.2, minimum=0.0)
    c.same("target_noise_clip", "target_noise_clip", 0.5, minimum=0.0)


def convert_ddpg(c: Conversion) -> None:
    """Convert the arguments of ``stable_baselines3.DDPG``, which those of TD3 are too."""
    _off_policy(c, learning_rate=1e-3, batch_size=256, train_freq=1)
    c.same("tau", "tau", 0.005, above=0.0)
    _action_noise(c)


def _action_noise(c: Conversion) -> None:
    """``noise_type`` and ``noise_std``, in units of [-1, 1] in both. RL Zoo asks whether the type contains a name."""
    entry = c.entry
    given = entry.raw("noise_type")
    process = "ornstein-uhlenbeck" in str(given) and "normal" not in str(given)
    if given is None and "noise_type" not in entry.left_out:
        entry.raw("noise_std")
        c.hyperparameter("exploration_noise", 0.0, "no noise_type")
        entry.note("noise_std", "has no effect without noise_type")
        return
    if given is not None and not process and "normal" not in str(given):
        entry.refuse("noise_type", f"{given!r} is neither normal nor ornstein-uhlenbeck", "takes independent noise")
    if process:
        c.hyperparameter("exploration_noise_type", "ornstein_uhlenbeck", "noise_type")
        c.hyperparameter("ou_dt", 0.01, "Stable-Baselines3's default of dt")
    entry.note("noise_type", f"{given}: exploration_noise, in units of [-1, 1] in both")
    c.same("noise_std", "exploration_noise", 0.0, minimum=0.0)
    if entry.raw("action_noise") is not None:
        entry.refuse("action_noise", "RL Zoo writes noise_type and noise_std", "converts without it")


def convert_dqn(c: Conversion) -> None:
    """Convert the arguments of ``stable_baselines3.DQN``."""
    _q_learning(c, learning_rate=1e-4, fraction=0.1, final_epsilon=0.05)
    c.same("max_grad_norm", "max_grad_norm", 10.0, above=0.0)


def convert_qrdqn(c: Conversion) -> None:
    """Convert the arguments of ``sb3_contrib.QRDQN``; :func:`convert_networks` has the number of quantiles."""
    _q_learning(c, learning_rate=5e-5, fraction=0.005, final_epsilon=0.01)
    if c.entry.raw("max_grad_norm") is None:
        c.hyperparameter("max_grad_norm", None, "sb3-contrib's default")
        c.entry.note("max_grad_norm", "null")
    else:
        c.same("max_grad_norm", "max_grad_norm", 10.0, above=0.0)
    c.hyperparameter("distributional", "quantile", "")


def _q_learning(c: Conversion, *, learning_rate: float, fraction: float, final_epsilon: float) -> None:
    steps_per_update, block = _off_policy(c, learning_rate=learning_rate, batch_size=32, train_freq=4)
    entry = c.entry
    interval = entry.number("target_update_interval", 10_000, whole=True, minimum=1)
    # Environment steps there. It moves between blocks of gradient steps, so not more often than these come.
    updates = max(1, round(max(interval, block) / steps_per_update))
    comment = f"target_update_interval: {interval} steps, {steps_per_update:g} for each gradient step"
    tau = entry.number("tau", 1.0, above=0.0)
    if tau == 1.0:
        c.hyperparameter("target_update_interval", updates, comment)
        entry.note("tau", "1.0: the target network is copied whole")
    else:
        c.hyperparameter("tau", tau, "tau")
        entry.note("target_update_interval", f"{interval}: here the target network follows in each gradient step")
        if updates > 1:
            entry.refuse("tau", f"the target network would follow at every {updates}th gradient step", "copies it")
    c.same("exploration_initial_eps", "initial_epsilon", 1.0, minimum=0.0)
    c.same("exploration_final_eps", "final_epsilon", final_epsilon, minimum=0.0)
    share = entry.number("exploration_fraction", fraction, above=0.0)
    c.hyperparameter("epsilon_steps", max(1, round(share * c.max_steps)), f"exploration_fraction: {share:g} of the run")
    c.hyperparameter("double", False, "Stable-Baselines3 has no double DQN")
    _no_action_noise(c)


def _off_policy(c: Conversion, *, learning_rate: float, batch_size: int, train_freq: int) -> tuple[float, int]:
    """What all three have in common. Returns the steps for a gradient step, and those between blocks of them."""
    entry = c.entry
    batch = c.same("batch_size", "batch_size", batch_size, whole=True, minimum=1)
    c.same("buffer_size", "buffer_size", 1_000_000, whole=True, minimum=2)
    starts = c.same("learning_starts", "buffer_init_steps", 100, whole=True, minimum=0)
    if starts < batch:
        c.differences.append(
            f"learning_starts: Stable-Baselines3 learns from step {starts} on; rlcore from step {batch} on, when a "
            "minibatch is stored."
        )
    steps_per_update, block = _frequency(c, train_freq)
    convert_schedule(c, "learning_rate", "learning_rate", learning_rate)
    if entry.has("n_steps"):
        c.same("n_steps", "n_steps", 1, whole=True, minimum=1)
    entry.raw("optimize_memory_usage")
    entry.note("optimize_memory_usage", "an observation is always stored once here")
    for key in ("replay_buffer_class", "replay_buffer_kwargs"):
        if entry.raw(key) is not None:
            entry.refuse(key, _NO_REPLAY, "draws minibatches uniformly")
    gamma = entry.number("gamma", 0.99, minimum=0.0)
    c.put_in_behavior("reward_signals.extrinsic.gamma", gamma, entry.origin("gamma"))
    return steps_per_update, block


def _frequency(c: Conversion, default: int) -> tuple[float, int]:
    """``train_freq`` and ``gradient_steps``: agent steps for a gradient step, and those between blocks of them."""
    entry = c.entry
    frequency: Any = entry.raw("train_freq", default)
    count = entry.number("gradient_steps", 1, whole=True)
    if isinstance(frequency, list) and len(frequency) == 2 and frequency[1] == "episode":
        if count != -1:
            entry.refuse("train_freq", "gradient steps do not come at the ends of episodes here", "takes the default")
        entry.note("train_freq", f"{frequency}")
        c.differences.append(
            "train_freq: Stable-Baselines3 takes its gradient steps at the end of an episode, one for each step of it; "
            "rlcore takes one after each step."
        )
        c.hyperparameter("steps_per_update", 1, "gradient_steps: -1")
        return 1.0, c.num_envs
    if isinstance(frequency, list) and len(frequency) == 2 and frequency[1] == "step":
        frequency = frequency[0]
    if type(frequency) is not int or frequency < 1:
        entry.refuse("train_freq", f"must be a whole number of at least 1, or [1, episode], not {frequency!r}")
        return 1.0, 1
    if count == 0 or count < -1:
        entry.refuse("gradient_steps", f"must be at least 1, or -1 for one for each step, not {count}")
        return 1.0, 1
    block = frequency * c.num_envs
    updates = block if count == -1 else count
    comment = f"train_freq ({frequency}) x n_envs ({c.num_envs}) / gradient_steps ({count})"
    ratio = block / updates
    c.hyperparameter("steps_per_update", int(ratio) if ratio.is_integer() else ratio, comment)
    if updates > 1 and block > 1:
        c.hyperparameter("gradient_steps", updates, f"after every {block} steps")
    return ratio, block


def _temperature(c: Conversion) -> None:
    """``ent_coef``: ``auto``, ``auto_0.1``, or a number that stays."""
    given = c.entry.raw("ent_coef", "auto")
    if isinstance(given, str) and (auto := _AUTO.fullmatch(given.strip())):
        c.hyperparameter("init_entcoef", float(auto["initial"] or 1.0), f"ent_coef: {given}")
        c.hyperparameter("learn_entcoef", True, "")
        return
    c.same("ent_coef", "init_entcoef", 1.0, above=0.0)
    c.hyperparameter("learn_entcoef", False, "ent_coef is a number")


def _no_action_noise(c: Conversion) -> None:
    for key in ("noise_type", "noise_std", "action_noise"):
        if c.entry.raw(key) is not None:
            c.entry.refuse(key, f"the trainer {c.algorithm} adds no noise to actions", "adds none")
