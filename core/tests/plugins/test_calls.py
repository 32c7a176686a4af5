"""The facade: records are found by name, and notifications cannot hurt one another."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from rlcore import TrainerSpec, hookimpl
from rlcore.errors import ConfigError, PluginError
from rlcore.plugins.call import Plugins, load_plugins
from rlcore.plugins.select import Selection, selection_from
from rlcore.settings import PluginSettings, RunConfig
from rlcore_devkit.fixtures import InstallPlugin

pytestmark = pytest.mark.smoke

RUN: Any = SimpleNamespace()
WALKER: Any = SimpleNamespace(name="Walker", continuous=0, discrete=(2,))
PPO = TrainerSpec(name="ppo", target="json:loads", settings="json:loads")
PluginOf = Callable[..., object]


# ---------------------------------------------------------------- references


def test_an_unknown_name_says_what_is_allowed_and_what_is_near(plugins: Plugins, plugin_of: PluginOf) -> None:
    plugins.register(plugin_of(PPO, TrainerSpec(name="sac", target="a:b", settings="a:b")), "two", "acme-two", "1")
    with pytest.raises(ConfigError) as caught:
        plugins.trainer("pp0")
    assert str(caught.value) == "unknown trainer 'pp0'; allowed: ppo, sac; did you mean 'ppo'?"


def test_a_core_without_trainers_says_which_package_brings_one(plugins: Plugins) -> None:
    with pytest.raises(ConfigError, match=r"no trainer is installed; pip install rlcore-ppo$"):
        plugins.trainer("ppo")


def test_an_unknown_name_mentions_plugins_that_were_refused_or_are_off(installed_plugin: InstallPlugin) -> None:
    installed_plugin("broken", "acme-broken", "0.4", "import a_module_that_is_absent\n")
    installed_plugin("quiet", "acme-quiet", "2", "")
    with pytest.raises(ConfigError) as caught:
        load_plugins(selection_from(None, {}, ["no:quiet"], False)).trainer("dreamer")
    assert "turned off: plugin 'quiet' (acme-quiet 2)" in str(caught.value)
    assert "plugin 'broken' (acme-broken 0.4) failed to load: ModuleNotFoundError" in str(caught.value)


def test_two_owners_of_a_name_are_an_error_only_where_the_bare_name_is_used(
    plugins: Plugins, plugin_of: PluginOf
) -> None:
    mine = TrainerSpec(name="ppo", target="json:dumps", settings="a:b")
    plugins.register(plugin_of(PPO), "ppo", "rlcore-ppo", "0.1.0")
    plugins.register(plugin_of(mine), "acme", "Acme.PPO", "1.0")
    assert len(plugins.records("trainer")) == 2
    assert plugins.trainer("acme-ppo/ppo").target == mine.target == "json:dumps"
    assert plugins.trainer("rlcore-ppo/ppo").target == PPO.target == "json:loads"
    with pytest.raises(PluginError) as caught:
        plugins.trainer("ppo")
    assert str(caught.value) == (
        "trainer 'ppo' is provided by plugin 'acme' (Acme.PPO 1.0) and plugin 'ppo' (rlcore-ppo 0.1.0); "
        "write trainer_type: Acme.PPO/ppo or rlcore-ppo/ppo"
    )


def test_equal_records_of_two_plugins_keep_their_owners(plugins: Plugins, plugin_of: PluginOf) -> None:
    broken = {"name": "x", "target": "absent_module:X", "settings": "a:b"}
    plugins.register(plugin_of(TrainerSpec(**broken)), "one", "acme-one", "1")
    plugins.register(plugin_of(TrainerSpec(**broken)), "two", "acme-two", "2")
    for distribution in ("acme-one", "acme-two"):
        with pytest.raises(PluginError, match=rf"\({distribution} \d\)"):
            plugins.create_trainer(plugins.trainer(f"{distribution}/x"), None, WALKER, RUN)  # type: ignore[arg-type]
    one, two = plugins.records("trainer")
    assert one != two
    assert [(record.reference, record.described) for record in (one, two)] == [
        ("acme-one/x", "trainer 'x' of plugin 'one' (acme-one 1)"),
        ("acme-two/x", "trainer 'x' of plugin 'two' (acme-two 2)"),
    ]


WRITES = """\
from rlcore import StatsWriterSpec, hookimpl

@hookimpl
def rlcore_stats_writers():
    return [StatsWriterSpec(name="cloud", target="a:b", default_on=True)]
