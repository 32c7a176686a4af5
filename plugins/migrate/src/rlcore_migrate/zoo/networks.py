"""``policy`` and ``policy_kwargs``: the networks."""

from __future__ import annotations

import math

from rlcore_migrate.zoo.conversion import Conversion
from rlcore_migrate.zoo.entry import Entry, rules
from rlcore_migrate.zoo.literals import Reference

__all__ = ["convert_networks"]

_FEATURES = {"MlpPolicy": 0, "CnnPolicy": 512, "MultiInputPolicy": 256}  # of the CNN of each policy
_OF_SDE = ("log_std_init", "use_expln", "full_std", "clip_mean", "squash_output")  # used by gSDE alone, but for PPO
_ADAM_AFTER_KWARGS = 1e-8  # with optimizer_kwargs, PPO's own default of epsilon does not hold


def convert_networks(c: Conversion) -> None:
    """``policy`` and ``policy_kwargs``. The names of the latter's keys are those of the policies' constructors."""
    kwargs = c.entry.mapping("policy_kwargs")
    policy = _policy(c)
    images = policy == "CnnPolicy" or (policy == "MultiInputPolicy" and c.world.images)
    actor, critic, comment = _widths(c, kwargs, images)
    _put_widths(c, "network_settings", actor, comment, _features(kwargs, policy) if images else 0)
    of_ppo = c.algorithm == "ppo"
    shared = kwargs.flag("share_features_extractor", of_ppo)
    kwargs.note("share_features_extractor", "has an effect with images alone")
    one_body = of_ppo and shared and images and not actor and not critic
    if critic != actor and not one_body:
        _put_widths(c, "network_settings.critic", critic, "policy_kwargs: net_arch", 0)
    _activation(c, kwargs)
    orthogonal = of_ppo and kwargs.flag("ortho_init", True)
    source = kwargs.origin("ortho_init") if of_ppo else "PyTorch's own initial weights, as in Stable-Baselines3"
    c.put("network_settings.init", "orthogonal" if orthogonal else "uniform", source)
    if one_body:
        c.put("hyperparameters.shared_critic", True, kwargs.origin("share_features_extractor"))
    if images:
        _images(c, kwargs, policy, shared and not one_body)
    elif c.world.images and not c.entry.has("env_wrapper"):
        c.differences.append(
            "policy: MlpPolicy takes the pixels of an image side by side; rlcore has an encoder of images."
        )
    c.apply(kwargs, *c.facts("policy_rules"))
    _optimizer(c, kwargs)
    _noise(c, kwargs)
    kwargs.finish()


def _policy(c: Conversion) -> str:
    policy = c.entry.raw("policy", "MlpPolicy")
    if policy not in list(_FEATURES):
        c.entry.refuse(
            "policy",
            f"{policy!r} is none of {', '.join(_FEATURES)}; the network follows from network_settings",
            "takes MlpPolicy",
        )
        return "MlpPolicy"
    c.entry.note("policy", f"{policy}: the networks follow from the spaces and network_settings")
    return str(policy)


def _images(c: Conversion, kwargs: Entry, policy: str, shared: bool) -> None:
    """Say what is otherwise about the CNN of a policy. ``shared``: the critic has it too, before layers of its own."""
    c.put("network_settings.vis_encode_type", "nature_cnn", policy)
    c.differences.append(
        f"policy: the CNN of {policy} has ReLU and, with ortho_init, orthogonal weights; nature_cnn of rlcore has "
        "leaky ReLU and PyTorch's own initial weights."
    )
    if shared and c.algorithm == "ppo":
        c.differences.append(
            "policy_kwargs: Stable-Baselines3 has one CNN for policy and values before layers of their own; in rlcore "
            "each has a CNN of its own."
        )
    elif shared:
        reason = "policy and critics have encoders of their own here"
        kwargs.refuse("share_features_extractor", reason, "gives each its own")
    if c.facts("critic") == "qf":
        c.differences.append(
            "policy: both critics have one CNN in Stable-Baselines3; in rlcore each has a CNN of its own."
        )


def _features(kwargs: Entry, policy: str) -> int:
    """The features of the CNN."""
    key = "features_dim" if policy == "CnnPolicy" else "cnn_output_dim"
    given = kwargs.raw("features_extractor_kwargs") or {}
    width = given.get(key, _FEATURES[policy]) if isinstance(given, dict) else None
    if not isinstance(width, int) or set(given) - {key}:
        kwargs.refuse("features_extractor_kwargs", f"only {key}, a whole number, can be converted", "takes the default")
        return _FEATURES[policy]
    return width


