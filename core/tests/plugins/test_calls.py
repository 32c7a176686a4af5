"""The facade: records are found by name, and notifications cannot hurt one another."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest

from rlcore import (
    CurriculumSpec,
    Plugin,
    Plugins,
    StatsWriterSpec,
    TrainerSpec,
    hookimpl,
    load_plugins,
    selection_from,
)
from rlcore.errors import ConfigError, NotInstalled, PluginError
from rlcore.plugins.select import Selection
from rlcore.settings import PluginSettings, RunConfig

pytestmark = pytest.mark.smoke

RUN: Any = SimpleNamespace()
WALKER: Any = SimpleNamespace(name="Walker", continuous=0, discrete=(2,))
PPO = TrainerSpec(name="ppo", target="json:loads", settings="json:loads")
PluginOf = Callable[..., object]


# ---------------------------------------------------------------- references


def test_an_unknown_name_says_what_is_allowed_and_what_is_near(plugins: Plugins, plugin_of: PluginOf) -> None:
    with pytest.raises(ConfigError, match=r"no trainer is installed; pip install rlcore-ppo$"):
        plugins.record(TrainerSpec, "ppo")
    plugins.register(plugin_of(PPO, TrainerSpec(name="sac", target="a:b", settings="a:b")), "two", "acme-two", "1")
    with pytest.raises(ConfigError) as caught:
        plugins.record(TrainerSpec, "pp0")
    assert str(caught.value) == "unknown trainer 'pp0'; allowed: ppo, sac; did you mean 'ppo'?"


def test_two_owners_of_a_name_are_an_error_only_where_the_bare_name_is_used(
    plugins: Plugins, plugin_of: PluginOf
) -> None:
    plugins.register(plugin_of(PPO), "ppo", "rlcore-ppo", "0.1.0")
    plugins.register(plugin_of(PPO), "acme", "Acme.PPO", "1.0")
    one, two = plugins.records("trainer")
    assert one != two
    assert plugins.record(TrainerSpec, "acme-ppo/ppo").described == "trainer 'ppo' of plugin 'acme' (Acme.PPO 1.0)"
    assert plugins.record(TrainerSpec, "rlcore-ppo/ppo").described == "trainer 'ppo' of plugin 'ppo' (rlcore-ppo 0.1.0)"
    with pytest.raises(PluginError) as caught:
        plugins.record(TrainerSpec, "ppo")
    assert str(caught.value) == (
        "trainer 'ppo' is provided by plugin 'acme' (Acme.PPO 1.0) and plugin 'ppo' (rlcore-ppo 0.1.0); "
        "write trainer_type: Acme.PPO/ppo or rlcore-ppo/ppo"
    )


ACME = Plugin("acme", "acme.hooks", "acme-rl-curricula", "1.0")
THERE = CurriculumSpec(name="bandit", target="json:loads", settings="json:loads", plugin=ACME)


def find(reference: str, *records: CurriculumSpec) -> CurriculumSpec:
    with patch.object(Plugins, "records", return_value=records):
        return Plugins().record(CurriculumSpec, reference)


@pytest.mark.parametrize(
    ("reference", "absent"), [("acme-rl-twin/bandit", True), ("acme_rl.curricula/ladder", False), ("ladder", False)]
)
def test_a_distribution_that_is_not_there_is_named(reference: str, absent: bool) -> None:
    with pytest.raises(NotInstalled, match=f"^unknown curriculum '{reference}'; allowed: ") as caught:
        find(reference, THERE)
    assert ("nothing called 'acme-rl-twin' is installed" in str(caught.value)) == absent


WRITES = """\
from rlcore import StatsWriterSpec, hookimpl

@hookimpl
def rlcore_stats_writers():
    return [StatsWriterSpec(name="cloud", target="a:b", default_on=True)]
