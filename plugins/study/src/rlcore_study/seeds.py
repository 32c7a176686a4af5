"""``rlcore run --seeds 1-5 --jobs 2``: trains with several seeds side by side.

The run of seed 3 of the study ``base`` is called ``base-seed-3``. The run directories are the study: there is no other
file. Each is the directory of the run that ``rlcore run --run-id base-seed-3 --seed 3`` with the same words makes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import click

from rlcore import (
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
from rlcore_study.side_by_side import Ended, Job, cores, has_checkpoint, side_by_side, steps_of

_PART = re.compile(r"(\d{1,20})(?:-(\d{1,20}))?")  # longer numbers are no seeds, and slow to read
CONFIGURATION = "configuration.yaml"
MAX_SEEDS = 10_000  # a larger range is a slip


def read_seeds(text: str) -> list[int]:
    """The seeds of ``1-5`` or ``1,3,7-9``, in this order. Raises click.UsageError for any other text."""
    found: list[int] = []
    for part in text.split(","):
        match = _PART.fullmatch(part.strip())
        first = int(match[1]) if match else 1
        last = int(match[2] or match[1]) if match else 0
        if last < first or last - first >= MAX_SEEDS:
            raise click.UsageError(f"--seeds {_beginning(text)}: write seeds as 1-5 or 1,3,7-9, the smaller one first")
        found += range(first, last + 1)
    if len(set(found)) < len(found):
        twice = next(seed for seed in found if found.count(seed) > 1)
        raise click.UsageError(f"--seeds {text!r}: has seed {twice} twice")
    return found


def _beginning(text: str) -> str:
    """Return what a user typed for a message, at most 60 characters of it."""
    return repr(text) if len(text) <= 60 else f"{text[:60]!r}..."


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
    alone = options["config"] is None and options["env"] is None and options["resume"] and options["run_id"]
    config = None if alone else make_run().config
    study, results = _study(options, config)
    runs = {seed: user_path(results) / run_id(study, seed) for seed in seeds}
    if not options["resume"] and not options["force"]:
        _refuse_existing(runs.values())
    own = _without(words, ("seeds", "jobs"), ("resume",))
    changes = _without(own, ("run-id", "results-dir"), ())  # of saved configurations
    again = options["checkpoint"] is not None or (config is None and changes)
    jobs = []
    for seed, directory in runs.items():
        if options["resume"] and not again and _is_done(directory, config):
            echo(f"{directory.name}  is done already")
            continue
        of_run = ("--run-id", directory.name, "--seed", str(seed))
        job = Job(directory.name, directory, _with(own, of_run), resume=options["resume"])
        if config is not None:
            job = attrs.evolve(job, steps=steps_of(config))
        else:
            new = (str(_any_configuration(runs)), *own)
            job = attrs.evolve(job, new=_with(new, of_run))
        jobs.append(job)
    replaced = {directory: identity(directory / CONFIGURATION) for directory in runs.values()}
    failed: list[Ended] = []
    number = side_by_side(jobs, at_once, lambda each: failed.append(each) if each.code else None)
    if number is not None:
        echo("interrupted; the same command with --resume continues", err=True)
        return 128 + number
    earlier = [each.job.directory for each in failed if _is_earlier(each, replaced[each.job.directory])]
    print_study([directory for directory in runs.values() if directory not in earlier])
    if earlier:
        kept = ", ".join(directory.name for directory in earlier)
        echo(f"{kept}: the earlier run is still there, and not shown; --force replaces it when the new one starts")
    if failed:
        names = ", ".join(each.job.run_id for each in failed)
        one = len(failed) == 1
        many = f"{len(failed)} of {len(seeds)} runs {'is' if one else 'are'} not done"
        echo(f"{many}: {names}; the same command with --resume continues {'it' if one else 'them'}", err=True)
    return failed[0].code if failed else 0


def _is_earlier(ended: Ended, before: tuple[int, ...] | None) -> bool:
    """Whether a run that was to start from the beginning failed before it replaced the run that is in its directory."""
    return not ended.job.resume and before is not None and before == identity(ended.job.directory / CONFIGURATION)


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
    found = [file for directory in runs.values() if (file := directory / CONFIGURATION).is_file()]
    if not found:
        first = next(iter(runs.values()))
        raise RunStateError(f"{first}: there is no run to resume, nor of another of these seeds; name the CONFIG")
    return found[0]


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
    kept: list[str] = []
    rest = iter(words)
    for word in rest:
        if word == "--":
            kept += (word, *rest)
        elif word in {f"--{name}" for name in options}:
            next(rest, None)
        elif word not in {f"--{name}" for name in flags} and not word.startswith(tuple(f"--{o}=" for o in options)):
            kept.append(word)
    return tuple(kept)


def _with(words: Sequence[str], options: Sequence[str]) -> tuple[str, ...]:
    """The words of a command line with these options after all others; of one that is repeated, the last counts."""
    end = list(words).index("--") if "--" in words else len(words)
    return (*words[:end], *options, *words[end:])
