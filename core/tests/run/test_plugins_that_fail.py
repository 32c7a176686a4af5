"""Writers and notifications that fail: what was learned is kept, and what the run does then depends on strictness."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from rlcore import hookimpl
from rlcore.config.plugins_block import load_plugins_for
from rlcore.config.reading import document_from_mapping
from rlcore.errors import PluginError
from rlcore.run.run import Run

STUBS = str(Path(__file__).parent / "stub_plugin.py")
RESUME = {"checkpoint_settings.resume": True}
CLOUD = """
from rlcore import StatsWriterSpec, hookimpl

class Writer:
    def __init__(self, settings, run):
        self.calls = 0

    def write(self, behavior, step, stats):
        self.calls += 1
        if self.calls == 2:
            raise ConnectionError("no route")
        assert self.calls < 2, "a writer that failed is asked again"

    def close(self):
        pass

@hookimpl
def rlcore_stats_writers():
    return [StatsWriterSpec(name="cloud", target=__name__ + ":Writer")]
"""
MODULES = itertools.count()  # a name of its own for each: Python imports a module of a name once


def described(changes: Mapping[str, Any]) -> str:
    return f"writer 'cloud' of plugin {Path(changes['plugins.local'][1]).stem!r} (local)"


@pytest.fixture
def with_cloud(tmp_path: Path) -> Any:
    """Changes of a configuration, with a writer that raises at its second summary."""
    path = tmp_path / f"cloud{next(MODULES)}.py"
    path.write_text(CLOUD)
    return {"plugins.local": [STUBS, str(path)], "stats": {"cloud": {}}}


@pytest.fixture
def strict(configure: Any) -> Callable[..., Run]:
    """``strict(changes, plugin)``: a run whose plugins are strict, with that one as 'cloud' of acme-cloud 1.2."""

    def make(changes: Mapping[str, Any] | None = None, plugin: object | None = None) -> Run:
        config = configure(changes)
        run = Run(config, load_plugins_for(document_from_mapping(config), strict=True))
        if plugin is not None:
            run.plugins.register(plugin, "cloud", "acme-cloud", "1.2")
        return run

    return make


def assert_saved_whole(files: Any, make_run: Any, step: int, changes: Mapping[str, Any] | None = None) -> None:
    """The last checkpoint is of ``step``, and the resumed run ends equal to the one that never failed."""
    assert files().steps[-1] == step and files().result["outcome"] == "failed"
    make_run({**(changes or {}), **RESUME}).train()
    make_run({**(changes or {}), "checkpoint_settings.run_id": "whole"}).train()
    assert files().checkpoint(200) == files("whole").checkpoint(200)


def test_a_writer_that_fails_is_dropped_with_one_warning_and_the_run_goes_on(
    make_run: Any, files: Any, with_cloud: Any, caplog: pytest.LogCaptureFixture
) -> None:
    run = make_run(with_cloud)
    run.train()
    told = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert told == [
        f"{described(with_cloud)} failed at step 100: ConnectionError: no route; the run continues without it",
        f"{described(with_cloud)} missed 3 summaries",
    ]
    assert run.outcome == "done" and files().result["outcome"] == "done" and files().steps[-1] == 200
    assert [line["step"] for line in files().metrics] == [50, 100, 150, 200], "the other writers are not concerned"


def test_a_writer_that_fails_ends_a_strict_run_with_a_checkpoint(
    strict: Any, make_run: Any, files: Any, with_cloud: Any
) -> None:
    with pytest.raises(PluginError) as caught:
        strict(with_cloud).train()
    assert str(caught.value) == f"{described(with_cloud)} failed at step 100: ConnectionError: no route"
    assert [line["step"] for line in files().metrics] == [50, 100]
    assert_saved_whole(files, make_run, 100, {**with_cloud, "stats": {"cloud": False}})


# ---------------------------------------------------------------- notifications


class Raises:
    """A plugin whose hook fails when it is called for the time number ``at``."""

    def __init__(self, hook: str, at: int) -> None:
        self.calls, self.at = 0, at

        def fail() -> None:
            self.calls += 1
            if self.calls == self.at:
                raise OSError("no network")

        setattr(self, hook, hookimpl(fail))


@pytest.mark.parametrize(
    ("hook", "at", "step"),
    [
        ("rlcore_summary_written", 2, 100),
        ("rlcore_process_summary", 2, 100),
        ("rlcore_checkpoint_saved", 2, 80),
        ("rlcore_evaluated", 2, 60),
    ],
)
def test_a_notification_that_fails_where_plugins_are_strict_costs_nothing_that_was_learned(
    strict: Any, make_run: Any, files: Any, hook: str, at: int, step: int
) -> None:
    changes = {"evaluation": {"interval": 30, "episodes": 2}}
    with pytest.raises(PluginError) as caught:
        strict(changes, Raises(hook, at)).train()
    assert str(caught.value) == f"plugin 'cloud' (acme-cloud 1.2) failed in {hook}: OSError: no network"
    assert caught.value.exit_code == 4
    assert_saved_whole(files, make_run, step, changes)


def test_the_result_is_written_before_plugins_are_told_that_the_run_is_over(strict: Any, files: Any) -> None:
    seen: list[Any] = []

    class Reads:
        @hookimpl
        def rlcore_run_finished(self, outcome: str) -> None:
            seen.append((outcome, files().result["outcome"]))
            raise OSError("no network")

    with pytest.raises(PluginError, match="failed in rlcore_run_finished: OSError: no network"):
        strict(plugin=Reads()).train()
    assert seen == [("done", "done")] and files().result["outcome"] == "done"


def test_a_failure_in_run_finished_does_not_hide_what_ended_the_run(strict: Any) -> None:
    with pytest.raises(Exception, match="failed in step: ZeroDivisionError"):
        strict({"environment.options": {"fault": "raise in step"}}, Raises("rlcore_run_finished", 1)).train()
