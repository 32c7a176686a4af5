"""The run: the loop that knows the order of things, from the first step to the last checkpoint.

The words used here, in the configuration, in logs and on the command line:

==================  ====================================================================================
behavior            a named kind of agent; one trainer learns it
slot                one row of a behavior's arrays: a place where one live agent sits
environment step    one call of ``Environment.step``: every copy of the environment moves once
agent step          one agent's one transition; ``max_steps`` and the intervals count these
rollout             what an on-policy trainer collects between two updates
update              one ``Trainer.update()``: all gradient steps on what was collected
epoch               the stretch between two summaries; iterating over a run yields one result per epoch
checkpoint          everything a resumed run needs, in one verified directory
==================  ====================================================================================

A checkpoint ends open episodes, unless the environment can save itself: every copy begins its next episode, and what
was open bootstraps as if truncated. The run that is never stopped does the same, which is what makes a resumed run
equal to it bit for bit.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path
from time import perf_counter, time
from types import TracebackType
from typing import Any, Literal, Self

import attrs
import numpy as np

from rlcore import status as status_file
from rlcore.behavior_run import BehaviorRun, next_boundary
from rlcore.checkpoint import (
    find_checkpoints,
    newest_good,
    rotate,
    save_checkpoint,
    sweep,
    write_atomically,
)
from rlcore.config import RunConfig, write_config
from rlcore.environment import Actions, AgentBatch, Environment, SavesState
from rlcore.errors import EnvironmentFailed, RunStateError
from rlcore.evaluation import EvaluationResult, evaluate_policies
from rlcore.plugins.calls import Plugins
from rlcore.run_context import RunContext
from rlcore.run_directory import RunDirectory
from rlcore.seeding import EpisodeSeeds
from rlcore.setup import (
    fresh_start,
    make_behavior_runs,
    make_environment,
    make_writers,
    resolve_config,
    run_context,
    with_seed,
)
from rlcore.stats import STEPS_PER_SECOND, StatsWriter, StatSummary
from rlcore.timers import Timers

Outcome = Literal["done", "interrupted", "failed"]

__all__ = ["BehaviorResult", "EpochResult", "Run", "RunContext"]


@attrs.frozen
class BehaviorResult:
    """What one behavior did in one epoch."""

    steps: int  # agent steps so far
    episodes: int  # episodes finished so far
    updates: int  # trainer updates so far
    mean_reward: float | None  # of the latest episodes; None before the first one ended
    stats: Mapping[str, StatSummary]  # everything its summary held, by tag; empty if it had none in this epoch


@attrs.frozen
class EpochResult:
    """What iterating over a :class:`Run` yields."""

    epoch: int  # from 1, counted by this process
    behaviors: Mapping[str, BehaviorResult]
    seconds: float
    collect_seconds: float  # acting, stepping and recording
    update_seconds: float
    steps_per_second: float  # agent steps of all behaviors


class Run:
    """One training. Iterating goes on where it was, so ``for epoch in run`` can be left and entered again::

        with Run("examples/cartpole.yaml") as run:
            for epoch in run:
                print(epoch.behaviors["CartPole"].mean_reward)

    ``config`` is a configuration file, a mapping of the same shape, or a :class:`RunConfig`. Environment, trainers
    and run directory are made when the first epoch begins, or by :meth:`start`.
    """

    def __init__(self, config: RunConfig | Mapping[str, Any] | str | Path, plugins: Plugins | None = None) -> None:
        self.config, self.plugins = resolve_config(config, plugins)
        self.directory = RunDirectory(self.config.checkpoint_settings)
        self.timers = Timers()
        self.behaviors: dict[str, BehaviorRun] = {}
        self.epoch = 0
        self.outcome: Outcome | None = None
        self.stop_signal: int | None = None
        self.warnings: list[str] = []
        self.shown_warnings = 0  # how many of them somebody has printed already
        self._environment: Environment | None = None
        self._writers: list[StatsWriter] = []
        self._context: RunContext | None = None
        self._checkpoint_index: dict[str, list[dict[str, Any]]] = {}
        self._saved_step: int | None = None
        self._stop = False
        self._seconds_before = 0.0  # of earlier processes of this run
        self._started_at = 0.0
        self._steps_at_start = 0
        self._collected = [0.0, 0.0, 0.0, 0.0]  # seconds acting, stepping, recording, updating in this epoch
        self._loops = 0  # environment steps in this epoch
        self._updates = 0
        self._inferred = 0  # agent steps of this epoch when inferring

    # ------------------------------------------------------------ what users call

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is not None:
            self.close(outcome_of(error), error)
        elif self._context is not None:
            self.close("done" if self.finished else "interrupted")

    def __iter__(self) -> Iterator[EpochResult]:
        return self

    def __next__(self) -> EpochResult:
        """Trains until the next summary. Raises StopIteration when ``max_steps`` is reached or a stop was asked for."""
        if self.outcome is not None:
            raise StopIteration
        try:
            self.start()
            if self.finished or self._stop:
                self.close("interrupted" if self._stop else "done")
                raise StopIteration
            return self._train_epoch()
        except StopIteration:
            raise
        except BaseException as error:
            self.close(outcome_of(error), error)
            raise

    def train(self) -> Mapping[str, BehaviorResult]:
        """Trains to the end and returns the last results."""
        for _ in self:
            pass
        return self.results()

    def evaluate(self, episodes: int = 20, seed: int | None = None, deterministic: bool = True) -> EvaluationResult:
        """Plays ``episodes`` whole episodes with the current policies in an environment of their own."""
        self.start()
        context = self._require_context()
        policies = {name: behavior.trainer.policy for name, behavior in self.behaviors.items()}
        return evaluate_policies(policies, self.config, self.plugins, context, episodes, seed, deterministic)

    def request_stop(self, signal_number: int | None = None) -> None:
        """Asks the run to save a checkpoint and end after the current environment step. Safe in a signal handler."""
        self.stop_signal = signal_number
        self._stop = True

    @property
    def finished(self) -> bool:
        """Whether every behavior has reached its ``max_steps``."""
        if self._require_context().inference:
            return False
        return not any(behavior.learning for behavior in self.behaviors.values())

    @property
    def steps(self) -> int:
        """Agent steps of all behaviors."""
        return sum(behavior.trainer.steps for behavior in self.behaviors.values())

    def results(self) -> dict[str, BehaviorResult]:
        """Where every behavior stands."""
        return {name: self._behavior_result(behavior, {}) for name, behavior in self.behaviors.items()}

    # ------------------------------------------------------------ beginning

    def start(self) -> None:
        """Makes the run directory, environment, trainers and writers, and restores a resumed run. Once."""
        if self._context is not None:
            return
        with self.timers.root.child("run_training.setup").measure():
            self.directory.open()
            try:
                self._set_up()
            except BaseException:
                self._release()
                self._context = None
                raise
        self._started_at = perf_counter()
        self._steps_at_start = self.steps

    def _set_up(self) -> None:
        sweep(self.directory.checkpoints)
        settings = self.config.checkpoint_settings
        saved = self._newest_checkpoint() if settings.resume or settings.inference else None
        seed = int(saved["run"]["seed"]) if saved is not None else None
        self.config, context = self._make_context(seed, saved)
        self._context = context
        self.plugins.configured(self.config)
        self._environment = make_environment(self.config, self.plugins, context)
        self.behaviors = make_behavior_runs(self.config, self.plugins, context, self._environment)
        if saved is None:
            self._begin_episodes(np.zeros(self._environment.num_envs, np.int64))
            if settings.initialize_from is not None:
                self._initialize_from(settings.initialize_from)
            self._initialize_from_paths()
        else:
            self._restore(saved)
        for behavior in self.behaviors.values():
            behavior.set_boundaries()
        self._writers = make_writers(self.config, self.plugins, context)
        if not context.inference:
            self._write_configuration()
        self.plugins.run_started(context)

    def _make_context(self, seed: int | None, saved: Mapping[str, Any] | None) -> tuple[RunConfig, RunContext]:
        config = with_seed(self.config, seed)
        resumed = {} if saved is None else {name: int(n) for name, n in saved["run"]["steps"].items()}
        return config, run_context(config, self.plugins, self.directory.path, resumed)

    def _begin_episodes(self, episodes: np.ndarray[Any, np.dtype[np.int64]]) -> None:
        environment = self._require_environment()
        batches = environment.reset(EpisodeSeeds(self._require_context().seed), episodes)
        for name, behavior in self.behaviors.items():
            behavior.check_finite(batches[name])
            behavior.begin(batches[name])

    def _newest_checkpoint(self) -> dict[str, Any]:
        for checkpoint, state, problem in newest_good(self.directory.checkpoints):
            if state is not None:
                self._saved_step = checkpoint.step
                return state
            self.warnings.append(f"{problem}; going on from an older checkpoint")
        if self.warnings:
            raise RunStateError(
                f"{self.directory.path}: no checkpoint of this run is usable: {self.warnings[0].split(';')[0]}; "
                "restore one from a backup or start over with --force"
            )
        raise RunStateError(f"{self.directory.path}: this run has no checkpoint yet; start over with --force")

    def _restore(self, saved: Mapping[str, Any]) -> None:
        state = saved["run"]
        unknown = sorted(set(state["behaviors"]) ^ set(self.behaviors))
        if unknown:
            raise RunStateError(
                f"{self.directory.path}: the checkpoint has behaviors {', '.join(sorted(state['behaviors']))}, this "
                f"configuration {', '.join(sorted(self.behaviors))}; resume with the configuration of the run"
            )
        environment = self._require_environment()
        episodes = np.asarray(state["episodes"])
        if len(episodes) != environment.num_envs:
            raise RunStateError(
                f"{self.directory.path}: the checkpoint is of {len(episodes)} environment copies, this run has "
                f"{environment.num_envs}; set environment.num_envs to {len(episodes)}"
            )
        for name, behavior in self.behaviors.items():
            behavior.trainer.load_state_dict(saved[name])
            behavior.load_state_dict(state["behaviors"][name])
        if isinstance(environment, SavesState) and state["environment"] is not None:
            batches = environment.load_state_dict(state["environment"])
        else:
            batches = environment.reset(EpisodeSeeds(self._require_context().seed), episodes)
        for name, behavior in self.behaviors.items():
            behavior.batch = batches[name]
        self._seconds_before = float(state["wall_seconds"])
        self._restore_status()

    def _restore_status(self) -> None:
        status = self.plugins.read_status(self.directory.logs)
        if status is None:
            self.warnings.append(f"{self.directory.logs}: there is no status file; its sections start anew")
            return
        kept = {checkpoint.step for checkpoint in find_checkpoints(self.directory.checkpoints)}
        for name in self.behaviors:
            section = status.get(name, {})
            entries = [entry for entry in section.get("checkpoints", []) if entry["run_steps"] in kept]
            self._checkpoint_index[name] = entries
        then = status.get("metadata", {}).get("plugins", {})
        now = status_file.plugin_versions(self.plugins)
        for name in sorted(then.keys() | now.keys()):
            if then.get(name) != now.get(name):
                was, is_now = then.get(name, "not loaded"), now.get(name, "not loaded")
                self.warnings.append(f"plugin {name!r}: {was} when the run was saved, {is_now} now")
        self.plugins.restore_status(self._require_context(), status)

    def _initialize_from(self, run_id: str) -> None:
        settings = attrs.evolve(self.config.checkpoint_settings, run_id=run_id)
        self._take_models(RunDirectory(settings).checkpoints, f"--initialize-from {run_id}", list(self.behaviors))

    def _initialize_from_paths(self) -> None:
        for name, behavior in self.behaviors.items():
            if behavior.settings.init_path is not None:
                path = Path(behavior.settings.init_path)
                where = path / "checkpoints" if (path / "checkpoints").is_dir() else path.parent
                self._take_models(where, f"behaviors.{name}.init_path {path}", [name], only=path.name)

    def _take_models(self, checkpoints: Path, origin: str, names: list[str], only: str | None = None) -> None:
        """Loads the weights of the newest good checkpoint (or the one named by its step) into new trainers."""
        chosen = None
        for checkpoint, state, problem in newest_good(checkpoints):
            if only is not None and only.isdecimal() and checkpoint.step != int(only):
                continue
            if state is not None:
                chosen = state
                break
            self.warnings.append(problem)
        if chosen is None:
            raise RunStateError(f"{origin}: there is no usable checkpoint in {checkpoints}")
        for name in names:
            if name not in chosen:
                raise RunStateError(
                    f"{origin}: that run has no behavior {name!r}; it has {', '.join(sorted(set(chosen) - {'run'}))}"
                )
            self.behaviors[name].trainer.load_model(chosen[name]["model"])

    # ------------------------------------------------------------ the loop

    def _train_epoch(self) -> EpochResult:
        context = self._require_context()
        started, steps_before = perf_counter(), self.steps
        self._collected = [0.0, 0.0, 0.0, 0.0]
        self._loops = self._updates = 0
        if context.inference:
            self._act_until_summary()
        else:
            self._learn_until_summary()
        seconds = perf_counter() - started
        self.epoch += 1
        speed = (self._inferred if context.inference else self.steps - steps_before) / max(seconds, 1e-9)
        self._add_timers()
        behaviors = {
            name: self._behavior_result(behavior, self._summarise(behavior, speed))
            for name, behavior in self.behaviors.items()
        }
        if self._checkpoint_due() and not context.inference:
            self._save_checkpoint()
        acting, stepping, recording, updating = self._collected
        return EpochResult(self.epoch, behaviors, seconds, acting + stepping + recording, updating, speed)

    def _learn_until_summary(self) -> None:
        """Environment steps and updates until a behavior reaches a boundary."""
        environment = self._require_environment()
        behaviors = list(self.behaviors.values())
        step, clock = environment.step, perf_counter
        acting = stepping = recording = updating = 0.0
        actions: dict[str, Actions] = {}
        boundary = False
        try:
            while not boundary:
                t0 = clock()
                for behavior in behaviors:
                    actions[behavior.name] = (
                        behavior.trainer.act(behavior.batch) if behavior.learning else self._exploit(behavior)
                    )
                t1 = clock()
                batches = step(actions)
                t2 = clock()
                for behavior in behaviors:
                    batch = batches[behavior.name]
                    behavior.batch = batch
                    behavior.check_finite(batch)
                    behavior.episodes.record(batch)
                    if behavior.learning:
                        behavior.trainer.observe(actions[behavior.name], batch)
                        steps = behavior.trainer.steps
                        if steps >= behavior.next_summary or steps >= behavior.next_checkpoint:
                            boundary = True
                        if steps >= behavior.settings.max_steps:
                            boundary = True
                t3 = clock()
                for behavior in behaviors:
                    if behavior.learning and behavior.trainer.ready():
                        behavior.window.add(behavior.trainer.update())
                        behavior.updates += 1
                        self._updates += 1
                acting += t1 - t0
                stepping += t2 - t1
                recording += t3 - t2
                updating += clock() - t3
                self._loops += 1
                if boundary and not self._summary_or_end_reached():
                    self._save_checkpoint()
                    boundary = False
                if self._stop:
                    return
        finally:
            self._collected = [acting, stepping, recording, updating]

    def _act_until_summary(self) -> None:
        """Inference: acts with the saved policies and learns nothing, for ``summary_freq`` agent steps."""
        environment = self._require_environment()
        goal = min(behavior.settings.summary_freq for behavior in self.behaviors.values())
        self._inferred = 0
        while self._inferred < goal and not self._stop:
            actions = {name: self._exploit(behavior) for name, behavior in self.behaviors.items()}
            batches = environment.step(actions)
            for name, behavior in self.behaviors.items():
                behavior.batch = batches[name]
                behavior.check_finite(batches[name])
                behavior.episodes.record(batches[name])
                self._inferred += behavior.spec.slots

    def _exploit(self, behavior: BehaviorRun) -> Actions:
        batch: AgentBatch = behavior.batch
        deterministic = behavior.settings.network_settings.deterministic
        return behavior.trainer.policy.act(batch.observations, batch.action_mask, deterministic)

    def _summary_or_end_reached(self) -> bool:
        learning = [behavior for behavior in self.behaviors.values() if behavior.learning]
        if any(behavior.trainer.steps >= behavior.next_summary for behavior in learning):
            return True
        return all(behavior.trainer.steps >= behavior.settings.max_steps for behavior in learning)

    # ------------------------------------------------------------ boundaries

    def _summarise(self, behavior: BehaviorRun, steps_per_second: float) -> dict[str, StatSummary]:
        """Hands a behavior's summary to the writers if its boundary was crossed."""
        context = self._require_context()
        steps, frequency = behavior.trainer.steps, behavior.settings.summary_freq
        ended = behavior.learning and steps >= behavior.settings.max_steps
        if ended:
            behavior.learning = False
        if not (steps >= behavior.next_summary or ended or context.inference):
            return {}
        at = steps if ended or context.inference else steps // frequency * frequency
        behavior.next_summary = next_boundary(steps, frequency)
        behavior.window.add({STEPS_PER_SECOND: steps_per_second, "Is Training": float(not context.inference)})
        stats = behavior.summarise()
        for writer in self._writers:
            writer.write(behavior.name, at, stats)
        self.plugins.summary_written(context, behavior.name, at, stats)
        return stats

    def _checkpoint_due(self) -> bool:
        return any(behavior.trainer.steps >= behavior.next_checkpoint for behavior in self.behaviors.values())

    def _save_checkpoint(self) -> None:
        """Ends open episodes if the environment cannot save itself, then writes everything."""
        environment, context = self._require_environment(), self._require_context()
        with self.timers.root.child("RLTrainer._checkpoint").measure():
            saves_state = isinstance(environment, SavesState)
            if not saves_state:
                self._begin_episodes(environment.episodes + 1)
            steps = {name: behavior.trainer.steps for name, behavior in self.behaviors.items()}
            state: dict[str, Any] = {name: b.trainer.state_dict() for name, b in self.behaviors.items()}
            state["run"] = {
                "seed": context.seed,
                "steps": steps,
                "episodes": environment.episodes.copy(),
                "environment": environment.state_dict() if isinstance(environment, SavesState) else None,
                "behaviors": {name: behavior.state_dict() for name, behavior in self.behaviors.items()},
                "wall_seconds": self._wall_seconds(),
            }
            path = save_checkpoint(self.directory.checkpoints, self.steps, state)
            keep = [behavior.settings.keep_checkpoints for behavior in self.behaviors.values()]
            kept = rotate(self.directory.checkpoints, 0 if min(keep) <= 0 else max(keep))
            self._saved_step = self.steps
            self._index_checkpoint(path, {checkpoint.step for checkpoint in kept})
            self._write_status()
        for behavior in self.behaviors.values():
            behavior.next_checkpoint = next_boundary(behavior.trainer.steps, behavior.checkpoint_interval)
        self.plugins.checkpoint_saved(context, self.steps, path)

    def _index_checkpoint(self, path: Path, kept: set[int]) -> None:
        """ML-Agents' list of checkpoints, for each behavior."""
        now, run_steps = time(), self.steps
        relative = path.relative_to(self.directory.path)
        for name, behavior in self.behaviors.items():
            entries = [e for e in self._checkpoint_index.get(name, []) if e["run_steps"] in kept - {run_steps}]
            entries.append(
                {
                    "steps": behavior.trainer.steps,
                    "run_steps": run_steps,
                    "file_path": str(relative / f"{name}.safetensors"),
                    "reward": behavior.mean_reward,
                    "creation_time": now,
                    "auxillary_file_paths": [str(relative / "state.json")],
                }
            )
            self._checkpoint_index[name] = entries

    def _write_status(self, final: bool = False) -> None:
        context = self._require_context()
        status: dict[str, Any] = dict(self.plugins.report_status(context))
        for name, entries in self._checkpoint_index.items():
            section: dict[str, Any] = {"checkpoints": entries}
            if final and entries:
                section["final_checkpoint"] = entries[-1]
            status[name] = {**section, **status.get(name, {})}
        status["metadata"] = status_file.metadata(status_file.plugin_versions(self.plugins))
        self.plugins.write_status(status, self.directory.logs)

    # ------------------------------------------------------------ ending

    def close(self, outcome: Outcome = "done", error: BaseException | None = None) -> None:
        """Ends the run: saves a last checkpoint unless it failed, writes the result, frees everything. Once."""
        if self.outcome is not None or self._context is None:
            if self._context is None:
                self._release()
            self.outcome = self.outcome or outcome
            return
        self.outcome = outcome
        context = self._context
        try:
            if not context.inference and outcome != "failed":
                # After a KeyboardInterrupt in the middle of a step the state may be half of one: the last
                # checkpoint stands.
                if self._saved_step != self.steps and error is None:
                    self._save_checkpoint()
                self._write_status(final=outcome == "done")
        except BaseException as late:
            self.outcome = "failed"
            error = error or late
            raise
        finally:
            try:
                self.plugins.run_finished(context, self.outcome, error)
                if not context.inference:
                    self._write_result()
            finally:
                self._release()

    def _write_result(self) -> None:
        result = {
            "outcome": self.outcome,
            "wall_seconds": self._wall_seconds(),
            "steps_per_second": (self.steps - self._steps_at_start) / max(perf_counter() - self._started_at, 1e-9),
            "behaviors": {
                name: {
                    "steps": behavior.trainer.steps,
                    "episodes": behavior.episodes.finished,
                    "mean_reward": behavior.mean_reward,
                }
                for name, behavior in self.behaviors.items()
            },
        }
        try:
            write_atomically(self.directory.result, json.dumps(result, indent=4).encode())
            self.timers.write(self.directory.logs / "timers.json")
        except OSError as error:
            if self.outcome != "failed":
                raise RunStateError(f"{self.directory.result}: {error.strerror or error}") from error
            self.warnings.append(f"{self.directory.result}: {error.strerror or error}")

    def _release(self) -> None:
        try:
            for writer in self._writers:
                writer.close()
            if self._environment is not None:
                self._environment.close()
        finally:
            self._writers = []
            self.directory.close()

    # ------------------------------------------------------------ small things

    def _write_configuration(self) -> None:
        try:
            write_config(fresh_start(self.config), self.directory.configuration)
        except OSError as error:
            raise RunStateError(f"{self.directory.configuration}: {error.strerror or error}") from error

    def _behavior_result(self, behavior: BehaviorRun, stats: Mapping[str, StatSummary]) -> BehaviorResult:
        return BehaviorResult(
            behavior.trainer.steps, behavior.episodes.finished, behavior.updates, behavior.mean_reward, stats
        )

    def _add_timers(self) -> None:
        acting, stepping, recording, updating = self._collected
        tree = self.timers.root.child("TrainerController.start_learning")
        tree.add(sum(self._collected))
        tree.child("TorchPolicy.evaluate").add(acting, self._loops)
        tree.child("env_step").add(stepping, self._loops)
        tree.child("process_trajectory").add(recording, self._loops)
        tree.child("_update_policy").add(updating, self._updates)

    def _wall_seconds(self) -> float:
        return self._seconds_before + perf_counter() - self._started_at

    def _require_context(self) -> RunContext:
        if self._context is None:
            raise RuntimeError("the run has not started; call start()")
        return self._context

    def _require_environment(self) -> Environment:
        if self._environment is None:
            raise EnvironmentFailed("the run has no environment; call start()")
        return self._environment


def outcome_of(error: BaseException) -> Outcome:
    """How a run ends that this error left."""
    return "interrupted" if isinstance(error, (KeyboardInterrupt, GeneratorExit)) else "failed"


def signal_exit_code(signal_number: int) -> int:
    """The shell's code for a process that a signal ended: 130 for SIGINT, 143 for SIGTERM."""
    return 128 + signal.Signals(signal_number).value
