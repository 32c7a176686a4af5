"""ML-Agents' keys and defaults, the deprecated ``encoding_size``, and what is refused with its place in the file."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest

from rlcore import (
    BehaviorSpec,
    ConfigError,
    ConfigErrors,
    Plugins,
    Recording,
    RunContext,
    config_from_mapping,
    dump_config,
    load_config,
    read_document,
)
from rlcore_devkit.environments import identity_hybrid
from rlcore_torch import NetworkSettings

GAIL = {"demo_path": "expert"}


@pytest.fixture
def behavior() -> BehaviorSpec:
    [behavior] = identity_hybrid(2, "B").behaviors.values()
    return behavior


def block_of(plugins: Plugins, name: str, **settings: Any) -> Any:
    config = config_from_mapping({"behaviors": {"B": {"reward_signals": {name: settings}}}}, plugins)
    assert config_from_mapping(dump_config(config), plugins) == config
    return config.behaviors["B"].reward_signals[name]


@pytest.mark.parametrize(
    ("name", "given", "expected"),
    [
        ("curiosity", {}, {"gamma": 0.99, "strength": 1.0, "learning_rate": 3e-4, "encoding_size": None}),
        ("rnd", {}, {"gamma": 0.99, "strength": 1.0, "learning_rate": 1e-4, "encoding_size": None}),
        (
            "gail",
            GAIL,
            {
                "gamma": 0.99,
                "strength": 1.0,
                "learning_rate": 3e-4,
                "demo_path": "expert",
                "use_actions": False,
                "use_vail": False,
                "encoding_size": None,
            },
        ),
    ],
)
def test_keys_have_the_defaults_of_ml_agents(
    plugins: Plugins, name: str, given: dict[str, Any], expected: dict[str, Any]
) -> None:
    block = block_of(plugins, name, **given)
    assert {key: getattr(block, key) for key in expected} == expected
    assert block.network_settings == NetworkSettings()


@pytest.mark.parametrize(
    ("network", "units"), [(None, 32), ({}, 32), ({"hidden_units": 64}, 64), ({"num_layers": 1}, 128)]
)
def test_encoding_size_is_the_width_unless_the_network_is_described(plugins: Plugins, network: Any, units: int) -> None:
    given = {} if network is None else {"network_settings": network}
    assert block_of(plugins, "rnd", encoding_size=32, **given).network.hidden_units == units


def test_encoding_size_is_a_warning_with_the_key_to_write(
    make: Callable[..., Any], behavior: BehaviorSpec, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "rlcore.plugin.intrinsic"):
        reward = make("curiosity", behavior, encoding_size=32)
    assert reward.model.encoder.features == 32
    assert caplog.messages == [
        "behavior 'B': encoding_size of reward 'curiosity' is deprecated; write network_settings: {hidden_units: 32}"
    ]


@pytest.mark.parametrize(
    ("normalize", "own", "expected"), [(False, True, True), (True, False, True), (False, False, False)]
)
def test_observations_are_normalized_unless_both_keys_say_no(
    plugins: Plugins, normalize: bool, own: bool, expected: bool
) -> None:
    block = block_of(plugins, "rnd", network_settings={"normalize": normalize}, normalize_observations=own)
    assert block.network.normalize is expected


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("rnd", {"gamma": 1.0}, "rnd.gamma: must be at most 0.9999"),
        ("curiosity", {"gamma": 1.0}, "curiosity.gamma: must be at most 0.9999"),
        ("gail", {}, "gail.demo_path: missing"),
        ("gail", {**GAIL, "use_action": True}, "did you mean 'use_actions'?"),
        ("rnd", {"demo_path": "x"}, "rnd.demo_path: unknown key"),
        ("rnd", {"learning_rate": 0}, "rnd.learning_rate: must be greater than 0"),
        ("rnd", {"network_settings": {"memory": {}}}, "a reward has no memory"),
    ],
)
def test_mistakes_are_refused(plugins: Plugins, name: str, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigErrors) as caught:
        block_of(plugins, name, **settings)
    assert message in str(caught.value)


def refusal(plugins: Plugins, behavior: BehaviorSpec, tmp_path: Path, demo_path: str) -> ConfigError:
    block = {"reward_signals": {"rlcore-intrinsic/gail": {"demo_path": demo_path}}}
    config = config_from_mapping({"behaviors": {"B": block}}, plugins)
    run = RunContext(config, plugins, tmp_path, 1, 1)
    with pytest.raises(ConfigError) as caught:
        run.create_reward_providers(behavior, config.behaviors["B"])
    assert caught.value.key == ("behaviors", "B", "reward_signals", "rlcore-intrinsic/gail", "demo_path")
    return caught.value


def test_a_recording_that_is_not_there_is_refused_with_the_key(
    plugins: Plugins, behavior: BehaviorSpec, tmp_path: Path
) -> None:
    assert refusal(plugins, behavior, tmp_path, "nowhere").message == "recording 'nowhere': no such path or name"


def test_a_recording_of_other_agents_is_refused_and_both_are_named(
    plugins: Plugins,
    behavior: BehaviorSpec,
    tmp_path: Path,
    keep: Callable[..., str],
    recording_of: Callable[..., Recording],
) -> None:
    keep("other", recording_of(attrs.evolve(behavior, discrete=(5,))))
    assert refusal(plugins, behavior, tmp_path, "other").message == (
        "recording 'other' does not fit behavior 'B': in the recording, discrete actions are (5,) instead of (3,), "
        "which the agents have; record episodes of this environment"
    )


def test_a_file_is_read_with_the_places_of_its_mistakes(plugins: Plugins, tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("behaviors:\n  B:\n    reward_signals:\n      gail: {demo_path: 3}\n      rnd: {episodik: true}\n")
    with pytest.raises(ConfigErrors) as caught:
        load_config(read_document(path), plugins)
    first, second = caught.value.messages
    assert first.startswith(f"{path}:4: behaviors.B.reward_signals.gail.demo_path: must be text")
    assert second.startswith(f"{path}:5: behaviors.B.reward_signals.rnd.episodik: unknown key; did you mean 'episodic'")