def _widths(c: Conversion, kwargs: Entry, images: bool) -> tuple[list[int], list[int], str]:
    """Widths of the hidden layers of policy and critic, and where they come from."""
    kwargs.note("features_extractor_kwargs", "hidden_units, with images alone")
    default = c.facts("widths")[images]
    given = kwargs.raw("net_arch")
    if given is None:
        return default, default, kwargs.origin("net_arch")
    critic = c.facts("critic")
    if c.algorithm == "ppo" and isinstance(given, list) and len(given) == 1 and isinstance(given[0], dict):
        given = given[0]  # the form of Stable-Baselines3 before 1.8
    found = [given, given]
    if critic and isinstance(given, dict) and set(given) <= {"pi", critic}:
        found = [given.get("pi", []), given.get(critic, [])]
    if not all(isinstance(each, list) and all(type(width) is int and width > 0 for width in each) for each in found):
        form = "a list of widths" + (f", or dict(pi=[...], {critic}=[...])" if critic else "")
        kwargs.refuse("net_arch", f"must be {form}, not {given!r}", "takes the default")
        return default, default, ""
    return found[0], found[1], "policy_kwargs: net_arch"


def _put_widths(c: Conversion, block: str, widths: list[int], comment: str, features: int) -> None:
    """Write widths as ``hidden_units`` and ``num_layers`` if they are equal. ``features`` are those of a CNN."""
    units = {*widths, features} - {0}
    if features:
        c.put(f"{block}.hidden_units", features, "features of the CNN")
    if len(units) > 1:
        c.put(f"{block}.hidden_layers", widths, comment)
        return
    if widths:
        c.put(f"{block}.hidden_units", widths[0], comment)
    c.put(f"{block}.num_layers", len(widths), "" if widths else comment)


def _activation(c: Conversion, kwargs: Entry) -> None:
    given = kwargs.raw("activation_fn")
    known = rules()["activations"]
    value = c.facts("activation")
    comment = kwargs.origin("activation_fn")
    if given is not None:
        name = (given.name if isinstance(given, Reference) else str(given)).rpartition(".")[2]
        if name not in known:
            kwargs.refuse("activation_fn", f"{name} is none of {', '.join(known)}", f"takes {value}")
        value = known.get(name)
        comment += f": {name}"
    c.put("network_settings.activation", value, comment)


def _optimizer(c: Conversion, kwargs: Entry) -> None:
    """``optimizer_class`` and ``optimizer_kwargs``: Adam."""
    of_class = kwargs.raw("optimizer_class")
    kwargs.note("optimizer_class", "Adam, as here")
    if of_class is not None and not (isinstance(of_class, Reference) and of_class.name.endswith(".Adam")):
        shown = of_class.name if isinstance(of_class, Reference) else repr(of_class)
        kwargs.refuse("optimizer_class", f"{shown} is not in rlcore; an optimizer is a plugin", "takes Adam")
    given = kwargs.raw("optimizer_kwargs")
    kwargs.note("optimizer_kwargs", f"{given!r}, of which eps is adam_epsilon")
    if given is None:
        epsilon = c.facts("adam")
        comment = "Stable-Baselines3's default of epsilon"
        if c.algorithm == "qrdqn" and of_class is None:
            epsilon = 0.01 / c.values["batch_size"]
            comment = "sb3-contrib's default of epsilon, 0.01 / batch_size"
        c.put("hyperparameters.adam_epsilon", epsilon, comment)
        return
    if not isinstance(given, dict):
        kwargs.refuse("optimizer_kwargs", f"must be a mapping, not {given!r}")
        return
    for key, value in given.items():
        if key != "eps" and (key, value) != ("weight_decay", 0):
            kwargs.refuse("optimizer_kwargs", f"{key} is not a key of rlcore's Adam", "takes Adam's defaults")
    epsilon = given.get("eps", _ADAM_AFTER_KWARGS)
    if type(epsilon) not in (int, float) or epsilon <= 0:
        kwargs.refuse("optimizer_kwargs", f"eps must be a number above 0, not {epsilon!r}")
        return
    c.put("hyperparameters.adam_epsilon", float(epsilon), "policy_kwargs: optimizer_kwargs: eps, or its default")


