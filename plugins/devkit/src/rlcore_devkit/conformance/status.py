"""The rules of the status hooks as tests for authors of plugins that keep state across restarts, or store the status.

::

    class TestMySections(StatusSectionConformance):
        plugin = "acme-status/acme-status"

    class TestMyStore(StatusStoreConformance):
        plugin = "acme-status/acme-status"
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest

from rlcore import (
    BehaviorSettings,
    Plugins,
    Purpose,
    RunConfig,
    RunContext,
    RunStateError,
    load_plugins,
    python_command,
    selection_from,
)
from rlcore_devkit.conformance.files import contents, damages, restore
from rlcore_devkit.conformance.rules import Rules, checked_block


def _alone(plugin: str) -> Plugins:
    """The plugin beside rlcore's own and no other, so that no other store answers first."""
    selection = selection_from(None, {}, (plugin,), True)
    return load_plugins(selection)


class StatusSectionConformance(Rules):
    """Tests of ``rlcore_report_status`` and ``rlcore_restore_status``: set ``plugin``.

    Attributes:
        plugin: The plugin, NAME or DIST/NAME, as installed.
        behaviors: Names of the behaviors of the run.
        sections: The plugin's own blocks of the configuration, by name; those left out have their defaults.
        skip: Names of tests that cannot hold, with the reason.
    """

    plugin: ClassVar[str] = ""
    behaviors: ClassVar[tuple[str, ...]] = ("Walker",)
    sections: ClassVar[Mapping[str, Mapping[str, Any]]] = {}

    def plugins(self) -> Plugins:
        """Return the plugin, loaded without other plugins."""
        return _alone(self.plugin)

    def run(self, name: str = "run", steps: int = 0, purpose: Purpose = "train") -> RunContext:
        """Return the context of a run in its own directory, resumed at ``steps`` of each behavior, 0 for a new run."""
        directory = self.directory / name
        logs = directory / "run_logs"
        logs.mkdir(parents=True, exist_ok=True)
        plugins = self.plugins()
        blocks = {}
        for record in plugins.records("section"):
            block = self.sections.get(record.name, {})
            blocks[record.name] = checked_block(record, block, "target")
        behaviors = {behavior: BehaviorSettings() for behavior in self.behaviors}
        config = RunConfig(behaviors=behaviors, sections=blocks)
        resumed = dict.fromkeys(self.behaviors, steps) if steps else {}
        return RunContext(config, plugins, directory, 1, 1, purpose, resumed_steps=resumed)

    def change(self, plugins: Plugins, run: RunContext) -> None:
        """Make the plugin's state differ from that of a new run, as a run does; by default the run starts.

        Override it if the state depends on other hooks: call them, such as ``plugins.notify("rlcore_evaluated",
        run=run, step=step, result=result)``.
        """
        plugins.notify("rlcore_run_started", run=run)

    # ------------------------------------------------------------ rules

    def test_what_it_reports_is_json_and_reporting_changes_nothing(self) -> None:
        plugins = self.plugins()
        run = self.run()
        self.change(plugins, run)
        reported = plugins.report_status(run)
        assert reported, "the plugin reports no section; override change() so that there is something to report"
        assert plugins.report_status(run) == reported

    def test_a_resumed_run_reports_what_was_restored(self) -> None:
        """In an empty directory: everything that a resumed run needs is in the checkpoint."""
        plugins = self.plugins()
        run = self.run()
        self.change(plugins, run)
        reported = from_checkpoint(plugins.report_status(run))
        others = {"acme-other": {"kept": [1, None]}, "metadata": {"run_steps": 1000}}
        for unknown in ({}, others):
            resumed = self.plugins()
            resumed_run = self.run(f"resumed-{len(unknown)}", 1000)
            status = from_checkpoint({**unknown, **reported})
            resumed.restore_status(resumed_run, status)
            after = from_checkpoint(resumed.report_status(resumed_run))
            assert after == reported, "what was reported is lost"

    def test_a_run_that_began_without_the_plugin_can_be_resumed_with_it(self) -> None:
        plugins = self.plugins()
        run = self.run(steps=1000)
        before = plugins.report_status(run)
        plugins.restore_status(run, {"acme-other": {"kept": 1}})
        assert plugins.report_status(run) == before
        self.change(plugins, run)
        assert plugins.report_status(run)

    @pytest.mark.parametrize("wrong", ["text", 7, [[]]], ids=str)
    def test_a_section_of_another_form_is_refused_and_changes_nothing(self, wrong: Any) -> None:
        """A section of an older version of the plugin may have any form; the error names the section."""
        plugins = self.plugins()
        run = self.run()
        self.change(plugins, run)
        reported = from_checkpoint(plugins.report_status(run))
        for name in reported:
            resumed = self.plugins()
            resumed_run = self.run(f"resumed-{name}", 1000)
            before = resumed.report_status(resumed_run)
            status = {**reported, name: wrong}
            with pytest.raises(RunStateError) as refused:
                resumed.restore_status(resumed_run, status)
            assert name in str(refused.value), f"the error does not name the section {name!r}: {refused.value}"
            assert resumed.report_status(resumed_run) == before, "a refused section changed the plugin's state"

    def test_runs_of_one_process_are_independent(self) -> None:
        """State of a run belongs in ``run.stash``, not in the plugin's module."""
        plugins = self.plugins()
        first = self.run("first")
        untouched = plugins.report_status(first)
        other = self.run("other")
        self.change(plugins, other)
        second = self.run("second")
        assert plugins.report_status(second) == untouched

    def test_inference_leaves_the_files_of_the_run_alone(self) -> None:
        plugins = self.plugins()
        run = self.run()
        self.change(plugins, run)
        reported = from_checkpoint(plugins.report_status(run))
        before = contents(run.directory)
        inference = self.run(steps=1000, purpose="inference")
        plugins.restore_status(inference, reported)
        assert contents(run.directory) == before


