"""The keys of Stable-Baselines3's algorithms that are more than a number with another name here."""

from __future__ import annotations

import re
from typing import Any

from rlcore_migrate.zoo.conversion import Conversion

__all__ = ["convert_algorithm"]

_AUTO = re.compile(r"auto(?:_(?P<initial>\d[\d.]*(?:e[+-]?\d+)?))?")


def convert_algorithm(c: Conversion) -> None:
    """Convert the arguments of the algorithm's constructor."""
    for key, value in c.facts("fixed").items():
        c.put(f"hyperparameters.{key}", value, f"as {c.algorithm} of Stable-Baselines3")
    c.apply(c.entry, *c.facts("rules"))
    if c.algorithm == "ppo":
        _rollouts(c)
        _value_clip(c)
        return
    steps, block = _updates(c)
    if c.algorithm == "sac":
        _temperature(c)
    elif c.algorithm in ("td3", "ddpg"):
        _action_noise(c)
    else:
        _exploration(c, steps, block)


# ---------------------------------------------------------------- PPO


def _rollouts(c: Conversion) -> None:
    """``n_steps`` and ``batch_size``: what is collected for an update, and what becomes of parts that are left over."""
    rollout = c.values["n_steps"] * c.values["n_envs"]
    batch_size = c.values["batch_size"]
    max_steps = c.values["n_timesteps"]
    c.put("hyperparameters.buffer_size", rollout, "n_steps ({n_steps}) x n_envs ({n_envs})".format(**c.values))
    if rollout < 2:
        c.entry.refuse("n_steps", "n_steps x n_envs must be at least 2, as in Stable-Baselines3")
    normalized = c.entry.flag("normalize_advantage", True) and batch_size > 1
    normalization = "minibatch" if normalized else "none"
    c.put("hyperparameters.advantage_normalization", normalization, c.entry.origin("normalize_advantage"))
    if c.falling:
        c.differences.append(
            f"{', '.join(c.falling)}: Stable-Baselines3 takes the value of the step where a rollout ends, and learns "
            "nothing from the last one; rlcore takes that of the step where the rollout began."
        )
    if rest := max_steps % rollout:
        learned = "" if rest >= batch_size else ", too few to learn from"
        c.differences.append(
            f"n_timesteps: Stable-Baselines3 finishes its last rollout, {max_steps - rest + rollout} steps in all; "
            f"rlcore stops at {max_steps}, and its last rollout has {rest} steps{learned}."
        )
    if batch_size < rollout and (part := rollout % batch_size):
        c.differences.append(
            f"batch_size: the last minibatch of an epoch has {part} transitions in Stable-Baselines3; in rlcore all "
            f"have the same size, about {batch_size}."
        )


def _value_clip(c: Conversion) -> None:
    if c.entry.raw("clip_range_vf") is None:
        c.entry.note("clip_range_vf", "null: values are not clipped")
        return
    clip, falls = c.entry.schedule("clip_range_vf", 0.2)
    if falls:
        c.entry.refuse("clip_range_vf", "value_clip has no schedule", "does not clip values")
    c.put("hyperparameters.value_clip", clip, "clip_range_vf")
    c.differences.append(
        "clip_range_vf: Stable-Baselines3 learns from the clipped value alone; rlcore learns from the larger loss of "
        "the two, as the code of PPO's authors does."
    )


# ---------------------------------------------------------------- algorithms with a replay buffer