# ---------------------------------------------------------------- noise of actions


def _noise(c: Conversion, kwargs: Entry) -> None:
    """``use_sde``: state-dependent exploration (gSDE); and ``log_std_init``, the scale of any noise of PPO."""
    entry = c.entry
    on = entry.flag("use_sde", False)
    left = "use_sde" in entry.left_out
    if on and (c.facts("sde") is None or c.world.half_ranges is None):
        entry.refuse(
            "use_sde",
            "state-dependent exploration (gSDE) is for continuous actions of ppo and sac",
            "draws the noise of each step independently, with the default deviation of Stable-Baselines3",
        )
    elif on:
        entry.note("use_sde_at_warmup", "the first random actions are uniform here")
        _state_dependent_noise(c, kwargs)
        return
    left_on = left and entry.values["use_sde"] is True
    for block, keys in ((entry, ("sde_sample_freq", "use_sde_at_warmup")), (kwargs, _OF_SDE)):
        for key in keys:
            value = block.raw(key)
            of_ppo = key == "log_std_init" and c.algorithm == "ppo" and not left_on
            if block.has(key) and (left_on or (left and block is entry)):
                entry.left_out[f"policy_kwargs.{key}" if block is kwargs else key] = value
            elif not of_ppo:
                block.note(key, f"{value!r}, which has no effect in Stable-Baselines3 without use_sde")
    if c.algorithm != "ppo":
        return
    log_std = 0.0 if left_on else kwargs.number("log_std_init", 0.0)
    halves = c.world.half_ranges
    if halves is None:
        kwargs.note("log_std_init", f"{log_std:g}, which has no effect with discrete actions")
        return
    value, units = _in_half_ranges(log_std, halves)
    source = "default of log_std_init" if left_on else kwargs.origin("log_std_init")
    c.put("hyperparameters.initial_log_std", value, f"{source}, {log_std:g}{units}")
    if len(set(halves)) > 1:
        c.differences.append(
            "policy_kwargs: log_std_init is one number for all parts of an action in Stable-Baselines3, in units of "
            f"the action. The parts have the half ranges {', '.join(f'{half:g}' for half in dict.fromkeys(halves))}; "
            "initial_log_std is for their geometric mean."
        )
    if set(halves) != {1.0} or set(c.world.middles or ()) != {0.0}:
        c.differences.append(
            "actions: the mean of an action is the network's output in Stable-Baselines3; in rlcore the output is in "
            "[-1, 1] and is stretched to the bounds of the action."
        )


def _in_half_ranges(log_std: float, halves: tuple[float, ...]) -> tuple[float, str]:
    """A logarithm in units of the action, in units of half its range; and what a comment says of the difference."""
    mean = math.exp(sum(map(math.log, halves)) / len(halves))
    units = "" if mean == 1.0 else f", in units of half the range: {log_std:g} - log({mean:g})"
    return round(log_std - math.log(mean), 6) + 0.0, units


def _state_dependent_noise(c: Conversion, kwargs: Entry) -> None:
    """GSDE (Raffin et al. 2021, arXiv:2005.05719), with the keys of ``policy_kwargs`` that are of it."""
    of_ppo = c.algorithm == "ppo"
    block = "network_settings.action_distribution"
    distribution, usual_scale, rollout, usual_rollout = c.facts("sde")
    c.put(block, distribution, "use_sde: state-dependent exploration")
    log_std = kwargs.number("log_std_init", usual_scale)
    comment = kwargs.origin("log_std_init")
    if of_ppo:
        log_std, units = _in_half_ranges(log_std, c.world.half_ranges or ())
        comment += units
    c.put(f"{block}_settings.initial_log_std", log_std, comment)
    every = c.entry.number("sde_sample_freq", -1)
    source = c.entry.origin("sde_sample_freq")
    if every < 1:
        frequency = c.entry.raw(rollout, usual_rollout)
        every = frequency if isinstance(frequency, int) else 1
        source += f": a new matrix after each {rollout}"
    c.put(f"{block}_settings.resample_every", every, source)
    c.apply(kwargs, "sde", distribution)
    if of_ppo:
        return
    c.differences.append(
        "use_sde: Stable-Baselines3 also draws a new noise matrix at each gradient step; here agents keep theirs for "
        "resample_every steps of the environment."
    )
