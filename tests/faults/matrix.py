"""Try every fault in full size and print a table: what was tried, how often, and how often it passed.

    python tests/faults/matrix.py             # everything: an hour or more
    python tests/faults/matrix.py F2 F7       # these rows
    python tests/faults/matrix.py F3 -- -n 4  # options of pytest

Each row has a least number of trials. The exit code is 1 if a row has fewer, or one that failed. The tests are those
of this directory, with ``--deep``; ``pytest`` runs a few trials of each.
"""

from __future__ import annotations

import sys
from pathlib import Path

import attrs
import pytest

HERE = Path(__file__).parent


@attrs.define
class Row:
    """One kind of fault, the beginnings of the names of its tests, and what came of them."""

    fault: str
    tests: tuple[str, ...]  # FILE, FILE::TEST, or FILE[INPUT for the tests of some inputs
    least: int
    tried: int = 0
    failed: int = 0
    skipped: int = 0
    seconds: float = 0.0

    def has(self, test: str) -> bool:
        """Whether ``FILE.py::TEST[INPUT]`` is one of the row's."""
        for each in self.tests:
            file, _, given = each.partition("[")
            if given and test.startswith(file) and f"[{given}" in test:
                return True
            if not given and (test == each or test.startswith((f"{each}::", f"{each}["))):
                return True
        return False

    @property
    def passed(self) -> bool:
        return not self.failed and self.tried >= self.least


HOSTILE = "test_hostile_inputs.py"
MANY = "test_worker_gates.py::test_each_of_many_faults_costs_the_open_episodes_of_its_worker"
TWO = "test_worker_gates.py::test_two_workers_fail_at_once_or_cannot_be_started_again"
ROWS = {
    "F1": Row(
        "kill -9 at a random time",
        ("test_kills.py::test_every_run_killed_at_a_random_time_resumes_from_a_verified_checkpoint_and_ends_equal",
         "test_attack.py"), 60,
    ),
    "F2": Row(
        "kill -9 at a named point of a save, or at a system call",
        ("test_crash_points.py::test_a_run_killed_at_a_point_of_a_save_resumes_from_a_whole_checkpoint_and_ends_equal",
         "test_crash_points.py::test_a_run_killed_while_it_saves_in_the_background_ends_equal_to_one_that_waits_for_its_saves",
         "test_frozen_kills.py"), 120,
    ),
    "F3": Row(
        "resume: every file and scalar equals the run that was never stopped",
        ("test_exact_resume.py::test_a_run_killed_and_resumed_equals_the_run_never_stopped",
         "test_exact_resume.py::test_a_run_interrupted_anywhere_and_resumed_equals_the_run_never_stopped",
         "test_evaluation_resume.py",
         "test_curriculum_resume.py::test_a_run_killed_around_a_promotion_equals_the_run_never_stopped",
         "test_selfplay_resume.py::test_self_play_killed_around_its_changes_and_resumed_equals_the_run_never_stopped"),
        50,
    ),
    "F3n": Row(
        "negative control: a part of the state is dropped, and F3 notices",
        ("test_exact_resume.py::test_the_comparison_notices_each_group_of_state_that_is_dropped",
         "test_curriculum_resume.py::test_the_comparison_notices_each_part_of_the_state_that_is_dropped",
         "test_selfplay_resume.py::test_the_comparison_notices_each_entry_of_self_play_that_is_spoiled"), 9,
    ),
    "F4": Row(
        "damaged files: an older checkpoint is used",
        ("test_damages.py",
         "test_disk.py::test_every_damage_is_noticed_named_and_made_good_by_an_older_checkpoint"), 100,
    ),
    "F4b": Row("all checkpoints damaged: nothing starts", ("test_disk.py::test_when_all_are_damaged_nothing_starts",),
        10,
    ),
    "F5": Row(
        "the disk is full",
        ("test_disk.py::test_a_disk_that_fills_up_stops_the_run_at_a_checkpoint_and_costs_nothing_old",
         "test_disk.py::test_every_byte_at_which_a_disk_may_be_full_leaves_the_old_checkpoints",
         "test_failing_writes.py::test_a_disk_that_is_full_at_a_flush_is_shown_and_costs_nothing_old",
         "test_failing_writes.py::test_a_file_that_may_not_grow_is_shown_and_costs_nothing_old"), 20,
    ),
    "F6": Row(
        "read-only, EACCES, EIO",
        ("test_disk.py::test_a_directory_without_permission_is_refused",
         "test_disk.py::test_checkpoints_that_become_read_only_stop_the_run",
         "test_disk.py::test_a_results_directory_that_cannot_be_looked_into_is_refused",
         "test_failing_writes.py::test_an_error_of_the_operating_system_is_shown_and_costs_nothing_old"), 15,
    ),
    "F7": Row(
        "SIGINT, SIGTERM, SIGINT twice",
        ("test_many_signals.py::test_a_signal_at_a_random_time_ends_the_run_with_its_code_and_a_whole_checkpoint",
         "test_processes.py::test_a_signal_saves_a_checkpoint_and_ends_with_its_code"), 30,
    ),
    "F8": Row(
        "kill -9 during a resume, and five times in a row",
        ("test_crash_points.py::test_a_resume_that_is_killed_at_each_of_its_points_costs_nothing",
         "test_kills.py::test_a_run_killed_again_and_again_ends_as_if_it_never_was"), 20,
    ),
    "F9": Row("a plugin, a network or a format that does not fit", ("test_misfits.py",), 12),
    "F10": Row(
        "two processes, one run",
        ("test_many_signals.py::test_of_two_processes_that_start_at_once_one_has_the_run",
         "test_processes.py::test_two_processes_cannot_write_to_one_run_and_the_first_goes_on"), 10,
    ),
    "F11": Row("a thousand saves: disk and memory", ("test_soak.py",), 1),
    "W1": Row("a worker: kill -9", (f"{MANY}[kill -9",), 40),
    "W2": Row("a worker: hangs, or is stopped", (f"{MANY}[hangs",), 20),
    "W3": Row("a worker: raises in step and reset", (f"{MANY}[raises",), 40),
    "W4": Row("a worker: segmentation fault", (f"{MANY}[segfault",), 20),
    "W5": Row("a worker: os._exit", (f"{MANY}[exits",), 10),
    "W6": Row("a worker: a result that cannot be pickled", (f"{MANY}[unpicklable",), 5),
    "W7": Row("a worker: NaN, or a wrong shape", (f"{MANY}[bad batch",), 10),
    "W8": Row("two workers in one step", (f"{TWO}[together",), 10),
    "W9": Row("a new worker cannot make its environments", (f"{TWO}[create",), 10),
    "W10": Row("restarts of workers: descriptors, threads, memory",
               ("test_worker_gates.py::test_a_hundred_restarts_leave_nothing",), 100),
    "W11": Row("a worker that always fails: the run ends within 30 s",
               ("test_worker_gates.py::test_a_worker_that_always_fails_ends_the_run_soon",), 2),
    "W12": Row("kill -9 of a run with workers: none is left",
               ("test_worker_gates.py::test_no_process_outlives_a_run_that_is_killed",), 20),
    "F11c": Row("a clock that jumps", ("test_clock.py",), 5),
    "H1": Row("hostile: pickles", (f"{HOSTILE}[pickle: ",), 15),
    "H2": Row("hostile: configurations", (f"{HOSTILE}[configuration: ", f"{HOSTILE}[--set: "), 15),
    "H3": Row("hostile: run ids, paths, links", (f"{HOSTILE}[name: ",), 15),
    "H4": Row(
        "hostile: manifests, states, weights, recordings",
        (f"{HOSTILE}[status, ", f"{HOSTILE}[evaluate, ", f"{HOSTILE}[resume, ", f"{HOSTILE}[recording: "), 10,
    ),
    "H5": Row(
        "hostile: plugins and modules",
        (f"{HOSTILE}[validate, plugins", f"{HOSTILE}[status, plugins", f"{HOSTILE}[evaluate, plugins",
         f"{HOSTILE}[evaluate, module", f"{HOSTILE}[resume, module", f"{HOSTILE}[resume, plugin"), 5,
    ),
    "H6": Row("hostile: workers, ranks, Ray, names of checkpoints", ("test_hostile_settings.py",), 30),
    "H7": Row("loaders given files that were changed at random, for ten minutes", ("test_fuzz.py",), 6),
}  # fmt: skip


