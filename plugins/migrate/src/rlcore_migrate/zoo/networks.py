"""``policy`` and ``policy_kwargs``: the networks."""

from __future__ import annotations

import math
from typing import Any

from rlcore_migrate.zoo.conversion import Conversion, convert_optimizer
from rlcore_migrate.zoo.entry import Entry
from rlcore_migrate.zoo.literals import Reference

__all__ = ["WITH_SDE", "convert_networks"]

# Classes of torch.nn, and the values of network_settings.activation that compute the same.
ACTIVATIONS = {
    "Tanh": "tanh",
    "ReLU": "relu",
    "LeakyReLU": "leaky_relu",
    "ELU": "elu",
    "SELU": "selu",
    "GELU": "gelu",
    "SiLU": "swish",
    "Mish": "mish",
    "Softplus": "softplus",
    "Sigmoid": "sigmoid",
}
POLICIES = ("MlpPolicy", "CnnPolicy", "MultiInputPolicy")
# Widths of the hidden layers by default, with vectors and after a CNN.
_WIDTHS = {
    "ppo": ([64, 64], []),
    "sac": ([256, 256], [256, 256]),
    "td3": ([400, 300], [256, 256]),
    "ddpg": ([400, 300], [256, 256]),
    "dqn": ([64, 64], []),
    "qrdqn": ([64, 64], []),
}
_FEATURES = {"CnnPolicy": 512, "MultiInputPolicy": 256}  # of the CNN
_CRITIC = {"ppo": "vf", "sac": "qf", "td3": "qf", "ddpg": "qf", "dqn": None, "qrdqn": None}
_OF_SDE = ("log_std_init", "use_expln", "full_std", "clip_mean", "squash_output")  # used by gSDE alone, but for PPO
WITH_SDE = ("ppo", "sac")  # algorithms that have gSDE
_KNOWN = (
    "net_arch", "activation_fn", "ortho_init", "log_std_init", "share_features_extractor", "features_extractor_class",
    "features_extractor_kwargs", "normalize_images", "optimizer_class", "optimizer_kwargs", "n_critics", "n_quantiles",
    *_OF_SDE,
)  # fmt: skip


def convert_networks(c: Conversion) -> None:
    """``policy`` and ``policy_kwargs``. The names of the latter's keys are those of the policies' constructors."""
    kwargs = c.entry.mapping("policy_kwargs")
    policy = _policy(c)
    images = policy == "CnnPolicy" or (policy == "MultiInputPolicy" and c.world.images)
    actor, critic, comment = _widths(c, kwargs, images)
    _put_widths(c, "network_settings", actor, comment, features=_features(kwargs, policy) if images else None)
    shared = c.algorithm == "ppo" and kwargs.flag("share_features_extractor", True)
    if c.algorithm != "ppo" and kwargs.flag("share_features_extractor", False) and images:
        kwargs.refuse(
            "share_features_extractor", "policy and critics have encoders of their own here", "gives each its own"
        )
    kwargs.note("share_features_extractor", "has an effect with images alone")
    if policy == "MlpPolicy" and c.world.images and not c.entry.has("env_wrapper"):
        c.differences.append(
            "policy: MlpPolicy takes the pixels of an image side by side; rlcore has an encoder of images."
        )
    one_body = images and shared and not actor and not critic
    if critic != actor and not one_body:
        _put_widths(c, "network_settings.critic", critic, "policy_kwargs: net_arch")
    _activation(c, kwargs)
    _initial_weights(c, kwargs)
    if images:
        c.put_in_behavior("network_settings.vis_encode_type", "nature_cnn", policy)
        c.differences.append(
            f"policy: the CNN of {policy} has ReLU and, with ortho_init, orthogonal weights; nature_cnn of rlcore has "
            "leaky ReLU and PyTorch's own initial weights."
        )
        if c.algorithm in ("sac", "td3", "ddpg"):
            c.differences.append(
                "policy: both critics have one CNN in Stable-Baselines3; in rlcore each has a CNN of its own."
            )
        if one_body:
            c.hyperparameter("shared_critic", True, kwargs.origin("share_features_extractor"))
        elif shared:
            c.differences.append(
                "policy_kwargs: Stable-Baselines3 has one CNN for policy and values before layers of their own; in "
                "rlcore each has a CNN of its own."
            )
    if kwargs.raw("normalize_images", True) is not True:
        kwargs.refuse(
            "normalize_images", "images of bytes are always divided by their bounds, such as 255", "divides them"
        )
    if kwargs.raw("features_extractor_class") is not None:
        kwargs.refuse(
            "features_extractor_class", "an encoder of your own is a plugin; see docs/how-to/networks.md",
            "takes the encoder of the policy",
        )  # fmt: skip
    kwargs.note("normalize_images", "true, as here")
    _critics(c, kwargs)
    if c.algorithm == "qrdqn":
        count = kwargs.number("n_quantiles", 200, whole=True, minimum=1)
        c.hyperparameter("num_quantiles", count, "policy_kwargs: n_quantiles" if kwargs.has("n_quantiles") else "")
    elif kwargs.has("n_quantiles"):
        kwargs.refuse("n_quantiles", f"{c.algorithm} has no quantiles here", "has none")
    convert_optimizer(c, kwargs)
    _log_std(c, kwargs)
    kwargs.finish(_KNOWN)


