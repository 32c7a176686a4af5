"""``rlcore run --seeds 1-5 --jobs 2``: trains with several seeds side by side.

The run of seed 3 of the study ``base`` is called ``base-seed-3``. The run directories are the study: there is no other
file. Each is the directory of the run that ``rlcore run --run-id base-seed-3 --seed 3`` with the same words makes.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import attrs
import click

from rlcore import (
    CheckpointSettings,
    ConfigError,
    Run,
    RunConfig,
    RunData,
    RunStateError,
    dump_config,
    echo,
    launched,
    name_problem,
    read_run,
    user_path,
)
from rlcore_study.command import print_study
from rlcore_study.lines import identity
from rlcore_study.names import run_id
from rlcore_study.side_by_side import (
    AUTO,
    LOCK_SECONDS,
    Ended,
    Job,
    cores,
    has_checkpoint,
    side_by_side,
    steps_of,
)

_PART = re.compile(r"(\d{1,20})(?:-(\d{1,20}))?")  # longer numbers are no seeds, and slow to read
CONFIGURATION = "configuration.yaml"
MAX_SEEDS = 10_000  # a larger range is a slip


def read_seeds(text: str) -> list[int]:
    """The seeds of ``1-5`` or ``1,3,7-9``, in this order. Raises click.UsageError for any other text."""
    seeds: list[int] = []
    for part in text.split(","):
        match = _PART.fullmatch(part.strip())
        first = int(match[1]) if match else 1
        last = int(match[2] or match[1]) if match else 0
        if last < first or last - first >= MAX_SEEDS:
            raise click.UsageError(f"--seeds {_beginning(text)}: write seeds as 1-5 or 1,3,7-9, the smaller one first")
        seeds += range(first, last + 1)
    for seed, count in Counter(seeds).items():
        if count > 1:
            raise click.UsageError(f"--seeds {text!r}: has seed {seed} twice")
    return seeds


def _beginning(text: str) -> str:
    """Return what a user typed for a message, at most 60 characters of it."""
    if len(text) <= 60:
        return repr(text)
    return f"{text[:60]!r}..."


def read_jobs(text: str | None) -> int:
    """The number of runs at a time. Raises click.UsageError for what is not a number of at least 1."""
    if text is None:
        return cores()
    if not re.fullmatch(r"[1-9]\d{0,3}", text):
        raise click.UsageError(f"--jobs {text!r}: must be a whole number of runs at a time, from 1 to 9999")
    return int(text)


def run_seeds(options: Mapping[str, Any], words: Sequence[str], make_run: Callable[[], Run]) -> int:
    """Train with each seed, and return the exit code: 0 if all are done, otherwise that of the first that is not."""
    seeds, at_once = _read(options)
    # As rlcore run --resume --run-id: each run has its configuration in its directory.
    without_config = options["config"] is None and options["env"] is None
    saved_configs = without_config and options["resume"] and options["run_id"]
    config = None if saved_configs else make_run().config
    study, results = _study(options, config)
    settings = CheckpointSettings() if config is None else config.checkpoint_settings
    # A run of which only the directory has the configuration cannot start there, so that is decided here.
    auto = AUTO in (options["resume"], settings.resume) and config is not None
    resume: bool | Literal["auto"] = "auto" if auto else bool(options["resume"])
    runs = {seed: user_path(results) / run_id(study, seed) for seed in seeds}
    if not resume and not options["force"]:
        _refuse_existing(runs.values())
    run_words = _without(words, ("seeds", "jobs"), ("resume", "resume-auto"))
    changes = _without(run_words, ("run-id", "results-dir"), ())  # of saved configurations
    continues_done = options["checkpoint"] is not None or (config is None and changes)
    jobs = []
    for seed, directory in runs.items():
        if resume and not continues_done and _is_done(directory, config):
            echo(f"{directory.name}  is done already")
            continue
        of_run = ("--run-id", directory.name, "--seed", str(seed))
        wait = LOCK_SECONDS if settings.wait_for_lock is None else settings.wait_for_lock
        job = Job(directory.name, directory, _with(run_words, of_run), resume=resume, wait=wait)
        if config is not None:
            job = attrs.evolve(job, steps=steps_of(config))
        else:
            new = (str(_any_configuration(runs)), *run_words)
            job = attrs.evolve(job, new=_with(new, of_run))
        jobs.append(job)
    before = {directory: identity(directory / CONFIGURATION) for directory in runs.values()}
    failed: list[Ended] = []

    def note(ended: Ended) -> None:
        if ended.code:
            failed.append(ended)

    number = side_by_side(jobs, at_once, note, signals=settings.signals())
    again = "the same command" if auto else "the same command with --resume"
    if number is not None:
        echo(f"interrupted; {again} continues", err=True)
        return 128 + number
    earlier = []
    for ended in failed:
        directory = ended.job.directory
        if _is_earlier(ended, before[directory]):
            earlier.append(directory)
    print_study([directory for directory in runs.values() if directory not in earlier])
    if earlier:
        names = ", ".join(directory.name for directory in earlier)
        echo(f"{names}: the earlier run is still there, and not shown; --force replaces it when the new one starts")
    if not failed:
        return 0
    names = ", ".join(ended.job.run_id for ended in failed)
    verb, pronoun = ("is", "it") if len(failed) == 1 else ("are", "them")
    problem = f"{len(failed)} of {len(seeds)} runs {verb} not done: {names}"
    echo(f"{problem}; {again} continues {pronoun}", err=True)
    return failed[0].code


def _is_earlier(ended: Ended, before: tuple[int, ...] | None) -> bool:
    """Whether a run that was to start from the beginning failed before it replaced the run that is in its directory."""
    if ended.job.resume or before is None:
        return False
    return before == identity(ended.job.directory / CONFIGURATION)


def _read(options: Mapping[str, Any]) -> tuple[list[int], int]:
    """The seeds and the number of runs at a time. Raises click.UsageError for options that exclude each other."""
    if "seeds" not in options:
        raise click.UsageError("--jobs says how many runs of --seeds train at a time; add --seeds 1-5")
    if options["seed"] is not None:
        raise click.UsageError("--seeds gives each run its seed; leave --seed out")
    if options["inference"]:
        raise click.UsageError("--seeds trains; --inference acts with one run, such as --run-id base-seed-1")
    if launched() is not None:
        raise click.UsageError("--seeds starts processes of its own; start it without torchrun")
    return read_seeds(options["seeds"]), read_jobs(options.get("jobs"))


def _study(options: Mapping[str, Any], config: RunConfig | None) -> tuple[str, str]:
    """The name of the study, and the directory of its runs."""
    if config is not None:
        return config.checkpoint_settings.run_id, config.checkpoint_settings.results_dir
    if problem := name_problem("a run id", options["run_id"]):
        raise ConfigError(f"--run-id: {problem}")
    return options["run_id"], options["results_dir"] or "results"


def _refuse_existing(directories: Any) -> None:
    for directory in directories:
        if has_checkpoint(directory):
            raise RunStateError(
                f"{directory}: this run exists; continue the study (--resume), replace its runs (--force) or choose "
                "another --run-id"
            )


def _any_configuration(runs: Mapping[int, Path]) -> Path:
    """The configuration of one of the runs, for those that have not begun. Raises RunStateError if there is none."""
    for directory in runs.values():
        file = directory / CONFIGURATION
        if file.is_file():
            return file
    first = next(iter(runs.values()))
    raise RunStateError(f"{first}: there is no run to resume, nor of another of these seeds; name the CONFIG")


def _is_done(directory: Path, config: RunConfig | None) -> bool:
    """Whether the run has ended as ``config`` asks for. A run of another configuration is left to ``rlcore run``."""
    if not has_checkpoint(directory):
        return False
    data: RunData = read_run(directory)
    if data.running or data.result is None or data.result["outcome"] != "done":
        return False
    return config is None or _learned(dump_config(config)) == _learned(data.configuration)


def _learned(configuration: Mapping[str, Any]) -> Mapping[str, Any]:
    return {name: configuration.get(name) for name in ("behaviors", "environment", "evaluation")}


def _without(words: Sequence[str], options: Sequence[str], flags: Sequence[str]) -> tuple[str, ...]:
    """The words of a command line without these options, which have a value, and without these flags."""
    with_value = [f"--{name}" for name in options]
    beginnings = tuple(f"--{name}=" for name in options)
    left_out = [f"--{name}" for name in flags]
    remaining: list[str] = []
    rest = iter(words)
    for word in rest:
        if word == "--":  # all words after it are arguments
            remaining += (word, *rest)
        elif word in with_value:
            next(rest, None)
        elif word not in left_out and not word.startswith(beginnings):
            remaining.append(word)
    return tuple(remaining)


def _with(words: Sequence[str], options: Sequence[str]) -> tuple[str, ...]:
    """The words of a command line with these options after all others; of one that is repeated, the last counts."""
    end = list(words).index("--") if "--" in words else len(words)
    return (*words[:end], *options, *words[end:])