"""


@pytest.mark.parametrize(("distribution", "honored"), [("rlcore-tensorboard", True), ("acme-logs", False)])
def test_installing_a_strangers_package_never_turns_a_writer_on(
    installed_plugin: Any, distribution: str, honored: bool
) -> None:
    installed_plugin("cloud", distribution, "1", WRITES)
    writer = load_plugins(selection_from(None, {}, (), False)).stats_writer(f"{distribution}/cloud")
    assert writer.default_on is honored


@pytest.mark.parametrize(
    "selection",
    [
        selection_from(PluginSettings(enable=["cloud"]), {}, (), False),
        selection_from(None, {"RLCORE_PLUGINS": "cloud"}, (), False),
        selection_from(None, {}, ("acme-logs/cloud",), False),
        selection_from(None, {}, ("cloud",), True),
    ],
    ids=["enable", "environment", "-p", "--no-plugins -p"],
)
def test_a_writer_of_a_plugin_that_the_user_named_is_on(installed_plugin: Any, selection: Selection) -> None:
    installed_plugin("cloud", "acme-logs", "1", WRITES)
    assert load_plugins(selection).stats_writer("cloud").default_on


# ---------------------------------------------------------------- notifications


class Fails:
    @hookimpl
    def rlcore_run_started(self, run: Any) -> None:
        raise ValueError("not today")

    @hookimpl
    def rlcore_check_config(self, config: Any) -> None:
        raise ValueError("not today")


class Hears:
    def __init__(self) -> None:
        self.heard: list[str] = []

    @hookimpl
    def rlcore_run_started(self, run: Any) -> None:
        self.heard.append("started")

    @hookimpl
    def rlcore_check_config(self, config: Any) -> None:
        self.heard.append("checked")

    @hookimpl
    def rlcore_run_finished(self, outcome: str, error: BaseException | None) -> None:
        self.heard.append(outcome)


def test_one_plugins_failure_neither_stops_the_run_nor_reaches_the_others(plugins: Plugins) -> None:
    before, after = Hears(), Hears()
    plugins.register(before, "before")
    plugins.register(Fails(), "bad", "acme-bad", "0.4")
    plugins.register(after, "after")
    plugins.run_started(RUN)
    plugins.run_started(RUN)
    plugins.run_finished(RUN, "failed", ValueError(), {})
    assert before.heard == after.heard == ["started", "started", "failed"]
    assert plugins.failures == [
        "plugin 'bad' (acme-bad 0.4) failed in rlcore_run_started: ValueError: not today (2 times)"
    ]


def test_strict_makes_a_failed_notification_fatal() -> None:
    plugins = Plugins(strict=True)
    plugins.register(Fails(), "bad", "acme-bad", "0.4")
    with pytest.raises(PluginError, match="failed in rlcore_run_started: ValueError: not today"):
        plugins.run_started(RUN)


def test_a_check_may_refuse_with_a_config_error(plugins: Plugins) -> None:
    class Refuses:
        @hookimpl
        def rlcore_check_config(self, config: RunConfig) -> None:
            raise ConfigError("acme needs two behaviors")

    plugins.check_config(RunConfig())
    plugins.register(Hears(), "hears")
    with pytest.raises(ConfigError, match=r"^acme needs two behaviors \(refused by plugin 'refuses' \(acme 1\)\)$"):
        plugins.register(Refuses(), "refuses", "acme", "1")


def test_a_bug_in_a_check_refuses_too_because_nothing_was_checked(plugins: Plugins) -> None:
    plugins.register(Fails(), "bad", "acme-bad", "0.4")
    with pytest.raises(PluginError) as caught:
        plugins.check_config(RunConfig())
    assert str(caught.value) == "plugin 'bad' (acme-bad 0.4) failed in rlcore_check_config: ValueError: not today"
    assert plugins.failures == []


def test_run_started_may_not_refuse(plugins: Plugins) -> None:
    class Refuses:
        @hookimpl
        def rlcore_run_started(self, run: Any) -> None:
            raise ConfigError("too late")

    plugins.register(Refuses(), "late", "acme-late", "1")
    plugins.run_started(RUN)
    assert plugins.failures == ["plugin 'late' (acme-late 1) failed in rlcore_run_started: too late"]


def test_a_check_is_made_by_plugins_that_register_later_and_once(plugins: Plugins) -> None:
    early, late = Hears(), Hears()
    plugins.register(early, "early")
    plugins.check_config(RunConfig())
    plugins.register(late, "late")
    assert early.heard == late.heard == ["checked"]