def _critics(c: Conversion, kwargs: Entry) -> None:
    """``n_critics``, which the trainers of rlcore-td3 have too."""
    default = 1 if c.algorithm == "ddpg" else 2
    count = kwargs.number("n_critics", default, whole=True, minimum=1)
    if c.algorithm in ("td3", "ddpg"):
        if kwargs.has("n_critics"):
            c.hyperparameter("num_critics", count, "policy_kwargs: n_critics")
        return
    kwargs.note("n_critics", "2, as here")
    if count != default:
        kwargs.refuse("n_critics", f"{c.algorithm} has two critics here", "takes two")


def _policy(c: Conversion) -> str:
    policy = c.entry.raw("policy", "MlpPolicy")
    if policy not in POLICIES:
        c.entry.refuse(
            "policy", f"{policy!r} is none of {', '.join(POLICIES)}; the network follows from network_settings",
            "takes MlpPolicy",
        )  # fmt: skip
        return "MlpPolicy"
    c.entry.note("policy", f"{policy}: the networks follow from the spaces and network_settings")
    return str(policy)


def _features(kwargs: Entry, policy: str) -> int:
    """The features of the CNN."""
    key = "features_dim" if policy == "CnnPolicy" else "cnn_output_dim"
    given = kwargs.raw("features_extractor_kwargs") or {}
    if not isinstance(given, dict) or set(given) - {key} or not isinstance(given.get(key, 1), int):
        kwargs.refuse("features_extractor_kwargs", f"only {key}, a whole number, can be converted", "takes the default")
        return _FEATURES[policy]
    return int(given.get(key, _FEATURES[policy]))


def _widths(c: Conversion, kwargs: Entry, images: bool) -> tuple[list[int], list[int], str]:
    """Widths of the hidden layers of policy and critic, and where they come from."""
    kwargs.note("features_extractor_kwargs", "hidden_units, with images alone")
    default = _WIDTHS[c.algorithm][images]
    given = kwargs.raw("net_arch")
    if given is None:
        return default, default, kwargs.origin("net_arch")
    critic = _CRITIC[c.algorithm]
    if c.algorithm == "ppo" and isinstance(given, list) and given and isinstance(given[0], dict):
        given = given[0] if len(given) == 1 else given  # the form of Stable-Baselines3 before 1.8
    if critic is not None and isinstance(given, dict) and set(given) <= {"pi", critic}:
        actor_widths, critic_widths = given.get("pi", []), given.get(critic, [])
    else:
        actor_widths = critic_widths = given
    if not (_are_widths(actor_widths) and _are_widths(critic_widths)):
        form = "a list of widths" + (f", or dict(pi=[...], {critic}=[...])" if critic else "")
        kwargs.refuse("net_arch", f"must be {form}, not {given!r}", "takes the default")
        return default, default, ""
    return actor_widths, critic_widths, "policy_kwargs: net_arch"


def _are_widths(value: Any) -> bool:
    return isinstance(value, list) and all(type(width) is int and width > 0 for width in value)


def _put_widths(c: Conversion, block: str, widths: list[int], comment: str, features: int | None = None) -> None:
    """Write widths as ``hidden_units`` and ``num_layers`` if they are equal. ``features`` are those of a CNN."""
    if features is not None and widths and set(widths) != {features}:
        c.put_in_behavior(f"{block}.hidden_units", features, "features of the CNN")
        c.put_in_behavior(f"{block}.hidden_layers", widths, comment)
        return
    if len(set(widths)) > 1:
        c.put_in_behavior(f"{block}.hidden_layers", widths, comment)
        return
    if widths or features is not None:
        units = widths[0] if widths else features
        c.put_in_behavior(f"{block}.hidden_units", units, comment if widths else "features of the CNN")
    c.put_in_behavior(f"{block}.num_layers", len(widths), comment if not widths else "")


def _activation(c: Conversion, kwargs: Entry) -> None:
    given = kwargs.raw("activation_fn")
    default = "tanh" if c.algorithm == "ppo" else "relu"
    if given is None:
        c.put_in_behavior("network_settings.activation", default, kwargs.origin("activation_fn"))
        return
    name = (given.name if isinstance(given, Reference) else str(given)).rpartition(".")[2]
    if name not in ACTIVATIONS:
        kwargs.refuse("activation_fn", f"{name} is none of {', '.join(ACTIVATIONS)}", f"takes {default}")
        return
    c.put_in_behavior("network_settings.activation", ACTIVATIONS[name], f"policy_kwargs: activation_fn: {name}")