"""


@pytest.mark.parametrize(
    ("distribution", "selection", "honored"),
    [
        ("acme-logs", selection_from(None, {}, (), False), False),
        ("rlcore-tensorboard", selection_from(None, {}, (), False), True),
        ("acme-logs", selection_from(PluginSettings(enable=["cloud"]), {}, (), False), True),
        ("acme-logs", selection_from(None, {"RLCORE_PLUGINS": "cloud"}, (), False), True),
        ("acme-logs", selection_from(None, {}, ("acme-logs/cloud",), False), True),
        ("acme-logs", selection_from(None, {}, ("cloud",), True), True),
        ("acme-logs", selection_from(None, {}, ("top",), True), False),  # only required by what was named
    ],
)
def test_installing_a_strangers_package_never_turns_a_writer_on_and_naming_it_does(
    installed_plugin: Any, distribution: str, selection: Selection, honored: bool
) -> None:
    installed_plugin("cloud", distribution, "1", WRITES)
    installed_plugin("top", "acme-top", "1", "from rlcore import hookimpl\n", requires=[distribution])
    assert load_plugins(selection).record(StatsWriterSpec, f"{distribution}/cloud").default_on is honored


# ---------------------------------------------------------------- notifications and checks


class Hears:
    """Hears what it is told, and raises ``error`` when a run starts and when a configuration is checked."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.heard: list[str] = []
        self.error = error

    def hear(self, word: str) -> None:
        self.heard.append(word)
        if self.error is not None:
            raise self.error

    @hookimpl
    def rlcore_run_started(self, run: Any) -> None:
        self.hear("started")

    @hookimpl
    def rlcore_check_config(self, config: Any) -> None:
        self.hear("checked")

    @hookimpl
    def rlcore_run_finished(self, outcome: str, error: BaseException | None) -> None:
        self.heard.append(outcome)


def test_one_plugins_failure_neither_stops_the_run_nor_reaches_the_others(plugins: Plugins) -> None:
    before = Hears()
    after = Hears()
    plugins.register(before, "before")
    plugins.register(Hears(ValueError("not today")), "bad", "acme-bad", "0.4")
    plugins.register(Hears(ConfigError("too late")), "late", "acme-late", "1")
    plugins.register(after, "after")
    plugins.notify("rlcore_run_started", run=RUN)
    plugins.notify("rlcore_run_started", run=RUN)
    plugins.notify("rlcore_run_finished", run=RUN, outcome="failed", error=ValueError(), results={})
    assert before.heard == after.heard == ["started", "started", "failed"]
    assert plugins.failures == [
        "plugin 'late' (acme-late 1) failed in rlcore_run_started: too late (2 times)",
        "plugin 'bad' (acme-bad 0.4) failed in rlcore_run_started: ValueError: not today (2 times)",
    ]


@pytest.mark.parametrize(("strict", "error"), [(True, ValueError("not today")), (False, SystemExit("not today"))])
def test_strict_makes_a_failed_notification_fatal_and_so_does_sys_exit(strict: bool, error: BaseException) -> None:
    plugins = Plugins(strict=strict)
    plugins.register(Hears(error), "bad", "acme-bad", "0.4")
    with pytest.raises(PluginError, match=f"failed in rlcore_run_started: {type(error).__name__}: not today"):
        plugins.notify("rlcore_run_started", run=RUN)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ConfigError("two behaviors"), "two behaviors (refused by plugin 'bad' (acme-bad 0.4))"),
        (ValueError("oops"), "plugin 'bad' (acme-bad 0.4) failed in rlcore_check_config: ValueError: oops"),
    ],
)
def test_a_check_refuses_and_so_does_a_bug_in_it_because_nothing_was_checked(
    plugins: Plugins, error: Exception, said: str
) -> None:
    early = Hears()
    late = Hears()
    plugins.register(early, "early")
    plugins.check_config(RunConfig())
    plugins.register(late, "late")  # checks when it is registered, and alone
    assert early.heard == late.heard == ["checked"]
    with pytest.raises(ConfigError if isinstance(error, ConfigError) else PluginError) as caught:
        plugins.register(Hears(error), "bad", "acme-bad", "0.4")
    assert str(caught.value) == said and plugins.failures == []
