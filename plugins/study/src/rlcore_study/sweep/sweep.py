"""Trains the trials of a sweep: which one is next, what became of its runs, and what its record says at the end."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs

from rlcore import (
    ConfigError,
    DamagedFile,
    Document,
    ExitCode,
    Plugins,
    RunStateError,
    echo,
    find_checkpoints,
    is_locked,
    read_object,
    read_run,
    write_config,
)
from rlcore_study.documents import at_path, finite, items_at
from rlcore_study.side_by_side import Ended, Job, Running, side_by_side, steps_of
from rlcore_study.sweep.block import configuration
from rlcore_study.sweep.optuna_study import Judge, values_of
from rlcore_study.sweep.pruning import PRUNED, evaluations_in
from rlcore_study.sweep.space import described
from rlcore_study.sweep.trials import RunResult, SavedSweep, Trial, writing

BEST = "best.yaml"
KILLS = 5  # of one run, in one command, without a checkpoint between them


@attrs.define(eq=False)
class Sweep:
    """A sweep in progress.

    Attributes:
        saved: What the sweep searches, and where.
        document: The configuration file with the options of the command.
        plugins: The plugins that read it.
        trials: The trials that have a record, by number.
        training: The trials with a run that is going on, each with its run.
        problem: Why no further run is started; empty while there is no reason.
    """

    saved: SavedSweep
    document: Document
    plugins: Plugins
    trials: dict[int, Trial]
    training: dict[int, str] = attrs.field(factory=dict)
    problem: str = ""
    _said: set[str] = attrs.field(factory=set)
    _stopped: list[Running] = attrs.field(factory=list)
    _kills: dict[tuple[int, str], tuple[int, int]] = attrs.field(factory=dict)

    def train(self) -> int | None:
        """Train until all trials have ended. Returns the number of the signal that ended it; None if none did.

        Raises RunStateError if a run cannot write its files.
        """
        jobs = self.saved.settings.jobs
        lag = self.saved.settings.lag
        at_once = min(jobs, lag + 1)
        if at_once < jobs:
            self._say_once(f"at most {at_once} trials train at the same time, because this sweep has unseen: {lag}")
        stopped = side_by_side(self._jobs(), at_once, self._run_ended, self._look)
        if self.problem:
            raise RunStateError(self.problem)
        return stopped

    def _say_once(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            echo(text, file=sys.stdout)

    # ------------------------------------------------------------ which run is next

    @property
    def _unfinished(self) -> Iterator[int]:
        for number in range(self.saved.settings.trials):
            if number not in self.trials or not self.trials[number].ended:
                yield number

    def _jobs(self) -> Iterator[Job | None]:
        """Yield the next run; None while it depends on a run that is going on."""
        while not self.problem and next(self._unfinished, None) is not None:
            yield self._next()

    def _next(self) -> Job | None:
        for number in self._unfinished:
            if number in self.training:
                continue
            known = self.trials.get(number)
            seen = max(0, number - self.saved.settings.lag) if known is None else known.seen
            if not all(each in self.trials and self.trials[each].ended for each in range(seen)):
                return None
            if known is None:
                if any(each not in self.trials for each in range(number)):
                    return None
                known = Trial(number, seen, values_of(self.saved, self.trials, number, seen))
                self._record(known)
                echo(f"{known.name}  {described(known.parameters)}", file=sys.stdout)
            name, environment, seed = next(each for each in self.saved.runs() if each[0] not in known.runs)
            directory = self.saved.place(number) / name
            if is_locked(directory):  # a run that the killed process before this one started saves its checkpoint
                self._say_once(f"{known.name}/{name}  waits for another process of this run to end")
                continue
            try:
                job = self._job(known, name, environment, seed)
            except ConfigError as error:
                self._end(known, "failed", reason=str(error))
                return None
            if job is not None:
                self.training[number] = name
                return job
            return None
        return None

    def _job(self, trial: Trial, name: str, environment: str, seed: int) -> Job | None:
        """The run of a trial; None if it had ended before, and is recorded now."""
        place = self.saved.place(trial.number)
        directory = place / name
        if self._settled(trial, name, exit_code=None):
            return None
        case = self.saved.settings.environments.get(environment)
        values = {**(case.values if case is not None else {}), **trial.parameters}
        config = configuration(self.document, self.plugins, values, seed)
        start = attrs.evolve(
            config.checkpoint_settings, run_id=name, results_dir=str(place), resume=False, force=False, checkpoint=None
        )
        file = place / f"{name}.yaml"
        with writing(file):
            write_config(attrs.evolve(config, checkpoint_settings=start), file)
        words: tuple[str, ...] = ("--run-id", name, "--results-dir", str(place))
        regular = _regular_checkpoint(directory)
        if regular is None:
            words = (str(file), "--force") if directory.exists() else (str(file),)
        else:
            words = ("--resume", *words, "--checkpoint", str(regular))
        return Job(f"{trial.name}/{name}", directory, words, steps=steps_of(config))

    # ------------------------------------------------------------ what became of a run

    def _look(self, running: Running) -> None:
        """Stop a run if another one cannot write its files: this one will not be able to, either."""
        if self.problem and running not in self._stopped:
            self._stopped.append(running)
            running.stop()

    def _run_ended(self, ended: Ended) -> None:
        number = next(each for each in self.training if self.saved.place(each) == ended.job.directory.parent)
        name = self.training.pop(number)
        trial = self.trials[number]
        if ended.interrupted:
            return
        if ended.killed:
            self._killed(trial, name, ended)
        elif ended.code == ExitCode.RUN_STATE:
            said = ended.error.partition("; the last intact one")[0] or "its files cannot be used"
            self.problem = f"{ended.job.run_id}: {said}; nothing is lost: fix that, and the same command continues"
        elif not self._settled(trial, name, ended.code):
            reason = ended.error or f"exit code {ended.code}"
            self._end(trial, "failed", reason=reason)

    def _killed(self, trial: Trial, name: str, ended: Ended) -> None:
        """Let the run continue, unless it is killed again and again at the same place."""
        found = find_checkpoints(ended.job.directory / "checkpoints")
        step = found[-1].step if found else 0
        before, kills = self._kills.get((trial.number, name), (-1, 0))
        kills = kills + 1 if before == step else 1
        self._kills[trial.number, name] = step, kills
        if kills >= KILLS:
            self._end(trial, "failed", reason=f"{ended.text}, {kills} times without a checkpoint between")

    def _settled(self, trial: Trial, name: str, exit_code: int | None) -> bool:
        """Record a run that has ended well. Returns whether it has."""
        directory = self.saved.place(trial.number) / name
        try:
            result = read_object(directory / "result.json")
        except (FileNotFoundError, DamagedFile):
            return False
        reason = str(at_path(result, "stop", "reason") or "")
        pruned = result.get("outcome") == "interrupted" and reason.startswith(PRUNED)
        if not pruned and result.get("outcome") != "done":
            if exit_code != 0:
                return False
            reason = reason or str(result.get("outcome"))
        evaluations = tuple(evaluations_in(read_run(directory, self.plugins).status))
        if pruned:
            self._end(trial, "pruned", {name: evaluations}, reason)
            return True
        score = _score(self.saved.settings.metric, result)
        if score is None:
            self._end(trial, "failed", reason=f"{name}: has no {self.saved.settings.metric}: it ended too early")
            return True
        trial = attrs.evolve(trial, runs={**trial.runs, name: RunResult(score, evaluations)})
        if len(trial.runs) == len(self.saved.runs()):
            self._end(trial, "complete")
        else:
            self._record(trial)
        return True

    def _end(
        self, trial: Trial, state: str, last: dict[str, tuple[tuple[int, float], ...]] | None = None, reason: str = ""
    ) -> None:
        """Record the end of a trial. ``last`` has the evaluations of a run that was pruned."""
        saved = self.saved
        run, evaluations = next(iter((last or {}).items()), (None, ()))
        intermediate = saved.intermediate(trial, run, evaluations)
        notes: dict[str, Any] = {}
        if saved.settings.pruner is not None and state != "failed":
            judge = Judge(saved, self.trials, trial)
            judge.hopeless(intermediate)
            notes = judge.notes
        value = saved.worth(trial) if state == "complete" else None
        ended = attrs.evolve(trial, state=state, value=value, intermediate=intermediate, pruner=notes, reason=reason)
        self._record(ended)
        best = saved.best(self.trials)
        so_far = "" if best is None else f"; best {best.value:g}, {best.name}"
        text = f"{value:g}" if value is not None else reason
        echo(f"{trial.name}  {state}: {text}{so_far}", file=sys.stdout)

    def _record(self, trial: Trial) -> None:
        self.saved.write_trial(trial)
        self.trials[trial.number] = trial

    # ------------------------------------------------------------ the end

    def write_best(self, best: Trial) -> Path:
        """Write the configuration of the best trial, as a file that ``rlcore run`` takes."""
        config = configuration(self.document, self.plugins, dict(best.parameters))
        directory = self.saved.directory
        start = attrs.evolve(
            config.checkpoint_settings,
            run_id=f"{directory.name}-best",
            results_dir=str(directory.parent),
            resume=False,
            force=False,
        )
        path = directory / BEST
        with writing(path):
            write_config(attrs.evolve(config, checkpoint_settings=start), path)
        return path


def _regular_checkpoint(directory: Path) -> int | None:
    """The step of the newest checkpoint that is surely a regular one; None if there is none.

    The last checkpoint of a process may be the one of its end: a signal, or the end of the sweep, made it save at a
    step at which a run without a stop saves nothing. Where a checkpoint ends all episodes, a run that continues there
    does not equal one that was never stopped. All others are regular ones, because a run continues only there.
    """
    sound = [each.step for each in find_checkpoints(directory / "checkpoints")[:-1] if not each.problems()]
    return max(sound, default=None)


def _score(metric: str, result: dict[str, Any]) -> float | None:
    """The metric of a run in its ``result.json``; None if the run has none."""
    if metric == "reward":
        found = [finite(at_path(each, "mean_reward")) for _, each in items_at(result, "behaviors")]
    else:
        found = [finite(at_path(result, "evaluation", "score" if metric == "evaluation" else "best_score"))]
    known = [value for value in found if value is not None]
    return sum(known) / len(known) if known and len(known) == len(found) else None