class Counting:
    """A plugin of pytest that keeps the tests of some rows, and adds up what came of them."""

    def __init__(self, rows: list[Row]) -> None:
        self._rows = rows[::-1]  # a later row is the closer one

    def _row(self, nodeid: str) -> Row | None:
        test = nodeid.partition("tests/faults/")[2]
        return next((row for row in self._rows if row.has(test)), None)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [item for item in items if self._row(item.nodeid) is not None]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        row = self._row(report.nodeid)
        if row is None:
            return
        row.seconds += report.duration
        if report.skipped:
            row.skipped += 1
        elif report.failed or report.when == "call":
            row.failed += report.failed
            row.tried += max(1, sum(name == "trial" for name, _ in report.user_properties))


def table(rows: dict[str, Row]) -> str:
    """The rows as text."""
    lines = [f"{'':4} {'fault':68} {'least':>6} {'tried':>6} {'passed':>7} {'seconds':>8}"]
    for name, row in rows.items():
        note = "" if row.passed else "  FAILED" if row.failed else "  TOO FEW"
        note += f"  {row.skipped} skipped" if row.skipped else ""
        counts = f"{row.least:6} {row.tried:6} {row.tried - row.failed:7} {row.seconds:8.0f}"
        lines.append(f"{name:4} {row.fault:68} {counts}{note}")
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    """Run the rows that are named, or all of them."""
    names, _, options = " ".join(arguments).partition("--")
    chosen = {name: ROWS[name] for name in names.split() or ROWS}
    files = sorted(
        {str(HERE / test.partition("[")[0].partition("::")[0]) for row in chosen.values() for test in row.tests}
    )
    pytest.main([*files, "--deep", "-n", "0", "-q", *options.split()], plugins=[Counting(list(chosen.values()))])
    print(table(chosen))
    return 0 if all(row.passed for row in chosen.values()) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