def _updates(c: Conversion) -> tuple[float, int]:
    """``train_freq`` and ``gradient_steps``: agent steps for a gradient step, and those between blocks of them."""
    entry = c.entry
    starts = c.values["learning_starts"]
    batch_size = c.values["batch_size"]
    if starts < batch_size:
        c.differences.append(
            f"learning_starts: Stable-Baselines3 learns from step {starts} on; rlcore from step {batch_size} on, when "
            "a minibatch is stored."
        )
    frequency: Any = entry.raw("train_freq", c.facts("train_freq"))
    count = entry.number("gradient_steps", 1, minimum=-1)
    envs = c.values["n_envs"]
    if frequency == [1, "episode"]:
        if count != -1:
            entry.refuse("train_freq", "gradient steps do not come at the ends of episodes here", "takes the default")
        c.differences.append(
            "train_freq: Stable-Baselines3 takes its gradient steps at the end of an episode, one for each step of it; "
            "rlcore takes one after each step."
        )
        entry.note("train_freq", f"{frequency}")
        frequency = 1
    if isinstance(frequency, list) and frequency[1:] == ["step"]:
        frequency = frequency[0]
    if type(frequency) is not int or frequency < 1:
        entry.refuse("train_freq", f"must be a whole number of at least 1, or [1, episode], not {frequency!r}")
        frequency = 1
    if count == 0:
        entry.refuse("gradient_steps", f"must be at least 1, or -1 for one for each step, not {count}")
    block = frequency * envs
    updates = count if count > 0 else block
    ratio = block / updates
    comment = f"train_freq ({frequency}) x n_envs ({envs}) / gradient_steps ({count})"
    c.put("hyperparameters.steps_per_update", int(ratio) if ratio.is_integer() else ratio, comment)
    if updates > 1 and block > 1 and not entry.notes.get("train_freq"):
        c.put("hyperparameters.gradient_steps", updates, f"after every {block} steps")
    return ratio, block


def _temperature(c: Conversion) -> None:
    """``ent_coef``: ``auto``, ``auto_0.1``, or a number that stays; and ``target_entropy``."""
    given = c.entry.raw("ent_coef", "auto")
    auto = _AUTO.fullmatch(given.strip()) if isinstance(given, str) else None
    initial = float(auto["initial"] or 1.0) if auto else c.entry.number("ent_coef", 1.0, above=0.0)
    c.put("hyperparameters.init_entcoef", initial, f"ent_coef: {given}")
    c.put("hyperparameters.learn_entcoef", auto is not None)
    if c.entry.raw("target_entropy", "auto") == "auto":
        entropy = -1.0
        comment = "target_entropy: auto, -1 for each part of an action"
    else:
        actions = len(c.world.half_ranges or (1.0,))
        entropy = c.entry.number("target_entropy", -1.0) / actions
        comment = f"target_entropy of {actions} parts of an action"
    c.put("hyperparameters.continuous_target_entropy", entropy, comment)


def _action_noise(c: Conversion) -> None:
    """``noise_type`` and ``noise_std``, in units of [-1, 1] in both. RL Zoo asks whether the type contains a name."""
    entry = c.entry
    given = entry.raw("noise_type")
    entry.raw("noise_std")
    if given is None and "noise_type" not in entry.left_out:
        c.put("hyperparameters.exploration_noise", 0.0, "no noise_type")
        entry.note("noise_std", "has no effect without noise_type")
        return
    deviation = entry.number("noise_std", 0.0, minimum=0.0)
    c.put("hyperparameters.exploration_noise", deviation, entry.origin("noise_std"))
    entry.note("noise_type", f"{given}: exploration_noise, in units of [-1, 1] in both")
    if given is None or "normal" in str(given):
        return
    if "ornstein-uhlenbeck" not in str(given):
        entry.refuse("noise_type", f"{given!r} is neither normal nor ornstein-uhlenbeck", "takes independent noise")
    c.put("hyperparameters.exploration_noise_type", "ornstein_uhlenbeck", "noise_type")
    c.put("hyperparameters.ou_dt", 0.01, "Stable-Baselines3's default of dt")


def _exploration(c: Conversion, steps: float, block: int) -> None:
    """``exploration_fraction`` of DQN, and how its target network follows."""
    entry = c.entry
    interval = entry.number("target_update_interval", 10_000, minimum=1)
    # Environment steps there. It moves between blocks of gradient steps, so not more often than these come.
    updates = max(1, round(max(interval, block) / steps))
    tau = entry.number("tau", 1.0, above=0.0)
    if tau == 1.0:
        comment = f"target_update_interval: {interval} steps, {steps:g} for each gradient step"
        c.put("hyperparameters.target_update_interval", updates, comment)
        entry.note("tau", "1.0: the target network is copied whole")
    else:
        c.put("hyperparameters.tau", tau, "tau")
        entry.note("target_update_interval", f"{interval}: here the target network follows in each gradient step")
        if updates > 1:
            entry.refuse("tau", f"the target network would follow at every {updates}th gradient step", "copies it")
    share = entry.number("exploration_fraction", c.facts("exploration"), above=0.0)
    steps_of_share = max(1, round(share * c.values["n_timesteps"]))
    c.put("hyperparameters.epsilon_steps", steps_of_share, f"exploration_fraction: {share:g} of the run")
