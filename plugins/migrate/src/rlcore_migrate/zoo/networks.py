"""``policy`` and ``policy_kwargs``: the networks. Noise that belongs to them is in :mod:`~rlcore_migrate.zoo.noise`."""

from __future__ import annotations

from typing import Any

from rlcore_migrate.zoo.conversion import Conversion
from rlcore_migrate.zoo.entry import rules
from rlcore_migrate.zoo.literals import Reference
from rlcore_migrate.zoo.noise import convert_noise

_FEATURES = {"MlpPolicy": 0, "CnnPolicy": 512, "MultiInputPolicy": 256}  # of the CNN of each policy
_ADAM_AFTER_KWARGS = 1e-8  # with optimizer_kwargs, PPO's own default of epsilon does not hold
_SHARED = "policy_kwargs.share_features_extractor"


def convert_networks(c: Conversion) -> None:
    """``policy`` and ``policy_kwargs``. The names of the latter's keys are those of the policies' constructors."""
    c.unfold("policy_kwargs")
    policy = _policy(c)
    images = policy == "CnnPolicy" or (policy == "MultiInputPolicy" and c.world.images)
    actor, critic, comment = _widths(c, images)
    _put_widths(c, "network_settings", actor, comment, _features(c, policy) if images else 0)
    of_ppo = c.algorithm == "ppo"
    shared = c.flag(_SHARED, of_ppo)
    c.note(_SHARED, "has an effect with images alone")
    one_body = of_ppo and shared and images and not actor and not critic
    if critic != actor and not one_body:
        _put_widths(c, "network_settings.critic", critic, "policy_kwargs: net_arch", 0)
    _activation(c)
    init = "uniform"
    source = "PyTorch's own initial weights, as in Stable-Baselines3"
    if of_ppo:
        init = "orthogonal" if c.flag("policy_kwargs.ortho_init", True) else "uniform"
        source = c.origin("policy_kwargs.ortho_init")
    c.put("network_settings.init", init, source)
    if one_body:
        c.put("hyperparameters.shared_critic", True, c.origin(_SHARED))
    if images:
        _images(c, policy, shared and not one_body)
    elif c.world.images and not c.has("env_wrapper"):
        c.differ("policy: MlpPolicy takes the pixels of an image side by side; rlcore has an encoder of images.")
    c.apply(*c.facts("policy_rules"))
    _optimizer(c)
    convert_noise(c)


def _policy(c: Conversion) -> str:
    policy = c.raw("policy", "MlpPolicy")
    if policy in list(_FEATURES):
        c.note("policy", f"{policy}: the networks follow from the spaces and network_settings")
        return str(policy)
    reason = f"{policy!r} is none of {', '.join(_FEATURES)}; the network follows from network_settings"
    c.refuse("policy", reason, "takes MlpPolicy")
    return "MlpPolicy"


def _images(c: Conversion, policy: str, shared: bool) -> None:
    """Say what is otherwise about the CNN of a policy. ``shared``: the critic has it too, before layers of its own."""
    c.put("network_settings.vis_encode_type", "nature_cnn", policy)
    c.differ(
        f"policy: the CNN of {policy} has ReLU and, with ortho_init, orthogonal weights; nature_cnn of rlcore has "
        "leaky ReLU and PyTorch's own initial weights."
    )
    if shared and c.algorithm == "ppo":
        c.differ(
            "policy_kwargs: Stable-Baselines3 has one CNN for policy and values before layers of their own; in rlcore "
            "each has a CNN of its own."
        )
    elif shared:
        c.refuse(_SHARED, "policy and critics have encoders of their own here", "gives each its own")
    if c.facts("critic") == "qf":
        c.differ("policy: both critics have one CNN in Stable-Baselines3; in rlcore each has a CNN of its own.")


