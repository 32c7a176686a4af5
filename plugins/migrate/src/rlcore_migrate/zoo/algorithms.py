"""The keys of Stable-Baselines3's algorithms that are more than a number with another name here."""

from __future__ import annotations

from typing import Any

from rlcore_migrate.zoo.conversion import Conversion
from rlcore_migrate.zoo.literals import AUTO


def convert_algorithm(c: Conversion) -> None:
    """Convert the arguments of the algorithm's constructor."""
    for key, value in c.facts("fixed").items():
        c.put(f"hyperparameters.{key}", value, f"as {c.algorithm} of Stable-Baselines3")
    c.apply(*c.facts("rules"))
    if c.algorithm == "ppo":
        _rollouts(c)
        c.apply("value_clip")
        return
    steps, block = _updates(c)
    if c.algorithm == "sac":
        _temperature(c)
    elif c.algorithm in ("td3", "ddpg"):
        _action_noise(c)
    else:
        _exploration(c, steps, block)


def _rollouts(c: Conversion) -> None:
    """``n_steps`` and ``batch_size``: what is collected for an update, and what becomes of parts that are left over."""
    rollout = c.numbers["n_steps"] * c.numbers["n_envs"]
    batch_size = c.numbers["batch_size"]
    max_steps = c.numbers["n_timesteps"]
    c.put("hyperparameters.buffer_size", rollout, "n_steps ({n_steps}) x n_envs ({n_envs})".format(**c.numbers))
    if rollout < 2:
        c.refuse("n_steps", "n_steps x n_envs must be at least 2, as in Stable-Baselines3")
    normalized = c.flag("normalize_advantage", True) and batch_size > 1
    normalization = "minibatch" if normalized else "none"
    c.put("hyperparameters.advantage_normalization", normalization, c.origin("normalize_advantage"))
    if c.falling:
        c.differ(
            f"{', '.join(c.falling)}: Stable-Baselines3 takes the value of the step where a rollout ends, and learns "
            "nothing from the last one; rlcore takes that of the step where the rollout began."
        )
    rest = max_steps % rollout
    if rest:
        learned = "" if rest >= batch_size else ", too few to learn from"
        c.differ(
            f"n_timesteps: Stable-Baselines3 finishes its last rollout, {max_steps - rest + rollout} steps in all; "
            f"rlcore stops at {max_steps}, and its last rollout has {rest} steps{learned}."
        )
    part = rollout % batch_size
    if part and batch_size < rollout:
        c.differ(
            f"batch_size: the last minibatch of an epoch has {part} transitions in Stable-Baselines3; in rlcore all "
            f"have the same size, about {batch_size}."
        )


# ---------------------------------------------------------------- algorithms with a replay buffer


def _updates(c: Conversion) -> tuple[float, int]:
    """``train_freq`` and ``gradient_steps``: agent steps for a gradient step, and those between blocks of them."""
    starts = c.numbers["learning_starts"]
    batch_size = c.numbers["batch_size"]
    if starts < batch_size:
        c.differ(
            f"learning_starts: Stable-Baselines3 learns from step {starts} on; rlcore from step {batch_size} on, when "
            "a minibatch is stored."
        )
    count = c.number("gradient_steps", 1, minimum=-1)
    if count == 0:
        c.refuse("gradient_steps", f"must be at least 1, or -1 for one for each step, not {count}")
    frequency, of_episodes = _train_freq(c, count)
    envs = c.numbers["n_envs"]
    block = frequency * envs
    updates = count if count > 0 else block
    ratio = block / updates
    comment = f"train_freq ({frequency}) x n_envs ({envs}) / gradient_steps ({count})"
    c.put("hyperparameters.steps_per_update", int(ratio) if ratio.is_integer() else ratio, comment)
    if updates > 1 and block > 1 and not of_episodes:
        c.put("hyperparameters.gradient_steps", updates, f"after every {block} steps")
    return ratio, block


