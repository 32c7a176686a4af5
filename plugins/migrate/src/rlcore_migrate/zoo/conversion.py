"""Keys that entries of every algorithm have: the steps of a run, learning rates, normalization, the optimizer.

Facts about Stable-Baselines3 are those of version 2: its constructors' defaults, and how RL Zoo reads a file.
"""

from __future__ import annotations

import re
from typing import Any

import attrs

from rlcore import NAME_PATTERN
from rlcore_migrate.commented import CommentedFile
from rlcore_migrate.zoo.entry import Entry
from rlcore_migrate.zoo.literals import Reference
from rlcore_migrate.zoo.worlds import World

__all__ = ["Conversion", "convert_normalization", "convert_optimizer", "convert_schedule", "convert_steps"]

_ADAM_OF_PPO, _ADAM = 1e-5, 1e-8  # epsilon of Adam: the default of PPO's policies, and that of PyTorch
_CLIP = 10.0  # VecNormalize, for observations and for rewards


@attrs.define
class Conversion:
    """An entry on its way to a configuration.

    Attributes:
        entry: The entry.
        algorithm: ``ppo``, ``sac``, ``td3``, ``ddpg``, ``dqn`` or ``qrdqn``.
        world: The environment.
        file: The configuration.
        differences: What rlcore does otherwise, a sentence each.
        num_envs: Environments that are stepped together.
        max_steps: Agent steps of the run.
        falling: Keys whose values fall to 0 over the run.
    """

    entry: Entry
    algorithm: str
    world: World
    file: CommentedFile = attrs.field(factory=CommentedFile)
    differences: list[str] = attrs.field(factory=list)
    num_envs: int = 1
    max_steps: int = 1
    falling: list[str] = attrs.field(factory=list)

    @property
    def behavior(self) -> str:
        """The name of the behavior: ``Pong`` of ``ALE/Pong-v5``."""
        name = re.sub(r"-v\d+$", "", self.world.name.rpartition("/")[2])
        name = re.sub(r"[^A-Za-z0-9._-]", "-", name)
        return name if re.fullmatch(NAME_PATTERN, name) else "Agent"

    def put(self, key: str, value: Any, comment: str) -> None:
        """Add a value at the top level: ``environment.num_envs``."""
        self.file.put(key.split("."), value, comment)

    def put_in_behavior(self, key: str, value: Any, comment: str) -> None:
        """Add a value of the behavior: ``hyperparameters.batch_size``."""
        self.file.put(("behaviors", self.behavior, *key.split(".")), value, comment)

    def hyperparameter(self, key: str, value: Any, comment: str) -> None:
        """Add a value of ``hyperparameters``."""
        self.put_in_behavior(f"hyperparameters.{key}", value, comment)

    def same(
        self,
        zoo_key: str,
        key: str,
        default: float,
        *,
        whole: bool = False,
        minimum: float | None = None,
        above: float | None = None,
    ) -> Any:
        """Convert a number that is the same here, in ``hyperparameters`` as ``key``, and return it."""
        value = self.entry.number(zoo_key, default, whole=whole, minimum=minimum, above=above)
        self.hyperparameter(key, value, self.entry.origin(zoo_key))
        return value


def convert_steps(c: Conversion) -> None:
    """``n_envs`` and ``n_timesteps``; the latter has no default."""
    c.num_envs = c.entry.number("n_envs", 1, whole=True, minimum=1)
    if not c.entry.has("n_timesteps"):
        c.entry.raw("n_timesteps")
        c.entry.refuse("n_timesteps", "missing; RL Zoo has no default for the steps of a run")
        return
    c.max_steps = c.entry.number("n_timesteps", 1, whole=True, minimum=1)


def convert_schedule(c: Conversion, zoo_key: str, key: str, default: float) -> None:
    """A constant, or ``lin_0.001``, which falls to 0 at the last step."""
    value, falls = c.entry.schedule(zoo_key, default)
    comment = f"{zoo_key}: lin_{value:g}" if falls else c.entry.origin(zoo_key)
    c.hyperparameter(key, value, comment)
    c.hyperparameter(f"{key}_schedule", "linear" if falls else "constant", "")
    if falls and key == "epsilon":
        c.hyperparameter("final_epsilon", 0.0, "lin_ falls to 0")
    if falls:
        c.falling.append(zoo_key)