def _initial_weights(c: Conversion, kwargs: Entry) -> None:
    if c.algorithm != "ppo":
        c.put_in_behavior("network_settings.init", "uniform", "PyTorch's own initial weights, as in Stable-Baselines3")
        return
    orthogonal = kwargs.flag("ortho_init", True)
    c.put_in_behavior("network_settings.init", "orthogonal" if orthogonal else "uniform", kwargs.origin("ortho_init"))


def _state_dependent_noise(c: Conversion, kwargs: Entry, halves: tuple[float, ...]) -> None:
    """``use_sde``: gSDE (Raffin et al. 2021, arXiv:2005.05719), with the keys of ``policy_kwargs`` that are of it."""
    of_ppo = c.algorithm == "ppo"
    if kwargs.flag("squash_output", False) and of_ppo:
        kwargs.refuse("squash_output", "noise of ppo is clipped to the bounds of an action here", "clips it")
    block = "network_settings.action_distribution"
    c.put_in_behavior(block, "gsde" if of_ppo else "squashed_gsde", "use_sde: state-dependent exploration")
    log_std = kwargs.number("log_std_init", 0.0 if of_ppo else -3.0)
    comment = kwargs.origin("log_std_init")
    if of_ppo and (mean := math.exp(sum(map(math.log, halves)) / len(halves))) != 1.0:
        comment += f", {log_std:g}, in units of half the range: {log_std:g} - log({mean:g})"
        log_std = round(log_std - math.log(mean), 6) + 0.0
    c.put_in_behavior(f"{block}_settings.initial_log_std", log_std, comment)
    rollout, default = ("n_steps", 2048) if of_ppo else ("train_freq", 1)
    every = c.entry.number("sde_sample_freq", -1, whole=True)
    source = c.entry.origin("sde_sample_freq")
    if every < 1:
        frequency = c.entry.raw(rollout, default)
        every = frequency if isinstance(frequency, int) else 1
        source += f": a new matrix after each {rollout}"
    c.put_in_behavior(f"{block}_settings.resample_every", every, source)
    for key, name, usual in (("full_std", "full_std", True), ("use_expln", "expln", False)):
        if (value := kwargs.flag(key, usual)) != usual:
            c.put_in_behavior(f"{block}_settings.{name}", value, kwargs.origin(key))
        else:
            kwargs.note(key, f"{value}, the default here too")
    if of_ppo:
        kwargs.note("clip_mean", "has no effect with ppo")
    elif (limit := kwargs.number("clip_mean", 2.0)) != 2.0:
        c.put_in_behavior(f"{block}_settings.clip_mean", limit or None, kwargs.origin("clip_mean"))
    else:
        kwargs.note("clip_mean", f"{limit:g}, the default here too")
    kwargs.read |= {"clip_mean", "squash_output"}
    if not of_ppo:
        c.differences.append(
            "use_sde: Stable-Baselines3 also draws a new noise matrix at each gradient step; here agents keep theirs "
            "for resample_every steps of the environment."
        )


def _log_std(c: Conversion, kwargs: Entry) -> None:
    """``log_std_init``, in units of the action; here in units of half its range. Other algorithms have it for gSDE."""
    if c.entry.raw("use_sde") is True and c.algorithm in WITH_SDE and c.world.half_ranges is not None:
        _state_dependent_noise(c, kwargs, c.world.half_ranges)
        return
    without_sde = "use_sde" in c.entry.without and c.entry.values.get("use_sde") is True
    for key in _OF_SDE:
        if not kwargs.has(key) or (key == "log_std_init" and c.algorithm == "ppo" and not without_sde):
            continue
        value = kwargs.raw(key)
        if without_sde:
            c.entry.left_out[f"policy_kwargs.{key}"] = value
        else:
            kwargs.note(key, f"{value!r}, which has no effect in Stable-Baselines3 without use_sde")
    if c.algorithm != "ppo":
        return
    log_std = 0.0 if without_sde else kwargs.number("log_std_init", 0.0)
    kwargs.read.add("log_std_init")
    halves = c.world.half_ranges
    if halves is None:
        if kwargs.has("log_std_init"):
            kwargs.note("log_std_init", f"{log_std:g}, which has no effect with discrete actions")
        return
    mean = math.exp(sum(map(math.log, halves)) / len(halves))
    given = kwargs.has("log_std_init") and not without_sde
    comment = f"{'policy_kwargs: log_std_init' if given else 'default of log_std_init'}, {log_std:g}"
    if mean != 1.0:
        comment += f", in units of half the range: {log_std:g} - log({mean:g})"
    c.hyperparameter("initial_log_std", round(log_std - math.log(mean), 6) + 0.0, comment)
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
