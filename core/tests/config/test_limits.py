"""Limits of a configuration, so that no file or value leads to unbounded allocation."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import attrs
import pytest

from rlcore.config.document import Document
from rlcore.config.problems import MAX_PROBLEMS, ConfigErrors, Problems, shown
from rlcore.config.reading import document_from_mapping, parse_document
from rlcore.config.rewriting import inherit_defaults
from rlcore.errors import ConfigError, dotted, nearest
from rlcore.settings import (
    BehaviorSettings,
    EnvironmentSettings,
    EnvSettings,
    EvaluationSettings,
    TorchSettings,
    field_info,
)
from rlcore_torch import (
    BehavioralCloningSettings,
    MinibatchSettings,
    NetworkSettings,
    OffPolicySettings,
    OnPolicySettings,
)

CLASSES = (
    BehavioralCloningSettings, BehaviorSettings, EnvSettings, EnvironmentSettings, EvaluationSettings,
    MinibatchSettings, NetworkSettings, OffPolicySettings, OnPolicySettings, TorchSettings,
)  # fmt: skip


@pytest.mark.parametrize("cls", CLASSES)
def test_every_count_has_a_maximum(cls: type) -> None:
    for attribute in attrs.fields(cls):
        info = field_info(attribute)
        if str(attribute.type) in ("int", "int | None"):
            assert info.maximum is not None, attribute.name


def test_a_document_of_too_many_values_is_refused_with_its_line() -> None:
    with pytest.raises(ConfigError, match=r"^c\.yaml:25000: holds more than 50,000 values; no configuration does"):
        parse_document("".join(f"k{i}: 1\n" for i in range(30_000)), "c.yaml")


@pytest.mark.parametrize("number", [2**65, -(2**65)])
def test_a_number_beyond_every_setting_is_refused_from_file_and_program_alike(number: int) -> None:
    with pytest.raises(ConfigErrors, match="is not a valid int"):
        parse_document(f"a: {number}", "c.yaml")
    with pytest.raises(ConfigError, match="is too large a whole number"):
        document_from_mapping({"a": number})


def add_all(problems: Problems, keys: Iterable[str]) -> None:
    for key in keys:
        problems.add((key,), "unknown key")


def test_problems_are_collected_up_to_a_limit() -> None:
    with pytest.raises(ConfigErrors) as caught:
        add_all(Problems(Document(None)), (f"k{index}" for index in range(10**6)))
    assert len(caught.value.problems) == MAX_PROBLEMS


def test_a_problem_that_every_behavior_inherits_ends_the_check_after_a_number_of_times() -> None:
    keys = iter(["a"] * 20 * MAX_PROBLEMS)
    with pytest.raises(ConfigErrors):
        add_all(Problems(Document(None)), keys)
    assert len(list(keys)) == 10 * MAX_PROBLEMS - 1


def test_what_a_behavior_inherits_keeps_the_line_of_the_defaults() -> None:
    document = inherit_defaults(
        parse_document("default_settings:\n  network_settings:\n    hidden_units: 3\nbehaviors:\n  A: {}\n", "c.yaml")
    )
    origin = document.origin(("behaviors", "A", "network_settings", "hidden_units"))
    assert (origin.place, origin.path) == ("c.yaml:3", ("default_settings", "network_settings", "hidden_units"))


@pytest.mark.parametrize(
    "value",
    ["x" * 10**6, 1 << 10**6, [1] * 10**6, {str(i): i for i in range(1000)}],
    ids=["text", "number", "list", "mapping"],
)
def test_messages_show_long_values_shortly(value: Any) -> None:
    assert len(shown(value)) <= 60
    assert len(dotted(("k" * 5_000, 1))) <= 120


def test_the_nearest_name_to_a_very_long_one_is_not_looked_for() -> None:
    assert nearest("x" * 101, ["x" * 101]) is None and nearest("batch_sise", ["batch_size"]) == "batch_size"


def test_the_nearest_name_may_differ_in_the_case_of_its_letters() -> None:
    assert nearest("PPO", ["bc", "ppo"]) == "ppo" and nearest("cartpole", ["CartPole", "Cart"]) == "CartPole"


def test_a_batch_is_at_most_as_large_as_the_buffer() -> None:
    with pytest.raises(ConfigError, match=r"^batch_size: must be at most buffer_size \(100\), not 101$"):
        OffPolicySettings(batch_size=101, buffer_size=100)
