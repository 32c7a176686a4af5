"""Trains the trials of a sweep: which one is next, what became of its runs, and what its record says at the end."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
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
from rlcore_study.sweep.block import configuration, without_replays
from rlcore_study.sweep.opening import BEST
from rlcore_study.sweep.optuna_study import Judge, values_of
from rlcore_study.sweep.pruning import PRUNED, evaluations_in
from rlcore_study.sweep.space import described
from rlcore_study.sweep.trials import SavedSweep, SeedResult, Trial, writing

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
        signals = configuration(self.document, self.plugins, {}).checkpoint_settings.signals()
        stopped = side_by_side(self._jobs(), at_once, self._run_ended, self._look, signals)
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
            if not self._has_ended(number):
                yield number

    def _jobs(self) -> Iterator[Job | None]:
        """Yield the next run; None while it depends on a run that is going on."""
        while not self.problem and next(self._unfinished, None) is not None:
            yield self._next()

    def _next(self) -> Job | None:
        for number in self._unfinished:
            if number in self.training:
                continue
            trial = self.trials.get(number)
            seen = max(0, number - self.saved.settings.lag) if trial is None else trial.seen
            # The sampler and the pruner know the results of these trials, whatever their order of ending was.
            if not all(self._has_ended(earlier) for earlier in range(seen)):
                return None
            if trial is None:
                if any(earlier not in self.trials for earlier in range(number)):
                    return None
                values = values_of(self.saved, self.trials, number, seen)
                trial = Trial(number, seen, values)
                self._record(trial)
                echo(f"{trial.name}  {described(values)}", file=sys.stdout)
            missing = [run for run in self.saved.runs() if run[0] not in trial.runs]
            name, environment, seed = missing[0]
            directory = self.saved.place(number) / name
            if is_locked(directory):  # a run that the killed process before this one started saves its checkpoint
                self._say_once(f"{trial.name}/{name}  waits for another process of this run to end")
                continue
            try:
                job = self._job(trial, name, environment, seed)
            except ConfigError as error:
                self._end(trial, "failed", str(error))
                return None
            if job is not None:
                self.training[number] = name
            return job
        return None

    def _has_ended(self, number: int) -> bool:
        return number in self.trials and self.trials[number].ended

    def _job(self, trial: Trial, name: str, environment: str, seed: int) -> Job | None:
        """The run of a trial; None if it had ended before, and is recorded now."""
        parent = self.saved.place(trial.number)
        directory = parent / name
        if self._record_success(trial, name, exit_code=None):
            return None
        values = dict(trial.parameters)
        case = self.saved.settings.environments.get(environment)
        if case is not None:
            values = {**case.values, **values}
        config = without_replays(configuration(self.document, self.plugins, values, seed))
        start = attrs.evolve(
            config.checkpoint_settings, run_id=name, results_dir=str(parent), resume=False, force=False, checkpoint=None
        )
        file = parent / f"{name}.yaml"
        with writing(file):
            write_config(attrs.evolve(config, checkpoint_settings=start), file)
        words: tuple[str, ...] = (str(file),)
        step = _regular_checkpoint(directory)
        if step is not None:
            words = ("--resume", "--run-id", name, "--results-dir", str(parent), "--checkpoint", str(step))
        elif directory.exists():
            words = (str(file), "--force")
        return Job(f"{trial.name}/{name}", directory, words, steps=steps_of(config))

    # ------------------------------------------------------------ what became of a run

    def _look(self, running: Running) -> None:
        """Stop a run if another one cannot write its files: this one will not be able to, either."""
        if self.problem and running not in self._stopped:
            self._stopped.append(running)
            running.stop()

    def _run_ended(self, ended: Ended) -> None:
        directory = ended.job.directory.parent
        number = next(number for number in self.training if self.saved.place(number) == directory)
        name = self.training.pop(number)
        trial = self.trials[number]
        if ended.interrupted:
            return
        if ended.killed:
            self._killed(trial, name, ended)
        elif ended.code == ExitCode.RUN_STATE:
            reason = ended.error.partition("; the last intact one")[0] or "its files cannot be used"
            self.problem = f"{ended.job.run_id}: {reason}; nothing is lost: fix that, and the same command continues"
        elif not self._record_success(trial, name, ended.code):
            reason = ended.error or f"exit code {ended.code}"
            self._end(trial, "failed", reason)

    def _killed(self, trial: Trial, name: str, ended: Ended) -> None:
        """Let the run continue, unless it is killed again and again at the same place."""
        checkpoints = find_checkpoints(ended.job.directory / "checkpoints")
        step = checkpoints[-1].step if checkpoints else 0
        last_step, kills = self._kills.get((trial.number, name), (-1, 0))
        if last_step != step:
            kills = 0
        kills += 1
        self._kills[trial.number, name] = step, kills
        if kills >= KILLS:
            self._end(trial, "failed", f"{ended.text}, {kills} times without a checkpoint between")

    def _record_success(self, trial: Trial, name: str, exit_code: int | None) -> bool:
        """Record a run that has ended well. Returns whether it has."""
        directory = self.saved.place(trial.number) / name
        try:
            result = read_object(directory / "result.json")
        except (FileNotFoundError, DamagedFile):
            return False
        outcome = result.get("outcome")
        reason = str(at_path(result, "stop", "reason") or "")
        pruned = outcome == "interrupted" and reason.startswith(PRUNED)
        if not pruned and outcome != "done" and exit_code != 0:
            return False
        status = read_run(directory, self.plugins).status
        evaluations = tuple(evaluations_in(status))
        if pruned:
            self._end(trial, "pruned", reason, name, evaluations)
            return True
        score = _score(self.saved.settings.metric, result)
        if score is None:
            self._end(trial, "failed", f"{name}: has no {self.saved.settings.metric}: it ended too early")
            return True
        runs = {**trial.runs, name: SeedResult(score, evaluations)}
        trial = attrs.evolve(trial, runs=runs)
        if len(runs) == len(self.saved.runs()):
            self._end(trial, "complete")
        else:
            self._record(trial)
        return True

    def _end(
        self,
        trial: Trial,
        state: str,
        reason: str = "",
        pruned_run: str | None = None,
        evaluations: Sequence[tuple[int, float]] = (),
    ) -> None:
        """Record the end of a trial. ``evaluations`` are those of the run that was pruned."""
        saved = self.saved
        intermediate = saved.intermediate(trial, pruned_run, evaluations)
        notes: dict[str, Any] = {}
        if saved.settings.pruner is not None and state != "failed":
            judge = Judge(saved, self.trials, trial)
            judge.hopeless(intermediate)
            notes = judge.notes
        value = saved.worth(trial) if state == "complete" else None
        ended = attrs.evolve(trial, state=state, value=value, intermediate=intermediate, pruner=notes, reason=reason)
        self._record(ended)
        text = f"{value:g}" if value is not None else reason
        best = saved.best(self.trials)
        if best is not None:
            text = f"{text}; best {best.value:g}, {best.name}"
        echo(f"{trial.name}  {state}: {text}", file=sys.stdout)

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
    checkpoints = find_checkpoints(directory / "checkpoints")
    intact = [checkpoint.step for checkpoint in checkpoints[:-1] if not checkpoint.problems()]
    return max(intact, default=None)


def _score(metric: str, result: dict[str, Any]) -> float | None:
    """The metric of a run in its ``result.json``; None if the run has none."""
    if metric == "evaluation":
        return finite(at_path(result, "evaluation", "score"))
    if metric == "best_evaluation":
        return finite(at_path(result, "evaluation", "best_score"))
    rewards = []
    for _, behavior in items_at(result, "behaviors"):
        reward = finite(at_path(behavior, "mean_reward"))
        if reward is None:
            return None
        rewards.append(reward)
    return sum(rewards) / len(rewards) if rewards else None
