"""``use_sde``, and the keys of ``policy_kwargs`` about the noise of actions."""

from __future__ import annotations

import math

from rlcore_migrate.zoo.conversion import Conversion

_LOG_STD = "policy_kwargs.log_std_init"
# Keys that gSDE alone uses, but for the first one with PPO.
_OF_SDE = (
    "sde_sample_freq",
    "use_sde_at_warmup",
    _LOG_STD,
    "policy_kwargs.use_expln",
    "policy_kwargs.full_std",
    "policy_kwargs.clip_mean",
    "policy_kwargs.squash_output",
)


def convert_noise(c: Conversion) -> None:
    """``use_sde``: state-dependent exploration (gSDE); and ``log_std_init``, the scale of any noise of PPO."""
    on = c.flag("use_sde", False)
    if on and c.facts("sde") is not None and c.world.half_ranges is not None:
        c.note("use_sde_at_warmup", "the first random actions are uniform here")
        c.raw("use_sde_at_warmup")
        _state_dependent_noise(c)
        return
    if on:
        c.refuse(
            "use_sde",
            "state-dependent exploration (gSDE) is for continuous actions of ppo and sac",
            "draws the noise of each step independently, with the default deviation of Stable-Baselines3",
        )
    left = "use_sde" in c.left_out
    left_on = left and c.values["use_sde"] is True
    for key in _OF_SDE:
        value = c.raw(key)
        if c.has(key) and (left_on or (left and "." not in key)):
            c.left_out[key] = value
        elif key != _LOG_STD or c.algorithm != "ppo" or left_on:
            c.note(key, f"{value!r}, which has no effect in Stable-Baselines3 without use_sde")
    if c.algorithm == "ppo":
        source = "default of log_std_init" if left_on else c.origin(_LOG_STD)
        _independent_noise(c, 0.0 if left_on else c.number(_LOG_STD, 0.0), source)


def _independent_noise(c: Conversion, log_std: float, source: str) -> None:
    """The scale of PPO's noise, which Stable-Baselines3 has in units of the action."""
    halves = c.world.half_ranges
    if halves is None:
        c.note(_LOG_STD, f"{log_std:g}, which has no effect with discrete actions")
        return
    value, units = _in_half_ranges(log_std, halves)
    c.put("hyperparameters.initial_log_std", value, f"{source}, {log_std:g}{units}")
    if len(set(halves)) > 1:
        c.differ(
            "policy_kwargs: log_std_init is one number for all parts of an action in Stable-Baselines3, in units of "
            f"the action. The parts have the half ranges {', '.join(f'{half:g}' for half in dict.fromkeys(halves))}; "
            "initial_log_std is for their geometric mean."
        )
    if set(halves) != {1.0} or set(c.world.middles or ()) != {0.0}:
        c.differ(
            "actions: the mean of an action is the network's output in Stable-Baselines3; in rlcore the output is in "
            "[-1, 1] and is stretched to the bounds of the action."
        )


def _in_half_ranges(log_std: float, halves: tuple[float, ...]) -> tuple[float, str]:
    """A logarithm in units of the action, in units of half its range; and what a comment says of the difference."""
    mean = math.exp(sum(map(math.log, halves)) / len(halves))
    units = "" if mean == 1.0 else f", in units of half the range: {log_std:g} - log({mean:g})"
    return round(log_std - math.log(mean), 6) + 0.0, units


def _state_dependent_noise(c: Conversion) -> None:
    """GSDE (Raffin et al. 2021, arXiv:2005.05719), with the keys of ``policy_kwargs`` that are of it."""
    of_ppo = c.algorithm == "ppo"
    block = "network_settings.action_distribution"
    distribution, usual_scale, rollout, usual_rollout = c.facts("sde")
    c.put(block, distribution, "use_sde: state-dependent exploration")
    log_std = c.number(_LOG_STD, usual_scale)
    comment = c.origin(_LOG_STD)
    if of_ppo:
        log_std, units = _in_half_ranges(log_std, c.world.half_ranges or ())
        comment += units
    c.put(f"{block}_settings.initial_log_std", log_std, comment)
    every = c.number("sde_sample_freq", -1)
    source = c.origin("sde_sample_freq")
    if every < 1:
        frequency = c.raw(rollout, usual_rollout)
        every = frequency if isinstance(frequency, int) else 1
        source += f": a new matrix after each {rollout}"
    c.put(f"{block}_settings.resample_every", every, source)
    c.apply("sde", distribution)
    if not of_ppo:
        c.differ(
            "use_sde: Stable-Baselines3 also draws a new noise matrix at each gradient step; here agents keep theirs "
            "for resample_every steps of the environment."
        )