def _features(c: Conversion, policy: str) -> int:
    """The features of the CNN."""
    key = "features_dim" if policy == "CnnPolicy" else "cnn_output_dim"
    default = _FEATURES[policy]
    arguments = c.raw("policy_kwargs.features_extractor_kwargs") or {}
    if isinstance(arguments, dict) and not set(arguments) - {key}:
        width = arguments.get(key, default)
        if isinstance(width, int):
            return width
    reason = f"only {key}, a whole number, can be converted"
    c.refuse("policy_kwargs.features_extractor_kwargs", reason, "takes the default")
    return default


def _widths(c: Conversion, images: bool) -> tuple[list[int], list[int], str]:
    """Widths of the hidden layers of policy and critic, and where they come from."""
    c.note("policy_kwargs.features_extractor_kwargs", "hidden_units, with images alone")
    default = c.facts("widths")[images]
    layers = c.raw("policy_kwargs.net_arch")
    if layers is None:
        return default, default, c.origin("policy_kwargs.net_arch")
    critic = c.facts("critic")
    if c.algorithm == "ppo" and isinstance(layers, list) and len(layers) == 1 and isinstance(layers[0], dict):
        layers = layers[0]  # the form of Stable-Baselines3 before 1.8
    found = [layers, layers]
    if critic and isinstance(layers, dict) and set(layers) <= {"pi", critic}:
        found = [layers.get("pi", []), layers.get(critic, [])]
    if all(map(_are_widths, found)):
        return found[0], found[1], "policy_kwargs: net_arch"
    form = "a list of widths" + (f", or dict(pi=[...], {critic}=[...])" if critic else "")
    c.refuse("policy_kwargs.net_arch", f"must be {form}, not {layers!r}", "takes the default")
    return default, default, ""


def _are_widths(layers: Any) -> bool:
    return isinstance(layers, list) and all(type(width) is int and width > 0 for width in layers)


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


def _activation(c: Conversion) -> None:
    key = "policy_kwargs.activation_fn"
    known = rules()["activations"]
    value = c.facts("activation")
    comment = c.origin(key)
    function = c.raw(key)
    if function is not None:
        name = _name(function).rpartition(".")[2]
        if name not in known:
            c.refuse(key, f"{name} is none of {', '.join(known)}", f"takes {value}")
        value = known.get(name)
        comment += f": {name}"
    c.put("network_settings.activation", value, comment)


def _name(written: Any) -> str:
    return written.name if isinstance(written, Reference) else str(written)


def _optimizer(c: Conversion) -> None:
    """``optimizer_class`` and ``optimizer_kwargs``: Adam."""
    optimizer = c.raw("policy_kwargs.optimizer_class")
    c.note("policy_kwargs.optimizer_class", "Adam, as here")
    if optimizer is not None and not (isinstance(optimizer, Reference) and optimizer.name.endswith(".Adam")):
        name = optimizer.name if isinstance(optimizer, Reference) else repr(optimizer)
        c.refuse("policy_kwargs.optimizer_class", f"{name} is not in rlcore; an optimizer is a plugin", "takes Adam")
    key = "policy_kwargs.optimizer_kwargs"
    arguments = c.raw(key)
    c.note(key, f"{arguments!r}, of which eps is adam_epsilon")
    if arguments is None:
        epsilon = c.facts("adam")
        comment = "Stable-Baselines3's default of epsilon"
        if c.algorithm == "qrdqn" and optimizer is None:
            epsilon = 0.01 / c.numbers["batch_size"]
            comment = "sb3-contrib's default of epsilon, 0.01 / batch_size"
        c.put("hyperparameters.adam_epsilon", epsilon, comment)
        return
    if not isinstance(arguments, dict):
        c.wrong(key, "a mapping")
        return
    for name, value in arguments.items():
        if name != "eps" and (name, value) != ("weight_decay", 0):
            c.refuse(key, f"{name} is not a key of rlcore's Adam", "takes Adam's defaults")
    epsilon = arguments.get("eps", _ADAM_AFTER_KWARGS)
    if type(epsilon) not in (int, float) or epsilon <= 0:
        c.refuse(key, f"eps must be a number above 0, not {epsilon!r}")
        return
    c.put("hyperparameters.adam_epsilon", float(epsilon), "policy_kwargs: optimizer_kwargs: eps, or its default")
