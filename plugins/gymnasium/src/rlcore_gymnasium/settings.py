"""The keys of ``environment`` that Gymnasium environments have besides those of every environment."""

from __future__ import annotations

from typing import Any, Literal

import attrs

from rlcore import EnvironmentSettings, setting


@attrs.frozen(kw_only=True)
class ObservationSettings:
    """An entry of ``environment.observations``: how an agent gets one observation of its environment."""

    ignore: bool = setting(False, "Leave the observation out; the word ignore in place of the block says the same.")
    flatten: bool = setting(False, "Make a vector of an array of any shape, such as an image; its numbers stay.")


@attrs.frozen(kw_only=True)
class ObservedEnvironmentSettings(EnvironmentSettings):
    """The environment block of a type that converts its observations with :mod:`rlcore_gymnasium.spaces`."""

    observations: dict[str, Literal["ignore"] | ObservationSettings] = setting(
        factory=dict,
        description="What becomes of single observations, by their keys in the observation space; the only one of a "
        "space without keys is called observation. ignore leaves one out, {flatten: true} makes a vector.",
    )


@attrs.frozen(kw_only=True)
class GymnasiumSettings(ObservedEnvironmentSettings):
    """The environment block of the type gymnasium."""

    wrappers: list[Any] = setting(
        factory=list,
        description="Wrappers around each environment, from the inside out: the name of a class of "
        "gymnasium.wrappers, or module:Class; or a mapping with the name, and the arguments of the class beside it. "
        "The module may be a Python file beside the configuration.",
    )
