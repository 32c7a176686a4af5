"""The keys of ``environment`` that Gymnasium environments have besides those of every environment."""

from __future__ import annotations

from typing import Any, Literal

import attrs

from rlcore import EnvironmentSettings, SettingError, setting


@attrs.frozen(kw_only=True)
class ObservationSettings:
    """An entry of ``environment.observations``: how an agent gets one observation of its environment."""

    ignore: bool = setting(False, "Leave the observation out; the word ignore in place of the block says the same.")
    flatten: bool = setting(False, "Make a vector of an array of any shape, such as an image; its numbers stay.")
    channels: Literal["first", "last"] | None = setting(
        None,
        "The axis of the channels of an image; null guesses from the shape. With four axes, the first one has stacked "
        "frames, and this is said of one frame.",
    )
    goal: bool = setting(False, "The observation is the agent's goal; see network_settings.goal_conditioning_type.")
    entities: bool = setting(
        False, "Each row of a matrix is an entity, of which any number is there; a row of zeros is an absent one."
    )
    present: str | None = setting(
        None,
        "With entities: the key of the observation that says which rows are there, a mask or a number of first rows. "
        "It is not observed by itself.",
        foreign=True,
    )
    max_entities: int | None = setting(
        None, "Of a Sequence, whose elements are entities: the largest number of them.", minimum=1, maximum=65_536
    )

    def __attrs_post_init__(self) -> None:
        if self.present is not None and not self.entities:
            raise SettingError("present", "says which entities are there; set entities: true")
        if self.flatten and (self.entities or self.max_entities):
            raise SettingError("flatten", "makes one vector of an array, and entities are its rows; leave one out")
        if self.channels is not None and (self.flatten or self.entities or self.max_entities):
            raise SettingError("channels", "makes an image, and the other key does not; leave one out")


@attrs.frozen(kw_only=True)
class ObservedEnvironmentSettings(EnvironmentSettings):
    """The environment block of a type that converts its observations with :mod:`rlcore_gymnasium.spaces`."""

    observations: dict[str, Literal["ignore"] | ObservationSettings] = setting(
        factory=dict,
        description="What becomes of single observations, by their keys in the observation space; the only one of a "
        "space without keys is called observation. ignore leaves one out, {flatten: true} makes a vector, "
        "{entities: true} reads rows as a set.",
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
