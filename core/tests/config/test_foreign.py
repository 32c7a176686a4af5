"""A configuration of a stranger chooses numbers, switches and known names, and names nothing of this machine."""

from __future__ import annotations

from typing import Any, Literal

import attrs
import pytest

from rlcore import foreign_values, is_plain_name, setting


@attrs.frozen(kw_only=True)
class Wheel:
    size: float = setting(1.0, "Meters.")
    maker: str = setting("acme", "Any text.")


@attrs.frozen(kw_only=True)
class Car:
    speed: int = setting(3, "A number.")
    lights: bool = setting(False, "A switch.")
    color: Literal["red", "blue"] | None = setting(None, "A word of a list.")
    gear: str = setting("one", "A word of another list.", choices=("one", "two"))
    start: str = setting("./car", "A program.")
    roads: list[str] = setting(factory=list, description="Texts.")
    extra: Any = setting(None, "Anything.")
    wheels: dict[str, Wheel] = setting(factory=dict, description="Blocks.")
    nickname: str = setting("", "A text that names nothing.", foreign=True)
    home: str = setting("here", "A relative path.", foreign=is_plain_name)
    places: list[str] = setting(factory=list, description="Relative paths.", foreign=is_plain_name)
    open_to_all: bool = setting(False, "A switch that opens a port.", foreign=False)


ALLOWED: dict[str, Any] = {
    "speed": 9, "lights": True, "color": "blue", "gear": "two", "nickname": "/bin/sh", "home": "a/b-1.x",
    "wheels": {"front": Wheel(size=2.0)}, "extra": {"a": [1, None, True, 2.5]}, "places": ["a", "b/c"],
}  # fmt: skip
REFUSED: list[tuple[dict[str, Any], tuple[Any, ...]]] = [
    ({"start": "./evil"}, ("start",)),
    ({"roads": ["a"]}, ("roads", 0)),
    ({"extra": {"deep": [{"x": "evil"}]}}, ("extra", "deep", 0, "x")),
    ({"extra": object()}, ("extra",)),
    ({"wheels": {"front": Wheel(maker="http://evil")}}, ("wheels", "front", "maker")),
    ({"home": "../up"}, ("home",)),
    ({"home": "/etc"}, ("home",)),
    ({"places": ["a", "~/b"]}, ("places", 1)),
    ({"open_to_all": True}, ("open_to_all",)),
]


def test_numbers_switches_known_names_and_what_a_field_allows_may_come_from_anybody() -> None:
    assert list(foreign_values(Car())) == [] and list(foreign_values(Car(**ALLOWED))) == []


@pytest.mark.parametrize(("values", "path"), REFUSED)
def test_any_other_text_and_what_a_field_refuses_may_not(values: dict[str, Any], path: tuple[Any, ...]) -> None:
    ((found, _),) = foreign_values(Car(**values), ("car",))
    assert found == ("car", *path)


@pytest.mark.parametrize(
    "text", ["", "/a", "~a", "a:b", "../a", "a/../b", "a\\b", "a//b", "-", ".a", "a/.b", "a\n", "$x"]
)
def test_plain_names_lead_nowhere(text: str) -> None:
    assert is_plain_name(text) == (text == "-")
