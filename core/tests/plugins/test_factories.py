"""Targets of records and factory hooks: who is called, with what, and which plugin is named in an error."""

from __future__ import annotations

from collections.abc import Callable, Generator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rlcore import (
    CurriculumSpec,
    EnvironmentSpec,
    ExporterSpec,
    RewardProviderSpec,
    StatsWriterSpec,
    TrainerSpec,
    hookimpl,
)
from rlcore.errors import PluginError, UnsupportedSpace
from rlcore.plugins.call import Plugins
from rlcore.plugins.context import RunContext

pytestmark = pytest.mark.smoke

RUN: Any = SimpleNamespace()
WALKER: Any = SimpleNamespace(name="Walker", continuous=0, discrete=(2,))
PluginOf = Callable[..., object]


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
    plugins: Plugins, target: str, expected: str, plugin_of: PluginOf
) -> None:
    plugins.register(plugin_of(TrainerSpec(name="x", target=target, settings="a:b")), "acme", "acme-rl", "3.1")
    with pytest.raises(PluginError) as caught:
        plugins.trainer("x").resolve()
    assert str(caught.value) == f"trainer 'x' of plugin 'acme' (acme-rl 3.1){expected}"


def test_a_target_whose_module_calls_sys_exit_is_named(
    plugins: Plugins, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plugin_of: PluginOf
) -> None:
    (tmp_path / "leaves_at_import.py").write_text("import sys; sys.exit(0)")
    monkeypatch.syspath_prepend(str(tmp_path))
    plugins.register(
        plugin_of(TrainerSpec(name="x", target="leaves_at_import:X", settings="a:b")), "acme", "acme-rl", "3"
    )
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
    def snapshot(self, state: Any = None) -> Any: ...


def fails(**arguments: Any) -> Any:
    raise ZeroDivisionError("division\nby zero")


def refuses(**arguments: Any) -> Any:
    raise UnsupportedSpace("trainer 'x' cannot learn hybrid actions")


def incomplete(**arguments: Any) -> Any:
    return SimpleNamespace(act=1, observe=1, steps=0)


@pytest.fixture
def making(plugins: Plugins, monkeypatch: pytest.MonkeyPatch, plugin_of: PluginOf) -> Any:
    """``making(factory)`` makes a trainer whose record targets ``factory``."""

    def make(factory: Any, *others: object) -> Any:
        monkeypatch.setattr("json.made_by_this_test", factory, raising=False)
        record = TrainerSpec(name="x", target="json:made_by_this_test", settings="a:b")
        plugins.register(plugin_of(record), "acme", "acme-rl", "3.1")
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
        "it lacks begin, load_model, load_state_dict, policy, ready, snapshot, state_dict, update"
    )


class Answers:
    """Answers the factory with 5, or replaces any other answer by it."""

    @hookimpl
    def rlcore_create_trainer(self) -> Any:
        return 5


class Wraps:
    @hookimpl(wrapper=True)
    def rlcore_create_trainer(self) -> Any:
        yield
        return 5


class Silent:
    @hookimpl
    def rlcore_create_trainer(self) -> None: ...


@pytest.mark.parametrize("other", [Answers, Wraps])
def test_a_plugin_that_answers_with_something_else_is_named_not_the_owner_of_the_record(
    making: Any, other: Any
) -> None:
    with pytest.raises(
        PluginError, match=r"^plugin 'other0' \(acme-other0 1\): rlcore_create_trainer returned a int, "
    ):
        making(FakeTrainer, other())


def test_a_plugin_that_leaves_the_answer_to_the_record_is_not_named(making: Any) -> None:
    with pytest.raises(PluginError, match=r"^trainer 'x' of plugin 'acme' \(acme-rl 3.1\) returned a int, "):
        making(lambda **arguments: 5, Silent())


@pytest.mark.parametrize(
    ("continuous", "discrete", "kind"), [(2, (), "continuous"), (2, (3,), "hybrid"), (0, (3, 2), "discrete")]
)
def test_actions_that_a_trainer_does_not_declare_are_refused_before_it_is_imported(
    plugins: Plugins, continuous: int, discrete: tuple[int, ...], kind: str, plugin_of: PluginOf
) -> None:
    others = {"continuous", "hybrid", "discrete"} - {kind}
    plugins.register(plugin_of(TrainerSpec(name="x", target="absent:X", settings="a:b", spaces=others)), "acme")
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


def test_only_wrappers_and_the_plugin_that_answered_took_part(making: Any, plugins: Plugins) -> None:
    class Declines:
        @hookimpl
        def rlcore_create_trainer(self, spec: Any) -> Any:
            asked.append("declines")

    class Answers:
        def __init__(self, name: str) -> None:
            self.name = name

        @hookimpl
        def rlcore_create_trainer(self, spec: Any) -> Any:
            asked.append(self.name)
            return FakeTrainer() if spec.name == "x" else None

    class AnswersFirst:
        @hookimpl(tryfirst=True)
        def rlcore_create_trainer(self) -> Any:
            return FakeTrainer()

    def took_part() -> list[str]:
        run = RunContext(settings, plugins, Path(), 1, 1)
        plugins.create_trainer(plugins.trainer("x"), settings, WALKER, run)
        assert {hook for hook, _ in run.factories.found} == {"rlcore_create_trainer"}
        return sorted(label for _, label in run.factories.found)

    asked: list[str] = []
    settings: Any = SimpleNamespace(sections={})
    plugins.register(Answers("not reached"), "last")  # plugins that are registered later are asked earlier
    making(FakeTrainer, FairWrapper(), Answers("answers"), Declines())
    asked.clear()
    assert took_part() == ["acme-other0/other0", "acme-other1/other1"] and asked == ["declines", "answers"]
    plugins.register(AnswersFirst(), "first", "acme-first", "1")
    assert took_part() == ["acme-first/first", "acme-other0/other0"]


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
        lambda: plugins.create_exporter(ExporterSpec(**names, suffix=".x"), settings, RUN),
    ]
    for call in calls:
        with pytest.raises(UnsupportedSpace):
            call()
    learned, others = {"settings": settings, "behavior": WALKER, "run": RUN}, {"settings": settings, "run": RUN}
    assert received == [learned, learned, others, others, others, others]


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