def _train_freq(c: Conversion, gradient_steps: int) -> tuple[int, bool]:
    """Steps of an environment between blocks of gradient steps, and whether the blocks come at the ends of episodes."""
    frequency: Any = c.raw("train_freq", c.facts("train_freq"))
    if frequency == [1, "episode"]:
        if gradient_steps != -1:
            c.refuse("train_freq", "gradient steps do not come at the ends of episodes here", "takes the default")
        c.differ(
            "train_freq: Stable-Baselines3 takes its gradient steps at the end of an episode, one for each step of it; "
            "rlcore takes one after each step."
        )
        c.note("train_freq", f"{frequency}")
        return 1, True
    if isinstance(frequency, list) and frequency[1:] == ["step"]:
        frequency = frequency[0]
    if type(frequency) is int and frequency > 0:
        return frequency, False
    c.refuse("train_freq", f"must be a whole number of at least 1, or [1, episode], not {frequency!r}")
    return 1, False


def _temperature(c: Conversion) -> None:
    """``ent_coef``: ``auto``, ``auto_0.1``, or a number that stays; and ``target_entropy``."""
    written = c.raw("ent_coef", "auto")
    auto = AUTO.fullmatch(written.strip()) if isinstance(written, str) else None
    initial = float(auto["initial"] or 1.0) if auto else c.number("ent_coef", 1.0, above=0.0)
    c.put("hyperparameters.init_entcoef", initial, f"ent_coef: {written}")
    c.put("hyperparameters.learn_entcoef", auto is not None)
    entropy = -1.0
    comment = "target_entropy: auto, -1 for each part of an action"
    if c.raw("target_entropy", "auto") != "auto":
        actions = len(c.world.half_ranges or (1.0,))
        entropy = c.number("target_entropy", -1.0) / actions
        comment = f"target_entropy of {actions} parts of an action"
    c.put("hyperparameters.continuous_target_entropy", entropy, comment)


def _action_noise(c: Conversion) -> None:
    """``noise_type`` and ``noise_std``, in units of [-1, 1] in both. RL Zoo asks whether the type contains a name."""
    kind = c.raw("noise_type")
    if kind is None and "noise_type" not in c.left_out:
        c.put("hyperparameters.exploration_noise", 0.0, "no noise_type")
        c.raw("noise_std")
        c.note("noise_std", "has no effect without noise_type")
        return
    deviation = c.number("noise_std", 0.0, minimum=0.0)
    c.put("hyperparameters.exploration_noise", deviation, c.origin("noise_std"))
    c.note("noise_type", f"{kind}: exploration_noise, in units of [-1, 1] in both")
    if kind is None or "normal" in str(kind):
        return
    if "ornstein-uhlenbeck" not in str(kind):
        c.refuse("noise_type", f"{kind!r} is neither normal nor ornstein-uhlenbeck", "takes independent noise")
    c.put("hyperparameters.exploration_noise_type", "ornstein_uhlenbeck", "noise_type")
    c.put("hyperparameters.ou_dt", 0.01, "Stable-Baselines3's default of dt")


def _exploration(c: Conversion, steps: float, block: int) -> None:
    """``exploration_fraction`` of DQN, and how its target network follows."""
    interval = c.number("target_update_interval", 10_000, minimum=1)
    # Environment steps there. It moves between blocks of gradient steps, so not more often than these come.
    updates = max(1, round(max(interval, block) / steps))
    tau = c.number("tau", 1.0, above=0.0)
    if tau == 1.0:
        comment = f"target_update_interval: {interval} steps, {steps:g} for each gradient step"
        c.put("hyperparameters.target_update_interval", updates, comment)
        c.note("tau", "1.0: the target network is copied whole")
    else:
        c.put("hyperparameters.tau", tau, "tau")
        c.note("target_update_interval", f"{interval}: here the target network follows in each gradient step")
        if updates > 1:
            c.refuse("tau", f"the target network would follow at every {updates}th gradient step", "copies it")
    share = c.number("exploration_fraction", c.facts("exploration"), above=0.0)
    epsilon_steps = max(1, round(share * c.numbers["n_timesteps"]))
    c.put("hyperparameters.epsilon_steps", epsilon_steps, f"exploration_fraction: {share:g} of the run")
