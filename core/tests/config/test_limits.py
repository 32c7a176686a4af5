"""Limits, so that no value leads to unbounded allocation; ``test_reading.py`` has those of a file."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import nullcontext
from typing import Any

import attrs
import pytest

import rlcore
import rlcore_torch
from rlcore import FieldInfo, config_from_mapping, dotted, nearest
from rlcore.config.document import Document
from rlcore.config.problems import MAX_PROBLEMS, ConfigErrors, Problems, short_repr

CLASSES = [
    getattr(package, name)
    for package, names in (
        (rlcore, ("BehaviorSettings", "EnvironmentSettings", "EnvSettings", "EvaluationSettings")),
        (rlcore_torch, [name for name in rlcore_torch.__all__ if name.endswith("Settings")]),
    )
    for name in names
]


@pytest.mark.parametrize("cls", CLASSES)
def test_every_count_has_a_maximum(cls: type) -> None:
    counts = [each for each in attrs.fields(cls) if str(each.type) in ("int", "int | None")]
    assert [each.name for each in counts if FieldInfo.of(each).maximum is None] == []


def add_all(problems: Problems, keys: Iterable[str]) -> None:
    for key in keys:
        problems.add((key,), "unknown key")


def test_problems_are_collected_up_to_a_limit() -> None:
    with pytest.raises(ConfigErrors) as caught:
        add_all(Problems(Document(None)), (f"k{index}" for index in range(10**6)))
    assert len(caught.value.problems) == MAX_PROBLEMS


LONG = {"text": "x" * 10**6, "number": 1 << 10**6, "list": [1] * 10**6, "map": {str(i): i for i in range(1000)}}


@pytest.mark.parametrize("kind", LONG)
def test_messages_show_long_values_shortly(kind: Any) -> None:
    assert len(short_repr(LONG[kind])) <= 60
    assert len(dotted(("k" * 5_000, 1))) <= 120


@pytest.mark.parametrize(
    ("name", "names", "found"),
    [
        ("x" * 101, ["x" * 101], None),  # a very long one is not looked for
        ("batch_sise", ["batch_size"], "batch_size"),
        ("PPO", ["bc", "ppo"], "ppo"),
        ("cartpole", ["CartPole", "Cart"], "CartPole"),
    ],
)
def test_the_nearest_name_may_differ_in_the_case_of_its_letters(name: str, names: list[str], found: str | None) -> None:
    assert nearest(name, names) == found


@pytest.mark.parametrize(("count", "refused"), [(1_000, False), (1_001, True)])
def test_a_file_has_at_most_a_thousand_names_of_a_kind(plugins: Any, count: int, refused: bool) -> None:
    with pytest.raises(ConfigErrors, match=r"^behaviors: has 1,001 entries") if refused else nullcontext():
        config_from_mapping({"behaviors": {f"b{index}": {} for index in range(count)}}, plugins)
