"""The facade: finding records, making objects, whom errors name, and notifications that cannot hurt one another."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rlcore import CurriculumSpec, EnvironmentSpec, RewardProviderSpec, StatsWriterSpec, TrainerSpec, hookimpl
from rlcore.errors import ConfigError, PluginError, RunStateError, UnsupportedSpace
from rlcore.plugins import Plugins, load_plugins, selection_from
from rlcore.settings import RunConfig
from rlcore.testing.fixtures import InstallPlugin

pytestmark = pytest.mark.smoke

RUN: Any = SimpleNamespace()
WALKER: Any = SimpleNamespace(name="Walker", continuous=0, discrete=(2,))
PPO = TrainerSpec(name="ppo", target="json:loads", settings="json:loads")


class Brings:
    """A plugin of one trainer."""

    def __init__(self, *records: TrainerSpec) -> None:
        self.records = records

    @hookimpl
    def rlcore_trainers(self) -> tuple[TrainerSpec, ...]:
        return self.records


# ---------------------------------------------------------------- references


def test_an_unknown_name_says_what_is_allowed_and_what_is_near(plugins: Plugins) -> None:
    plugins.register(Brings(PPO, TrainerSpec(name="sac", target="a:b", settings="a:b")), "two", "acme-two", "1")
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


def test_two_owners_of_a_name_are_an_error_only_where_the_bare_name_is_used(plugins: Plugins) -> None:
    mine = TrainerSpec(name="ppo", target="json:dumps", settings="a:b")
    plugins.register(Brings(PPO), "ppo", "rlcore-ppo", "0.1.0")
    plugins.register(Brings(mine), "acme", "Acme.PPO", "1.0")
    assert len(plugins.records("trainer")) == 2
    assert plugins.trainer("acme-ppo/ppo").target == mine.target == "json:dumps"
    assert plugins.trainer("rlcore-ppo/ppo").target == PPO.target == "json:loads"
    with pytest.raises(PluginError) as caught:
        plugins.trainer("ppo")
    assert str(caught.value) == (
        "trainer 'ppo' is provided by plugin 'acme' (Acme.PPO 1.0) and plugin 'ppo' (rlcore-ppo 0.1.0); "
        "write trainer_type: Acme.PPO/ppo or rlcore-ppo/ppo"
    )


def test_equal_records_of_two_plugins_keep_their_owners(plugins: Plugins) -> None:
    broken = {"name": "x", "target": "absent_module:X", "settings": "a:b"}
    plugins.register(Brings(TrainerSpec(**broken)), "one", "acme-one", "1")
    plugins.register(Brings(TrainerSpec(**broken)), "two", "acme-two", "2")
    for distribution in ("acme-one", "acme-two"):
        with pytest.raises(PluginError, match=rf"\({distribution} \d\)"):
            plugins.create_trainer(plugins.trainer(f"{distribution}/x"), None, WALKER, RUN)  # type: ignore[arg-type]
    one, two = plugins.records("trainer")
    assert one != two
    assert [(record.reference, record.described) for record in (one, two)] == [
        ("acme-one/x", "trainer 'x' of plugin 'one' (acme-one 1)"),
        ("acme-two/x", "trainer 'x' of plugin 'two' (acme-two 2)"),
    ]


@pytest.mark.parametrize(("distribution", "honoured"), [("rlcore-tensorboard", True), ("acme-logs", False)])
def test_installing_a_strangers_package_never_turns_a_writer_on(
    plugins: Plugins, distribution: str, honoured: bool
) -> None:
    class Writes:
        @hookimpl
        def rlcore_stats_writers(self) -> list[StatsWriterSpec]:
            return [StatsWriterSpec(name="cloud", target="a:b", default_on=True)]

    plugins.register(Writes(), "cloud", distribution, "1")
    assert plugins.stats_writer("cloud").default_on is honoured


# ---------------------------------------------------------------- targets


def test_a_target_may_be_an_attribute_of_a_class() -> None:
    record = RewardProviderSpec(name="r", target="pathlib:Path.cwd", settings="rlcore.settings:RewardSettings")
    assert record.resolve()() == Path.cwd()
    assert record.resolve("settings").__name__ == "RewardSettings"


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("absent_module:X", " failed to import absent_module: ModuleNotFoundError: No module named 'absent_module'"),
        ("json:Absent.x", ": json has no 'Absent.x'"),
    ],
)
def test_a_target_that_cannot_be_imported_names_record_plugin_and_distribution(
    plugins: Plugins, target: str, expected: str
) -> None:
    plugins.register(Brings(TrainerSpec(name="x", target=target, settings="a:b")), "acme", "acme-rl", "3.1")
    with pytest.raises(PluginError) as caught:
        plugins.trainer("x").resolve()
    assert str(caught.value) == f"trainer 'x' of plugin 'acme' (acme-rl 3.1){expected}"


def test_a_target_whose_module_calls_sys_exit_is_named(
    plugins: Plugins, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "leaves_at_import.py").write_text("import sys; sys.exit(0)")
    monkeypatch.syspath_prepend(str(tmp_path))
    plugins.register(Brings(TrainerSpec(name="x", target="leaves_at_import:X", settings="a:b")), "acme", "acme-rl", "3")
    with pytest.raises(PluginError, match=r"plugin 'acme' \(acme-rl 3\) failed to import leaves_at_import: SystemExit"):
        plugins.trainer("x").resolve()


# ---------------------------------------------------------------- factories


class FakeTrainer:
    policy: Any = None
    steps = 0

    def __init__(self, **arguments: Any) -> None:
        self.arguments = arguments

    def begin(self, batch: Any) -> None: ...
    def act(self, batch: Any) -> Any: ...
    def observe(self, actions: Any, batch: Any) -> None: ...
    def ready(self) -> bool:
        return False

    def update(self) -> dict[str, float]:
        return {}

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: Any) -> None: ...
    def load_model(self, model: Any) -> None: ...


def fails(**arguments: Any) -> Any:
    raise ZeroDivisionError("division\nby zero")


def refuses(**arguments: Any) -> Any:
    raise UnsupportedSpace("trainer 'x' cannot learn hybrid actions")


def incomplete(**arguments: Any) -> Any:
    return SimpleNamespace(act=1, observe=1, steps=0)


@pytest.fixture
def making(plugins: Plugins, monkeypatch: pytest.MonkeyPatch) -> Any:
    """``making(factory)`` makes a trainer whose record targets ``factory``."""

    def make(factory: Any, *others: object) -> Any:
        monkeypatch.setattr("json.made_by_this_test", factory, raising=False)
        record = TrainerSpec(name="x", target="json:made_by_this_test", settings="a:b")
        plugins.register(Brings(record), "acme", "acme-rl", "3.1")
        for index, other in enumerate(others):
            plugins.register(other, f"other{index}", f"acme-other{index}", "1")
        return plugins.create_trainer(plugins.trainer("x"), "settings", WALKER, RUN)  # type: ignore[arg-type]

    return make


def test_the_default_calls_the_target_by_keyword(making: Any) -> None:
    assert making(FakeTrainer).arguments == {"settings": "settings", "behavior": WALKER, "run": RUN}


def test_an_error_in_a_target_names_its_plugin_not_core(making: Any) -> None:
    with pytest.raises(PluginError) as caught:
        making(fails)
    assert str(caught.value) == (
        "trainer 'x' of plugin 'acme' (acme-rl 3.1) failed in rlcore_create_trainer: "
        "ZeroDivisionError: division by zero"
    )
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_errors_meant_for_the_user_pass_unchanged(making: Any) -> None:
    with pytest.raises(UnsupportedSpace, match=r"^trainer 'x' cannot learn hybrid actions$"):
        making(refuses)


def test_what_a_factory_returns_must_keep_the_protocol(making: Any) -> None:
    with pytest.raises(PluginError) as caught:
        making(incomplete)
    assert str(caught.value) == (
        "trainer 'x' of plugin 'acme' (acme-rl 3.1) returned a SimpleNamespace, which is not a Trainer: "
        "it lacks begin, load_model, load_state_dict, policy, ready, state_dict, update"
    )


@pytest.mark.parametrize(
    ("continuous", "discrete", "kind"), [(2, (), "continuous"), (2, (3,), "hybrid"), (0, (3, 2), "discrete")]
)
def test_actions_that_a_trainer_does_not_declare_are_refused_before_it_is_imported(
    plugins: Plugins, continuous: int, discrete: tuple[int, ...], kind: str
) -> None:
    others = {"continuous", "hybrid", "discrete"} - {kind}
    plugins.register(Brings(TrainerSpec(name="x", target="absent:X", settings="a:b", spaces=others)), "acme")
    behavior: Any = SimpleNamespace(name="Walker", continuous=continuous, discrete=discrete)
    with pytest.raises(UnsupportedSpace) as caught:
        plugins.create_trainer(plugins.trainer("x"), "settings", behavior, RUN)  # type: ignore[arg-type]
    assert str(caught.value) == (
        f"behavior 'Walker' has {kind} actions and trainer 'x' learns {' or '.join(sorted(others))} ones only; "
        "choose another trainer_type"
    )


def test_a_plugin_may_answer_before_core(making: Any) -> None:
    mine = FakeTrainer()

    class Substitutes:
        @hookimpl
        def rlcore_create_trainer(self, spec: Any) -> Any:
            return mine if spec.name == "x" else None

    assert making(fails, Substitutes()) is mine


def test_a_wrapper_may_decorate_any_answer(making: Any) -> None:
    class Wraps:
        @hookimpl(wrapper=True)
        def rlcore_create_trainer(self) -> Generator[None, FakeTrainer, FakeTrainer]:
            outer = FakeTrainer()
            outer.arguments = {"inner": (yield)}
            return outer

    assert making(FakeTrainer, Wraps()).arguments["inner"].arguments == {
        "settings": "settings",
        "behavior": WALKER,
        "run": RUN,
    }


class BadWrapper:
    @hookimpl(wrapper=True)
    def rlcore_create_trainer(self) -> Generator[None, None, None]:
        yield
        raise KeyError("mine")


class FairWrapper:
    @hookimpl(wrapper=True)
    def rlcore_create_trainer(self) -> Any:
        return (yield)


class BadAnswer:
    @hookimpl
    def rlcore_create_trainer(self) -> Any:
        raise KeyError("absent")


def test_an_error_in_a_wrapper_is_the_wrappers(making: Any) -> None:
    with pytest.raises(PluginError, match=r"plugin 'other0' \(acme-other0 1\) failed in rlcore_create_trainer"):
        making(FakeTrainer, BadWrapper(), FairWrapper())


def test_an_error_below_a_wrapper_is_not_the_wrappers(making: Any) -> None:
    with pytest.raises(PluginError, match=r"plugin 'other1' \(acme-other1 1\) failed in .*KeyError: 'absent'"):
        making(FakeTrainer, FairWrapper(), BadAnswer())


def test_targets_of_every_kind_get_settings_behavior_and_run_by_keyword(
    plugins: Plugins, monkeypatch: pytest.MonkeyPatch
) -> None:
    received: list[dict[str, Any]] = []

    def target(**arguments: Any) -> Any:
        received.append(arguments)
        raise UnsupportedSpace("enough was seen")

    monkeypatch.setattr("json.made_by_this_test", target, raising=False)
    names: Any = {"name": "x", "target": "json:made_by_this_test"}
    settings: Any = object()
    calls: list[Any] = [
        lambda: plugins.create_trainer(TrainerSpec(**names, settings="a:b"), settings, WALKER, RUN),
        lambda: plugins.create_reward_provider(RewardProviderSpec(**names, settings="a:b"), settings, WALKER, RUN),
        lambda: plugins.create_stats_writer(StatsWriterSpec(**names), settings, RUN),
        lambda: plugins.create_environment(EnvironmentSpec(**names), settings, RUN),
        lambda: plugins.create_curriculum(CurriculumSpec(**names, settings="a:b"), settings, RUN),
    ]
    for call in calls:
        with pytest.raises(UnsupportedSpace):
            call()
    learned, others = {"settings": settings, "behavior": WALKER, "run": RUN}, {"settings": settings, "run": RUN}
    assert received == [learned, learned, others, others, others]


def test_environments_writers_and_rewards_are_made_alike(plugins: Plugins, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("json.made_by_this_test", incomplete, raising=False)
    target = "json:made_by_this_test"
    with pytest.raises(PluginError, match=r"which is not a Environment: it lacks .*episodes.*reset"):
        plugins.create_environment(EnvironmentSpec(name="e", target=target), None, RUN)  # type: ignore[arg-type]
    with pytest.raises(PluginError, match="which is not a StatsWriter: it lacks close, write"):
        plugins.create_stats_writer(StatsWriterSpec(name="w", target=target), None, RUN)
    with pytest.raises(PluginError, match="which is not a RewardProvider: it lacks evaluate, gamma"):
        plugins.create_reward_provider(
            RewardProviderSpec(name="r", target=target, settings="a:b"),
            None,
            None,  # type: ignore[arg-type]
            RUN,
        )


# ---------------------------------------------------------------- notifications


class Fails:
    @hookimpl
    def rlcore_run_started(self, run: Any) -> None:
        raise ValueError("not today")

    @hookimpl
    def rlcore_configured(self, config: Any) -> None:
        raise ValueError("not today")


class Hears:
    def __init__(self) -> None:
        self.heard: list[str] = []

    @hookimpl
    def rlcore_run_started(self, run: Any) -> None:
        self.heard.append("started")

    @hookimpl
    def rlcore_configured(self, config: Any) -> None:
        self.heard.append("configured")

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
    plugins.run_finished(RUN, "failed", ValueError())
    assert before.heard == after.heard == ["started", "started", "failed"]
    assert plugins.failures == [
        "plugin 'bad' (acme-bad 0.4) failed in rlcore_run_started: ValueError: not today (2 times)"
    ]


def test_strict_makes_a_failed_notification_fatal() -> None:
    plugins = Plugins(strict=True)
    plugins.register(Fails(), "bad", "acme-bad", "0.4")
    with pytest.raises(PluginError, match="failed in rlcore_run_started: ValueError: not today"):
        plugins.run_started(RUN)


def test_configured_may_refuse_with_a_config_error(plugins: Plugins) -> None:
    class Refuses:
        @hookimpl
        def rlcore_configured(self, config: RunConfig) -> None:
            raise ConfigError("acme needs two behaviors")

    plugins.configured(RunConfig())
    plugins.register(Hears(), "hears")
    with pytest.raises(ConfigError, match=r"^acme needs two behaviors$"):
        plugins.register(Refuses(), "refuses")


def test_a_bug_in_configured_refuses_too_because_nothing_was_checked(plugins: Plugins) -> None:
    plugins.register(Fails(), "bad", "acme-bad", "0.4")
    with pytest.raises(PluginError) as caught:
        plugins.configured(RunConfig())
    assert str(caught.value) == "plugin 'bad' (acme-bad 0.4) failed in rlcore_configured: ValueError: not today"
    assert plugins.failures == []


def test_run_started_may_not_refuse(plugins: Plugins) -> None:
    class Refuses:
        @hookimpl
        def rlcore_run_started(self, run: Any) -> None:
            raise ConfigError("too late")

    plugins.register(Refuses(), "late", "acme-late", "1")
    plugins.run_started(RUN)
    assert plugins.failures == ["plugin 'late' (acme-late 1) failed in rlcore_run_started: too late"]


def test_configured_is_heard_by_plugins_that_register_later_and_once(plugins: Plugins) -> None:
    early, late = Hears(), Hears()
    plugins.register(early, "early")
    plugins.configured(RunConfig())
    plugins.register(late, "late")
    assert early.heard == late.heard == ["configured"]


# ---------------------------------------------------------------- status


def reporting(**sections: Any) -> object:
    class Reports:
        @hookimpl
        def rlcore_report_status(self) -> Any:
            return sections

    return Reports()


def test_every_plugins_section_is_reported(plugins: Plugins) -> None:
    plugins.register(reporting(elo={"a": 1}), "elo")
    plugins.register(reporting(lessons=[2]), "lessons")
    plugins.register(type("Silent", (), {})(), "silent")
    assert plugins.report_status(RUN) == {"elo": {"a": 1}, "lessons": [2]}


def test_two_plugins_may_not_report_one_section(plugins: Plugins) -> None:
    plugins.register(reporting(elo={}), "one", "acme-one", "1")
    plugins.register(reporting(elo={}), "two", "acme-two", "2")
    with pytest.raises(PluginError, match=r"\(acme-two 2\).*\(acme-one 1\)|\(acme-one 1\).*\(acme-two 2\)"):
        plugins.report_status(RUN)


def test_a_section_that_is_not_json_names_its_plugin(plugins: Plugins) -> None:
    plugins.register(reporting(elo={1, 2}), "one", "acme-one", "1")
    with pytest.raises(PluginError, match=r"plugin 'one' \(acme-one 1\): status section 'elo' is not JSON"):
        plugins.report_status(RUN)


def test_an_error_while_restoring_stops_the_run(plugins: Plugins) -> None:
    class Restores:
        @hookimpl
        def rlcore_restore_status(self, sections: Any) -> None:
            sections["absent"]

    plugins.register(Restores(), "one", "acme-one", "1")
    with pytest.raises(PluginError, match=r"\(acme-one 1\) failed in rlcore_restore_status: KeyError: 'absent'"):
        plugins.restore_status(RUN, {})


def test_the_default_status_is_a_file_and_a_plugin_may_keep_it_elsewhere(plugins: Plugins, tmp_path: Path) -> None:
    status = {"Walker": {"checkpoints": []}, "elo": {"a": 1}}
    assert plugins.read_status(tmp_path) is None
    plugins.write_status(status, tmp_path)
    assert plugins.read_status(tmp_path) == status
    kept: list[Any] = []

    class Keeps:
        @hookimpl
        def rlcore_write_status(self, status: Any) -> bool:
            kept.append(status)
            return True

        @hookimpl
        def rlcore_read_status(self) -> Any:
            return kept[-1] if kept else None

    plugins.register(Keeps(), "store")
    plugins.write_status({"new": 1}, tmp_path)
    assert plugins.read_status(tmp_path) == {"new": 1}


@pytest.mark.parametrize("answer", [False, 0, "stored"])
def test_a_status_that_nobody_says_is_stored_is_no_success(plugins: Plugins, tmp_path: Path, answer: Any) -> None:
    class Keeps:
        @hookimpl
        def rlcore_write_status(self) -> Any:
            return answer

    plugins.register(Keeps(), "store", "acme-store", "1")
    with pytest.raises(PluginError, match=rf"answered {answer!r}, so the .*; it is answered by .*\(acme-store 1\)"):
        plugins.write_status({}, tmp_path)


def test_a_wrapper_that_swallows_the_answer_is_told(plugins: Plugins, tmp_path: Path) -> None:
    class Mirrors:
        @hookimpl(wrapper=True)
        def rlcore_write_status(self) -> Any:
            yield

    plugins.register(Mirrors(), "mirror")
    with pytest.raises(PluginError, match=r"rlcore_write_status answered None.* a wrapper what it was given$"):
        plugins.write_status({}, tmp_path)


def test_a_status_that_is_no_mapping_is_refused_with_the_name_of_who_read_it(plugins: Plugins, tmp_path: Path) -> None:
    class Keeps:
        @hookimpl
        def rlcore_read_status(self) -> Any:
            return [{"lesson_num": 1}]

    plugins.register(Keeps(), "store", "acme-store", "1")
    with pytest.raises(PluginError, match=r"answered a list instead of a mapping; .*\(acme-store 1\)"):
        plugins.read_status(tmp_path)


def test_what_was_reported_does_not_change_with_the_plugins_own_copy(plugins: Plugins) -> None:
    mine = {"mine": {"count": [1]}}

    class Reports:
        @hookimpl
        def rlcore_report_status(self) -> Any:
            return mine

    plugins.register(Reports(), "one")
    reported = plugins.report_status(RUN)
    mine["mine"]["count"].append(2)
    assert reported == {"mine": {"count": [1]}}


def test_cores_own_failure_to_write_is_not_blamed_on_a_plugin(plugins: Plugins, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunStateError, match="Not a directory"):
        plugins.write_status({}, tmp_path / "file")
