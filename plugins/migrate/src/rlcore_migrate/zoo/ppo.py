"""PPO of Stable-Baselines3 as ``trainer_type: ppo``."""

from __future__ import annotations

from rlcore_migrate.zoo.conversion import Conversion, convert_schedule

__all__ = ["convert_ppo"]


def convert_ppo(c: Conversion) -> None:
    """Convert the arguments of ``stable_baselines3.PPO``."""
    entry = c.entry
    n_steps = entry.number("n_steps", 2048, whole=True, minimum=1)
    rollout = n_steps * c.num_envs
    source = f"n_steps ({n_steps}{'' if entry.has('n_steps') else ', the default'})"
    c.put_in_behavior("time_horizon", n_steps, f"{source}: values are bootstrapped where a rollout ends")
    c.hyperparameter("buffer_size", rollout, f"{source} x n_envs ({c.num_envs})")
    if rollout < 2:
        entry.refuse("n_steps", "n_steps x n_envs must be at least 2, as in Stable-Baselines3")
    batch_size = c.same("batch_size", "batch_size", 64, whole=True, minimum=1)
    c.same("n_epochs", "num_epoch", 10, whole=True, minimum=1)
    _part_rollouts(c, rollout, batch_size)
    convert_schedule(c, "learning_rate", "learning_rate", 3e-4)
    convert_schedule(c, "clip_range", "epsilon", 0.2)
    c.same("ent_coef", "beta", 0.0, minimum=0.0)
    c.hyperparameter("beta_schedule", "constant", "")
    c.same("gae_lambda", "lambd", 0.95, minimum=0.0)
    c.same("vf_coef", "value_coefficient", 0.5, minimum=0.0)
    c.same("max_grad_norm", "max_grad_norm", 0.5, above=0.0)
    each = entry.flag("normalize_advantage", True)
    normalization = "minibatch" if each and batch_size > 1 else "none"
    c.hyperparameter("advantage_normalization", normalization, entry.origin("normalize_advantage"))
    _value_clip(c)
    if c.falling:
        c.differences.append(
            f"{', '.join(c.falling)}: Stable-Baselines3 takes the value of the step where a rollout ends, and learns "
            "nothing from the last one; rlcore takes that of the step where the rollout began."
        )
    entry.note("target_kl", "null: an update takes all its epochs")
    if entry.raw("target_kl") is not None:
        c.same("target_kl", "target_kl", 0.01, above=0.0)
    for key in ("rollout_buffer_class", "rollout_buffer_kwargs"):
        if entry.raw(key) is not None:
            entry.refuse(key, "another rollout is a trainer of your own here", "takes the one of PPO")
    gamma = entry.number("gamma", 0.99, minimum=0.0)
    c.put_in_behavior("reward_signals.extrinsic.gamma", gamma, entry.origin("gamma"))


def _part_rollouts(c: Conversion, rollout: int, batch_size: int) -> None:
    """Say what becomes of a last rollout that is shorter, and of minibatches that do not divide a rollout."""
    if rest := c.max_steps % rollout:
        learned = "" if rest >= batch_size else ", too few to learn from"
        c.differences.append(
            f"n_timesteps: Stable-Baselines3 finishes its last rollout, {c.max_steps - rest + rollout} steps in all; "
            f"rlcore stops at {c.max_steps}, and its last rollout has {rest} steps{learned}."
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
        return
    c.hyperparameter("value_clip", clip, "clip_range_vf")
    c.differences.append(
        "clip_range_vf: Stable-Baselines3 learns from the clipped value alone; rlcore learns from the larger loss of "
        "the two, as the code of PPO's authors does."
    )