# Read in another process, which has nothing of what the writer keeps in memory.
_READ = """
import json, pathlib, sys
from rlcore import load_plugins, selection_from
plugins = load_plugins(selection_from(None, {}, (sys.argv[1],), True))
print(json.dumps(plugins.read_status(pathlib.Path(sys.argv[2]))))
"""


class StatusStoreConformance(Rules):
    """Tests of ``rlcore_write_status`` and ``rlcore_read_status``: set ``plugin``.

    Attributes:
        plugin: The plugin, NAME or DIST/NAME, as installed.
        skip: Names of tests that cannot hold, with the reason.
    """

    plugin: ClassVar[str] = ""

    def plugins(self) -> Plugins:
        """Return the plugin, loaded without other plugins."""
        return _alone(self.plugin)

    def logs(self, name: str = "run") -> Path:
        """Return the directory of a run's logs; it exists."""
        logs = self.directory / name / "run_logs"
        logs.mkdir(parents=True, exist_ok=True)
        return logs

    def damage(self, logs: Path) -> list[Callable[[], object]]:
        """Return functions that each damage what is stored for the run with the logs ``logs``.

        By default, every file below ``logs`` is cut in half, or overwritten. Override it for a store elsewhere.
        """
        return damages(logs)

    # ------------------------------------------------------------ rules

    def test_a_new_run_has_no_status_and_reading_writes_nothing(self) -> None:
        logs = self.logs()
        assert self.plugins().read_status(logs) is None
        assert list(logs.iterdir()) == [], "rlcore_read_status wrote a file"

    def test_reading_returns_what_was_written(self) -> None:
        """Sections of plugins that are not installed, and keys of a later rlcore, are kept."""
        logs = self.logs()
        self.plugins().write_status(STATUS, logs)
        status = self.plugins().read_status(logs)
        assert as_stored(status) == as_stored(STATUS)

    def test_another_process_reads_it(self) -> None:
        logs = self.logs()
        self.plugins().write_status(STATUS, logs)
        command = python_command("-c", _READ, self.plugin, str(logs))
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stderr
        assert as_stored(json.loads(ran.stdout)) == as_stored(STATUS)

    def test_the_newest_status_replaces_the_older_one(self) -> None:
        logs = self.logs()
        plugins = self.plugins()
        plugins.write_status(STATUS, logs)
        metadata = {**STATUS["metadata"], "run_steps": 2000}
        later = {"metadata": metadata, "Walker": {"checkpoints": []}}
        # The end of a run writes a second status at the step of the last one; a store must not keep the first.
        final = {"metadata": metadata, "Walker": {"checkpoints": [], "final_checkpoint": {"steps": 2000}}}
        for status in (later, final):
            plugins.write_status(status, logs)
            assert as_stored(plugins.read_status(logs)) == as_stored(status)

    def test_runs_are_kept_apart(self) -> None:
        plugins = self.plugins()
        one = self.logs("one")
        two = self.logs("two")
        other = {**STATUS, "Walker": {"checkpoints": []}}
        plugins.write_status(STATUS, one)
        assert plugins.read_status(two) is None
        plugins.write_status(other, two)
        assert as_stored(plugins.read_status(one)) == as_stored(STATUS)
        assert as_stored(plugins.read_status(two)) == as_stored(other)

    def test_damage_is_an_error_and_never_a_part_of_a_status(self) -> None:
        """Reading raises RunStateError, or returns a status that was written. Restoring the files repairs it."""
        logs = self.logs()
        plugins = self.plugins()
        plugins.write_status(STATUS, logs)
        functions = self.damage(logs)
        if not functions:
            pytest.skip("the store has no files in the run directory; override damage()")
        intact = contents(logs)
        refusals = []
        for damage in functions:
            damage()
            try:
                status = plugins.read_status(logs)
            except RunStateError as error:
                refusals.append(str(error))
            else:
                assert as_stored(status) == as_stored(STATUS), "damage was read as a status"
            restore(logs, intact)
            assert as_stored(plugins.read_status(logs)) == as_stored(STATUS)
        assert refusals, "no damage was noticed"
        for refusal in refusals:
            assert "\n" not in refusal, "the error must be one line"


# Every kind of JSON value, among them numbers that a conversion to floats would change.
STATUS: dict[str, Any] = {
    "metadata": {"stats_format_version": "0.3.0", "rlcore_version": "0.1.0", "run_steps": 1000},
    "Walker": {"checkpoints": [{"steps": 500, "reward": None}, {"steps": 1000, "reward": 0.1}]},
    "gravity": {"lesson_num": 2},
    "acme-unknown": {
        "whole": 2**53 + 1,
        "real": 1e-300,
        "same": 1.0,
        "yes": True,
        "none": None,
        "empty": {},
        "list": [],
        "text": "Größe \u2603 \\ \" ' ;\n",
        "": {"deep": [[{"er": [1]}]]},
    },
}


def as_stored(status: Any) -> str:
    """Return the status as text, in which 1, 1.0 and true differ, as they do not in Python."""
    return json.dumps(status, sort_keys=True)


def from_checkpoint(sections: Mapping[str, Any]) -> dict[str, Any]:
    """Return the sections as a checkpoint gives them back."""
    loaded: dict[str, Any] = json.loads(json.dumps(sections))
    return loaded
