"""Blocks of opponents, in ``evaluation`` and in sections of plugins, and what an opponent of a plugin may return."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import attrs
import numpy as np
import pytest
import yaml

from rlcore import (
    BehaviorSpec,
    EnvironmentSpec,
    ObservationSpec,
    RunContext,
    TrainerSpec,
    hookimpl,
)
from rlcore.config.dump import dump_config
from rlcore.config.load import config_from_mapping, load_config
from rlcore.config.problems import ConfigErrors
from rlcore.config.reading import parse_document
from rlcore.contracts.batches import Actions
from rlcore.errors import ConfigError, PluginError, UnsupportedSpace
from rlcore.plugins.call import Plugins, load_plugins
from rlcore.plugins.select import selection_from
from rlcore.settings import RunConfig, setting
from rlcore_ghost import EarlierOpponentSettings, OpponentSettings, OpponentSpec, RandomPolicy, create_opponents


@attrs.frozen(kw_only=True)
class TreeSettings(OpponentSettings):
    """Settings of an opponent that searches."""

    depth: int = setting(2, "Moves to look ahead.", minimum=1)


@attrs.frozen(kw_only=True)
class Underived:
    """Not the settings of an opponent."""


class Acme:
    @hookimpl
    def rlcore_opponents(self) -> list[OpponentSpec]:
        return [
            OpponentSpec(name="tree", target=f"{__name__}:Scripted", settings=f"{__name__}:TreeSettings", summary="s"),
        ]

    @hookimpl
    def rlcore_trainers(self) -> list[TrainerSpec]:
        return [TrainerSpec(name="ppo", target="a:b", settings=f"{__name__}:Underived")]

    @hookimpl
    def rlcore_environments(self) -> list[EnvironmentSpec]:
        return [EnvironmentSpec(name="none", target="a:b")]


@pytest.fixture
def acme() -> Plugins:
    """A plugin with opponents, a trainer and an environment beside the built-in opponents."""
    plugins = load_plugins(selection_from(None, {}, ("rlcore-ghost/ghost",), True))
    plugins.register(Acme(), "acme", "acme-rl", "1.0")
    return plugins


HEAD = "behaviors: {B: {}}\nenvironment: {type: none, id: x}\nevaluation:\n  interval: 9\n  opponents:\n"


def load(plugins: Plugins, text: str) -> RunConfig:
    return load_config(parse_document(HEAD + text, "c.yaml"), plugins)


def opponents(plugins: Plugins, text: str) -> Any:
    config = load(plugins, text)
    assert config.evaluation is not None
    return config, config.evaluation.sections["opponents"].opponents


def test_a_block_is_named_after_its_type_or_has_one(acme: Plugins) -> None:
    text = (
        "    random: {}\n    tree: {depth: 5}\n    deep: {type: acme-rl/tree}\n    old: {type: run, path: results/a}\n"
    )
    config, found = opponents(acme, text)
    assert list(found) == ["random", "tree", "deep", "old"]
    assert [type(block) for block in found.values()] == [
        OpponentSettings, TreeSettings, TreeSettings, EarlierOpponentSettings,
    ]  # fmt: skip
    assert [block.type for block in found.values()] == ["random", "tree", "acme-rl/tree", "run"]
    assert found["tree"].depth == 5 and found["deep"].depth == 2 and found["old"].checkpoint == "last"
    written = dump_config(config)
    assert written["evaluation"]["opponents"]["random"] == {"type": "random"}
    assert config_from_mapping(written, acme) == config


@pytest.mark.parametrize("case", yaml.safe_load((Path(__file__).parent / "data/wrong_blocks.yaml").read_text("utf-8")))
def test_a_wrong_block_is_refused_with_its_line(acme: Plugins, case: dict[str, str]) -> None:
    with pytest.raises(ConfigErrors, match=re.escape(case["message"])):
        load(acme, case["opponents"])


# ---------------------------------------------------------------- creating them


class Scripted:
    """Answers what ``answer`` is."""

    answer: Any = None

    def __init__(self, settings: Any, behavior: BehaviorSpec, run: Any) -> None:
        if behavior.continuous > 2:
            raise UnsupportedSpace("searches no real numbers")
        self.settings, self.behavior = settings, behavior

    def seed(self, seed: int) -> None:
        """Nothing is drawn."""

    def act(self, observations: Any, action_mask: Any = None, deterministic: bool = True) -> Any:
        return self.answer


SEEN = (ObservationSpec("o", (1,), np.float32),)
BEHAVIOR = BehaviorSpec("B", SEEN, discrete=(2, 3))


def context(plugins: Plugins) -> RunContext:
    return RunContext(SimpleNamespace(), plugins, SimpleNamespace(), 0, 1)  # type: ignore[arg-type]


def create(plugins: Plugins, behavior: BehaviorSpec = BEHAVIOR, **blocks: OpponentSettings) -> Any:
    return create_opponents(blocks, behavior, context(plugins), ("evaluation", "opponents"))


def test_an_error_begins_with_the_key(acme: Plugins) -> None:
    with pytest.raises(ConfigError, match=r"^evaluation\.opponents\.it: unknown opponent 'trees'") as caught:
        create(acme, it=OpponentSettings(type="trees"))
    assert caught.value.key == ("evaluation", "opponents", "it")
    many = attrs.evolve(BEHAVIOR, continuous=3)
    with pytest.raises(UnsupportedSpace, match=r"^evaluation\.opponents\.tree: searches no real numbers"):
        create(acme, many, tree=TreeSettings())


ONE = np.zeros((4, 1), np.float32)
GOOD = np.array([[0, 0], [1, 2], [0, 1], [1, 0]])


HYBRID = attrs.evolve(BEHAVIOR, continuous=1)


@pytest.mark.parametrize(
    ("behavior", "answer", "problem"),
    [
        (BEHAVIOR, GOOD, "a ndarray instead of Actions"),
        (BEHAVIOR, Actions(), r"NoneType as discrete actions instead of an array \[4, 2\] of integers"),
        (BEHAVIOR, Actions(discrete=GOOD[:3]), r"int64\[3, 2\] as discrete actions instead"),
        (BEHAVIOR, Actions(discrete=GOOD[:, 0]), r"int64\[4\] as discrete actions instead"),
        (BEHAVIOR, Actions(discrete=GOOD * 1.0), r"float64\[4, 2\] as discrete"),
        (BEHAVIOR, Actions(discrete=GOOD + 1), r"an option outside the branches \[2, 3\]"),
        (BEHAVIOR, Actions(discrete=GOOD - 1), "an option outside"),
        (BEHAVIOR, Actions(ONE, GOOD), r"float32\[4, 1\] as continuous actions instead of None"),
        (HYBRID, Actions(ONE + np.nan, GOOD), "continuous actions that are not finite"),
    ],
)
def test_wrong_actions_of_a_plugin_name_it(
    acme: Plugins, monkeypatch: pytest.MonkeyPatch, behavior: BehaviorSpec, answer: Any, problem: str
) -> None:
    policy = create(acme, behavior, tree=TreeSettings())["tree"]
    monkeypatch.setattr(Scripted, "answer", answer)
    with pytest.raises(PluginError, match=f"opponent 'tree' of plugin 'acme' .*: act returned {problem}"):
        policy.act({"o": ONE})


def test_actions_become_the_types_of_actions(acme: Plugins, monkeypatch: pytest.MonkeyPatch) -> None:
    made = create(acme, HYBRID, random=OpponentSettings(), mine=TreeSettings(type="tree"))
    assert isinstance(made["random"], RandomPolicy), "a built-in opponent needs no check"
    assert made["mine"]._policy.settings == TreeSettings(type="tree")
    monkeypatch.setattr(Scripted, "answer", Actions(ONE.astype(np.float64), GOOD.astype(np.int32)))
    actions = made["mine"].act({"o": ONE})
    assert actions.continuous.dtype == np.float32 and actions.discrete.dtype == np.int64
    assert np.array_equal(actions.discrete, GOOD)
