"""Every "Called once per ..." in ``hookspecs.py`` is true: the calls of each hook are counted in runs of every kind."""

from __future__ import annotations

import inspect
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from rlcore import ExporterSpec, export_policies, hookimpl, hookspecs
from rlcore.config.load import load_config, load_plugins_for
from rlcore.config.reading import document_from_mapping
from rlcore.errors import EnvironmentFailed
from rlcore.hookspecs import HOOKS
from rlcore.run.run import Run
from rlcore.run.saved.data import read_run
from rlcore.run.saved.run import SavedRun

STUBS = [str(Path(__file__).parent / name) for name in ("stub_plugin.py", "stub_curriculum.py")]
SETTINGS: dict[str, Any] = {
    "environment.type": "paced_and_saved",
    "environment_parameters": {"pace": {"curriculum": {"type": "stages", "every": 5, "stages": 3}}},
    "evaluation": {"interval": 100, "episodes": 2},
    "plugins.local": STUBS,
}
COUNTS = yaml.safe_load((Path(__file__).parent / "data/calls_per_run.yaml").read_text(encoding="utf-8"))
REGISTRIES = {hook.name for hook in HOOKS if hook.kind == "registry"} - set(COUNTS["registries_not_asked"])


class Calls:
    """A plugin that implements every hook and counts the calls of each."""

    def __init__(self) -> None:
        self.counted: Counter[str] = Counter()


def counting(name: str, kind: str) -> Any:
    arguments = ", ".join(inspect.signature(getattr(hookspecs, name)).parameters)
    wrapper = kind == "factory" and "create" in name
    body = "return (yield)" if wrapper else "return []" if kind == "registry" else "return None"
    scope: dict[str, Any] = {}
    exec(f"def {name}(self, {arguments}):\n    self.counted[{name!r}] += 1\n    {body}", scope)
    return hookimpl(scope[name], wrapper=wrapper) if wrapper else hookimpl(scope[name])


for each in HOOKS:
    setattr(Calls, each.name, counting(each.name, each.kind))


@pytest.fixture
def prepared(configure: Any) -> Any:
    """``prepared(changes)``: a run of its own plugins, and the calls of its hooks."""

    def prepare(changes: Any = None, **keywords: Any) -> tuple[Run, Calls]:
        document = document_from_mapping(configure({**SETTINGS, **(changes or {})}, **keywords))
        plugins, calls = load_plugins_for(document), Calls()
        plugins.register(calls, "calls")
        calls.counted.clear()
        return Run(load_config(document, plugins), plugins), calls

    return prepare


def of_the_run(calls: Calls) -> dict[str, int]:
    return {name: count for name, count in calls.counted.items() if name not in REGISTRIES}


def test_a_run(prepared: Any) -> None:
    run, calls = prepared(max_steps=200, keep_checkpoints=2)
    run.train()
    assert {name: count for name, count in calls.counted.items() if name in REGISTRIES} == dict.fromkeys(REGISTRIES, 1)
    assert of_the_run(calls) == COUNTS["run"]


def test_a_resumed_run_and_one_that_only_acts(prepared: Any) -> None:
    prepared(max_steps=100)[0].train()
    run, calls = prepared({"checkpoint_settings.resume": True}, max_steps=120)
    run.train()
    counted = of_the_run(calls)
    once = ("modify_config", "check_config", "restore_status", "run_started", "run_finished", "create_trainer")
    assert [counted[f"rlcore_{name}"] for name in once] == [1] * 6 and "rlcore_read_status" not in counted

    run, calls = prepared({"checkpoint_settings.inference": True})
    with run:
        next(run)
    counted = of_the_run(calls)
    assert [counted[f"rlcore_{name}"] for name in once] == [1] * 6
    assert counted["rlcore_process_summary"] == counted["rlcore_summary_written"] == 1
    assert not {"rlcore_report_status", "rlcore_write_status", "rlcore_checkpoint_saved"} & set(counted)


def test_an_evaluation_by_command_and_a_look_at_the_run(prepared: Any, files: Any) -> None:
    prepared(max_steps=50)[0].train()
    run, calls = prepared()
    SavedRun.load(files().path, run.config, run.plugins).evaluate(2)
    assert of_the_run(calls) == COUNTS["evaluation"]
    calls.counted.clear()
    read_run(files().path, run.plugins)
    assert of_the_run(calls) == COUNTS["look"]


def test_an_exporter_is_created_once_per_run_and_per_command(
    prepared: Any, files: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create, created = ExporterSpec.create, list[str]()

    def noted(self: ExporterSpec, **arguments: Any) -> Any:
        created.append(self.name)
        return create(self, **arguments)

    monkeypatch.setattr(ExporterSpec, "create", noted)
    exporting = {"export": {"weights": {"checkpoints": True}}}
    exporting["plugins.local"] = [*STUBS, str(Path(__file__).parent / "stub_exporter.py")]  # type: ignore[assignment]
    run, calls = prepared(exporting, max_steps=100)
    run.train()
    counted = of_the_run(calls)
    assert created == ["weights"]
    assert counted["rlcore_checkpoint_saved"] == 3  # at the steps 40, 80 and 100
    assert counted["rlcore_write_status"] == 2 * 3 + 1  # with the exports of each again, and at the end
    run, calls = prepared({**exporting, "checkpoint_settings.inference": True})
    with run:
        next(run)
    assert created == ["weights"]
    calls.counted.clear()
    export_policies(files().path, "weights", tmp_path / "weights.json", plugins=run.plugins)
    assert of_the_run(calls) == COUNTS["export"]
    assert created == ["weights"] * 2


def test_a_start_that_fails(prepared: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise EnvironmentFailed("no simulator")

    run, calls = prepared()
    monkeypatch.setattr("rlcore.run.components.make_environment", fail)
    with pytest.raises(EnvironmentFailed):
        run.start()
    run.close()
    assert of_the_run(calls) == COUNTS["failed_start"]


def test_two_runs_of_one_loading_share_its_registries(prepared: Any, configure: Any) -> None:
    run, calls = prepared(max_steps=50)
    other = document_from_mapping(configure({**SETTINGS, "checkpoint_settings.run_id": "other"}, max_steps=50))
    second = Run(load_config(other, run.plugins), run.plugins)
    for each_run in (run, second):
        each_run.train()
    assert {calls.counted[name] for name in REGISTRIES} == {1}
    for name in ("modify_config", "check_config", "run_started", "run_finished"):
        assert calls.counted[f"rlcore_{name}"] == 2
