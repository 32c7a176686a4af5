"""Targets of records and factory hooks: who is called, with what, and which plugin is named in an error."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rlcore import (
    BehaviorSpec,
    CurriculumSpec,
    EnvironmentSpec,
    ExporterSpec,
    Record,
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
WALKER = BehaviorSpec("Walker", (), discrete=(2,))
ARGUMENTS = {"settings": "settings", "behavior": WALKER, "run": RUN}
PluginOf = Callable[..., object]


def test_a_target_may_be_an_attribute_of_a_class() -> None:
    record = RewardProviderSpec(name="r", target="pathlib:Path.cwd", settings="rlcore.settings:RewardSettings")
    assert record.resolve()() == Path.cwd()
    assert record.resolve("settings").__name__ == "RewardSettings"


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("absent_module:X", " failed to import absent_module: ModuleNotFoundError: No module named 'absent_module'"),
        ("json:Absent.x", ": json has no 'Absent.x'"),
        ("leaves_at_import:X", " failed to import leaves_at_import: SystemExit"),
    ],
)
def test_a_target_that_cannot_be_imported_names_record_plugin_and_distribution(
    plugins: Plugins, target: str, said: str, plugin_of: PluginOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "leaves_at_import.py").write_text("import sys; sys.exit(0)")
    monkeypatch.syspath_prepend(str(tmp_path))
    plugins.register(plugin_of(TrainerSpec(name="x", target=target, settings="a:b")), "acme", "acme-rl", "3.1")
    with pytest.raises(PluginError) as caught:
        plugins.record(TrainerSpec, "x").resolve()
    assert str(caught.value).startswith(f"trainer 'x' of plugin 'acme' (acme-rl 3.1){said}")


# ---------------------------------------------------------------- answers


class FakeTrainer:
    """Has the members of a trainer, and keeps what it was created with."""

    policy = begin = act = observe = ready = update = state_dict = load_state_dict = load_model = snapshot = None
    steps = 0

    def __init__(self, **arguments: Any) -> None:
        self.arguments = arguments


def answering(answer: Any, **options: Any) -> Any:
    """A plugin that answers ``rlcore_create_trainer`` with what ``answer`` returns for the record."""

    class Answers:
        @hookimpl(**options)
        def rlcore_create_trainer(self, spec: Any) -> Any:
            return answer(spec)

    return Answers()


def wrapping(change: Callable[[Any], Any]) -> Any:
    """A plugin that changes any answer."""

    class Wraps:
        @hookimpl(wrapper=True)
        def rlcore_create_trainer(self) -> Any:
            return change((yield))

    return Wraps()


def raising(error: BaseException) -> Callable[..., Any]:
    def fail(*_: Any, **__: Any) -> Any:
        raise error

    return fail


@pytest.fixture
def making(plugins: Plugins, monkeypatch: pytest.MonkeyPatch, plugin_of: PluginOf) -> Any:
    """``making(factory)`` makes a trainer whose record targets ``factory``, beside other plugins."""

    def make(factory: Any, *others: object) -> Any:
        monkeypatch.setattr("json.made_by_this_test", factory, raising=False)
        record = TrainerSpec(name="x", target="json:made_by_this_test", settings="a:b")
        plugins.register(plugin_of(record), "acme", "acme-rl", "3.1")
        for index, other in enumerate(others):
            plugins.register(other, f"other{index}", f"acme-other{index}", "1")
        return plugins.create(plugins.record(TrainerSpec, "x"), **ARGUMENTS)

    return make


def test_a_plugin_may_answer_and_a_wrapper_decorate_the_answer_of_the_target(making: Any) -> None:
    mine = FakeTrainer()
    assert making(raising(KeyError()), answering(lambda spec: mine if spec.name == "x" else None)) is mine


def test_a_wrapper_may_decorate_the_answer_of_the_target_which_is_called_by_keyword(making: Any) -> None:
    outer = making(FakeTrainer, wrapping(lambda inner: FakeTrainer(inner=inner)))
    assert outer.arguments["inner"].arguments == ARGUMENTS


OWNER = "trainer 'x' of plugin 'acme' (acme-rl 3.1)"
FAILED = "failed in rlcore_create_trainer:"
ANSWERED = "plugin 'other0' (acme-other0 1): rlcore_create_trainer returned a int, "
OTHER = "plugin 'other{0}' (acme-other{0} 1) failed in rlcore_create_trainer: KeyError"
SAME = wrapping(lambda inner: inner)


@pytest.mark.parametrize(
    ("factory", "others", "said"),
    [
        (raising(ZeroDivisionError("by\nzero")), [], f"{OWNER} {FAILED} ZeroDivisionError: by zero"),
        (
            lambda **_: SimpleNamespace(act=1, observe=1, steps=0),
            [],
            f"{OWNER} returned a SimpleNamespace, which is not a Trainer: it lacks begin, load_model, load_state_dict, "
            "policy, ready, snapshot, state_dict, update",
        ),
        (FakeTrainer, [answering(lambda spec: 5)], ANSWERED),
        (FakeTrainer, [wrapping(lambda inner: 5)], ANSWERED),
        (lambda **_: 5, [answering(lambda spec: None)], f"{OWNER} returned a int, "),
        (FakeTrainer, [wrapping(raising(KeyError("mine"))), SAME], OTHER.format(0)),
        (FakeTrainer, [SAME, answering(raising(KeyError("x")))], OTHER.format(1)),
    ],
)
def test_an_error_names_the_plugin_that_made_it(making: Any, factory: Any, others: Any, said: str) -> None:
    with pytest.raises(PluginError) as caught:
        making(factory, *others)
    assert str(caught.value).startswith(said)
    assert (FAILED in said) == (caught.value.__cause__ is not None)


@pytest.mark.parametrize(
    ("continuous", "discrete", "kind"), [(2, (), "continuous"), (2, (3,), "hybrid"), (0, (3, 2), "discrete")]
)
def test_actions_that_a_trainer_does_not_declare_are_refused_before_it_is_imported(
    plugins: Plugins, continuous: int, discrete: tuple[int, ...], kind: str, plugin_of: PluginOf
) -> None:
    others = {"continuous", "hybrid", "discrete"} - {kind}
    plugins.register(plugin_of(TrainerSpec(name="x", target="absent:X", settings="a:b", spaces=others)), "acme")
    behavior = BehaviorSpec("Walker", (), continuous, discrete)
    with pytest.raises(UnsupportedSpace) as caught:
        plugins.create(plugins.record(TrainerSpec, "x"), settings="settings", behavior=behavior, run=RUN)
    assert str(caught.value) == (
        f"behavior 'Walker' has {kind} actions and trainer 'x' learns {' or '.join(sorted(others))} ones only; "
        "choose another trainer_type"
    )


def test_only_wrappers_and_the_plugin_that_answered_took_part(making: Any, plugins: Plugins) -> None:
    asked: list[str] = []

    def noted(name: str, trainer: Any = None, **options: Any) -> Any:
        return answering(lambda spec: asked.append(name) or trainer, **options)

    def took_part() -> list[str]:
        run = RunContext(settings, plugins, Path(), 1, 1)
        plugins.create(plugins.record(TrainerSpec, "x"), settings=settings, behavior=WALKER, run=run)
        assert {hook for hook, _ in run.factories.found} == {"rlcore_create_trainer"}
        return sorted(label for _, label in run.factories.found)

    settings: Any = SimpleNamespace(sections={})
    plugins.register(noted("not reached", FakeTrainer()), "last")  # plugins that are registered later are asked earlier
    making(FakeTrainer, SAME, noted("answers", FakeTrainer()), noted("declines"))
    asked.clear()
    assert took_part() == ["acme-other0/other0", "acme-other1/other1"] and asked == ["declines", "answers"]
    plugins.register(noted("first", FakeTrainer(), tryfirst=True), "first", "acme-first", "1")
    assert took_part() == ["acme-first/first", "acme-other0/other0"]


def test_targets_of_every_kind_are_called_by_keyword_and_their_answers_checked(
    plugins: Plugins, monkeypatch: pytest.MonkeyPatch
) -> None:
    received: list[dict[str, Any]] = []

    def target(**arguments: Any) -> Any:
        received.append(arguments)
        return object()

    monkeypatch.setattr("json.made_by_this_test", target, raising=False)
    names: Any = {"name": "x", "target": "json:made_by_this_test"}
    settled: Any = names | {"settings": "a:b"}
    outside: Any = {"settings": "settings", "run": RUN}
    calls: dict[str, tuple[Record, dict[str, Any]]] = {
        "Trainer: it lacks act, begin": (TrainerSpec(**settled), ARGUMENTS),
        "RewardProvider: it lacks evaluate, gamma": (RewardProviderSpec(**settled), ARGUMENTS),
        "StatsWriter: it lacks close, write": (StatsWriterSpec(**names), outside),
        "Environment: it lacks": (EnvironmentSpec(**names), outside),
        "Curriculum: it lacks": (CurriculumSpec(**settled), outside),
        "Exporter: it lacks export": (ExporterSpec(**names, suffix=".x"), outside),
    }
    for said, (record, arguments) in calls.items():
        with pytest.raises(PluginError, match=f"which is not a {said}") as caught:
            plugins.create(record, **arguments)
        assert "Porting a plugin" not in str(caught.value), "no earlier contract did without these"
        assert received.pop() == arguments