def convert_optimizer(c: Conversion, kwargs: Entry) -> None:
    """``optimizer_class`` and ``optimizer_kwargs`` of ``policy_kwargs``: Adam."""
    of_class = kwargs.raw("optimizer_class")
    kwargs.note("optimizer_class", "Adam, as here")
    if of_class is not None and not (isinstance(of_class, Reference) and of_class.name.endswith(".Adam")):
        shown = of_class.name if isinstance(of_class, Reference) else repr(of_class)
        kwargs.refuse("optimizer_class", f"{shown} is not in rlcore; an optimizer is a plugin", "takes Adam")
    given = kwargs.raw("optimizer_kwargs")
    kwargs.note("optimizer_kwargs", f"{given!r}, of which eps is adam_epsilon")
    # With optimizer_kwargs, PPO's own default of epsilon does not hold.
    epsilon = _ADAM_OF_PPO if c.algorithm == "ppo" and given is None else _ADAM
    comment = "Stable-Baselines3's default of epsilon"
    if c.algorithm == "qrdqn" and given is None and of_class is None:
        epsilon, comment = (
            0.01 / c.entry.number("batch_size", 32),
            "sb3-contrib's default of epsilon, 0.01 / batch_size",
        )
    if isinstance(given, dict):
        given = dict(given)
        if "eps" in given:
            epsilon, comment = given.pop("eps"), "policy_kwargs: optimizer_kwargs: eps"
        for key, value in given.items():
            if not (key == "weight_decay" and value == 0):
                kwargs.refuse("optimizer_kwargs", f"{key} is not a key of rlcore's Adam", "takes Adam's defaults")
    elif given is not None:
        kwargs.refuse("optimizer_kwargs", f"must be a mapping, not {given!r}")
    if isinstance(epsilon, bool) or not isinstance(epsilon, int | float) or epsilon <= 0:
        kwargs.refuse("optimizer_kwargs", f"eps must be a number above 0, not {epsilon!r}")
        return
    c.hyperparameter("adam_epsilon", float(epsilon), comment)


def convert_normalization(c: Conversion) -> None:
    """``normalize``: true for observations and rewards, or the arguments of VecNormalize."""
    given = c.entry.raw("normalize", False) if isinstance(c.entry.values.get("normalize"), bool) else None
    arguments = c.entry.mapping("normalize") if given is None else None
    on = bool(given) if arguments is None else c.entry.has("normalize")
    observations = rewards = on
    clip_observations = clip_rewards = _CLIP
    if arguments is not None and on:
        observations, rewards = arguments.flag("norm_obs", True), arguments.flag("norm_reward", True)
        clip_observations = arguments.number("clip_obs", _CLIP, above=0.0)
        clip_rewards = arguments.number("clip_reward", _CLIP, above=0.0)
        _refuse_other_arguments(c, arguments)
    comment = c.entry.origin("normalize")
    c.put_in_behavior("network_settings.normalize", observations, comment)
    if observations:
        c.put_in_behavior("network_settings.normalize_clip", clip_observations, "clip_obs of VecNormalize")
        if c.algorithm == "ppo":
            c.differences.append(
                "normalize: the statistics of observations change with every step in Stable-Baselines3, and with every "
                "update in rlcore."
            )
    if rewards:
        c.hyperparameter("normalize_rewards", True, "normalize")
        c.hyperparameter("normalize_rewards_clip", clip_rewards, "clip_reward of VecNormalize")


def _refuse_other_arguments(c: Conversion, arguments: Entry) -> None:
    gamma = arguments.raw("gamma")
    if gamma is not None and not c.entry.has("gamma") and gamma != c.entry.number("gamma", 0.99):
        arguments.refuse("gamma", "rewards are normalized with the gamma of the algorithm", "takes that one")
    if arguments.has("epsilon"):
        arguments.raw("epsilon")
        arguments.refuse("epsilon", "no key of rlcore sets it", "takes rlcore's own")
    arguments.note("gamma", "that of the algorithm, as here")
    arguments.note("training", "true, as here")
    if arguments.raw("training", True) is not True:
        arguments.refuse("training", "statistics that never change are not in rlcore", "lets them change")
    if arguments.raw("norm_obs_keys") is not None:
        arguments.refuse("norm_obs_keys", "all vector observations are normalized, or none", "normalizes all")
    arguments.finish(("norm_obs", "norm_reward", "clip_obs", "clip_reward"))
