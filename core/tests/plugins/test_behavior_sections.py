"""Keys of a behavior that belong to plugins: claimed with a settings class, inherited, written, refused."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from rlcore import BehaviorSection, ConfigErrors, PluginError, Plugins, dump_config, hookimpl, json_schema
from rlcore.config.load import config_from_mapping, load_config
from rlcore.config.reading import parse_document
from rlcore.settings import RunConfig, setting


@attrs.frozen(kw_only=True)
class SelfPlaySettings:
    """Settings of self-play."""

    window: int = setting(10, "How many opponents.", minimum=1)
    names: dict[str, int] = setting(factory=dict, description="Opponents by name.")
    password: str | None = setting(None, "A secret.", secret=True)


class Ghost:
    """A plugin that claims ``self_play``, or other keys."""

    def __init__(self, *names: str) -> None:
        self.names = names or ("self_play",)

    @hookimpl
    def rlcore_config_sections(self) -> list[BehaviorSection]:
        target = f"{__name__}:SelfPlaySettings"
        return [BehaviorSection(name=name, target=target, summary="Opponents.") for name in self.names]


@pytest.fixture
def claimed(bare: Plugins) -> Plugins:
    bare.register(Ghost(), "ghost", "acme-ghost", "1.0")
    return bare


def load(plugins: Plugins, text: str) -> RunConfig:
    return load_config(parse_document(text, "c.yaml"), plugins)


def window_of(config: RunConfig, behavior: str) -> int | None:
    section = config.behaviors[behavior].sections.get("self_play")
    return None if section is None else section.window


def test_a_plugin_claims_a_key_and_gets_its_settings(claimed: Plugins) -> None:
    config = load(claimed, "behaviors: {A: {self_play: {window: 3}}, B: {}, C: {self_play: null}, D: {self_play: {}}}")
    assert [window_of(config, name) for name in "ABCD"] == [3, None, None, 10]
    assert isinstance(config.behaviors["A"].sections["self_play"], SelfPlaySettings)


TEXTS = [
    "behaviors: {A: {self_play: {window: 3, password: x}}, B: {}}",
    "default_settings: {self_play: {window: 4}}\nbehaviors: {A: {}, B: {self_play: {names: {a: 1}}}}",
    "default_settings: {self_play: {names: {a: 1}}}\nbehaviors: {A: {self_play: {names: {b: 2}}}, B: {}}",
    "default_settings: {self_play: {window: 4}}\nbehaviors: {A: {self_play: null}, B: {}}",
    "default_settings: {self_play: null}\nbehaviors: {A: {self_play: {window: 5}}, B: {}}",
    "default_settings: {self_play: {}}",
]


@pytest.mark.parametrize("text", TEXTS)
def test_a_written_configuration_loads_to_an_equal_one(claimed: Plugins, text: str) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    config = load(claimed, text)
    written = dump_config(config)
    again = config_from_mapping(written, claimed)

    def without_secrets(settings: Any) -> Any:
        return attrs.evolve(settings, password=None)

    for name, behavior in config.behaviors.items():
        expected = {key: without_secrets(each) for key, each in behavior.sections.items()}
        assert again.behaviors[name].sections == expected
    assert dump_config(again) == written
    assert "sections" not in str(written) and "password" not in str(written)
    jsonschema.Draft202012Validator(json_schema(claimed)).validate(written)


def test_behaviors_inherit_the_block_from_default_settings(claimed: Plugins) -> None:
    config = load(claimed, TEXTS[1])
    assert [window_of(config, name) for name in "AB"] == [4, 4]
    assert config.behaviors["B"].sections["self_play"].names == {"a": 1}
    assert [window_of(load(claimed, TEXTS[3]), name) for name in "AB"] == [None, 4]


# ---------------------------------------------------------------- keys that no plugin claims


def test_self_play_of_null_means_what_it_means_in_ml_agents(bare: Plugins) -> None:
    config = load(bare, "default_settings: {self_play: null}\nbehaviors: {A: {self_play: null}}")
    assert config.behaviors["A"].sections == {} and "self_play" not in str(dump_config(config))


def test_a_known_package_is_what_pip_installs(bare: Plugins) -> None:
    with pytest.raises(ConfigErrors) as caught:
        load(bare, "behaviors:\n  A:\n    self_play: {window: 3}\n")
    (problem,) = caught.value.problems
    assert problem.package or "-p ghost turns it on" in problem.note  # it is installed, and off
    bare.found = ()  # as if rlcore-ghost were not installed
    with pytest.raises(ConfigErrors) as caught:
        load(bare, "behaviors:\n  A: {self_play: {}}")
    assert str(caught.value) == (
        "c.yaml:2: behaviors.A.self_play: unknown block of a behavior 'self_play'; no block of a behavior is "
        "installed; pip install rlcore-ghost"
    )
    assert caught.value.problems[0].package == "rlcore-ghost"


def test_opponents_of_evaluations_name_the_plugin_that_they_need(bare: Plugins) -> None:
    bare.found = ()  # as if rlcore-ghost were not installed
    evaluation = "behaviors: {A: {}}\nevaluation:\n  interval: 9\n  environment: {type: none}\n"
    with pytest.raises(ConfigErrors) as caught:
        load(bare, evaluation + "  opponents: {random: {}}\n")
    problem = next(each for each in caught.value.problems if "opponents" in str(each))
    assert str(problem).startswith("c.yaml:5: evaluation.opponents: unknown key of evaluations 'opponents'; ")
    assert problem.package == "rlcore-ghost"
    with pytest.raises(ConfigErrors) as caught:
        load(bare, evaluation + "  opponents: {}\n  score_against: null\n  sections: {}\n")
    unknown = [str(each) for each in caught.value.problems if "unknown key" in str(each)]
    assert len(unknown) == 1 and "evaluation.sections: unknown key" in unknown[0], "empty blocks need no plugin"


@pytest.mark.parametrize("key", ["sections: {}", "league: null", "self_plai: {}"])
def test_other_keys_are_unknown(claimed: Plugins, key: str) -> None:
    near = "; did you mean 'self_play'" if "plai" in key else ""
    with pytest.raises(ConfigErrors, match=f"unknown key{near}"):
        load(claimed, f"behaviors: {{A: {{{key}}}}}")


# ---------------------------------------------------------------- clashes


@pytest.mark.parametrize("key", ["max_steps", "sections", "network_settings"])
def test_a_key_of_cores_cannot_be_claimed(bare: Plugins, key: str) -> None:
    bare.register(Ghost(key), "greedy", "acme-greedy", "1")
    with pytest.raises(PluginError, match=rf"acme-greedy 1\): the key of a behavior '{key}' is core's own"):
        load(bare, "behaviors: {A: {}}")
