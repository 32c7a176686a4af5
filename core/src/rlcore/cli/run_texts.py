"""The first lines of ``rlcore run``, which say what it trains, and the last one, which says how the run ended."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from rlcore.cli.terminal import ShortPaths, counted, echo, echo_columns, warn
from rlcore.errors import dotted

if TYPE_CHECKING:
    from rlcore.plugins.discover import Plugin
    from rlcore.run.behaviors.behavior import TrainedBehavior
    from rlcore.run.description import BehaviorDescription, EnvironmentDescription, StartDescription
    from rlcore.run.evaluation.evaluations import Scores
    from rlcore.run.run import Run

MOST_BEHAVIORS = 6  # lines of behaviors before the others are only counted
MOST_OBSERVATIONS = 3  # shapes of observations in a line


def show_start(run: Run, shorten: Callable[[str], str]) -> None:
    """Print what a run that has started trains."""
    lines = description_lines(run.describe())
    echo_columns([(label, shorten(text)) for label, text in lines])


def description_lines(run: StartDescription) -> list[tuple[str, str]]:
    """A label and a text for each line of the description; the label of a behavior is its name."""
    lines = [
        ("run", f"{run.directory}, seed {run.seed}"),
        ("plugins", _plugins(run.plugins)),
        ("device", run.device),
    ]
    if run.environment is None:
        lines.append(("learns from", "recorded data"))
    else:
        lines.append(("environment", environment_text(run.environment)))
    if run.preset is not None:
        lines.append(("preset", run.preset))
    if run.ranks > 1:
        lines.append(("ranks", f"{run.ranks}, which share the copies of the environment"))
    for behavior in run.behaviors[:MOST_BEHAVIORS]:
        lines.append((behavior.name, behavior_text(behavior)))
    more = len(run.behaviors) - MOST_BEHAVIORS
    if more > 0:
        lines.append(("", f"and {counted(more, 'more behavior')}"))
    if run.resume is not None:
        lines.append(("resume", str(run.resume)))
    return lines


def environment_text(environment: EnvironmentDescription) -> str:
    """``gymnasium CartPole-v1, 8 copies in 2 workers (processes)``."""
    text = environment.type
    if environment.id:
        text += f" {environment.id}"
    text += f", {counted(environment.num_envs, 'copy', 'copies')}"
    if environment.workers:
        text += f" in {counted(environment.workers, 'worker')} ({environment.executor})"
    return text


def behavior_text(behavior: BehaviorDescription) -> str:
    """``ppo; 8 agents; observes 4; acts discrete 2; network 2 x 64 tanh, 9,155 parameters; 100,000 steps``."""
    trainer = behavior.trainer
    if behavior.sections:
        trainer += f" with {', '.join(behavior.sections)}"
    parts = [trainer]
    if behavior.agents is not None:
        parts.append(counted(behavior.agents, "agent"))
    shapes = [_by(shape) or "1" for shape in behavior.observations.values()]
    observed = " + ".join(shapes[:MOST_OBSERVATIONS])
    more = len(shapes) - MOST_OBSERVATIONS
    if more > 0:
        observed += f" and {more} more"
    parts.append(f"observes {observed}")
    actions = []
    if behavior.continuous:
        actions.append(f"continuous {behavior.continuous}")
    if behavior.discrete:
        actions.append(f"discrete {_by(behavior.discrete)}")
    parts.append(f"acts {' and '.join(actions) or 'nothing'}")
    if behavior.network is not None:
        parts.append(f"network {behavior.network.layers}, {behavior.network.parameters:,} parameters")
    parts.append("acts without learning" if behavior.max_steps is None else f"{behavior.max_steps:,} steps")
    return "; ".join(parts)


def _by(sizes: Iterable[int]) -> str:
    """``84x84x3``."""
    return "x".join(map(str, sizes))


def _plugins(plugins: Iterable[Plugin]) -> str:
    """``core, ppo (0.1.0), acme-rl/reward (2.1), hooks (local)``: names of rlcore's packages are shortened."""
    names_of: dict[str, list[str]] = {}  # by version

    def rank(plugin: Plugin) -> tuple[bool, bool, str]:
        return not plugin.essential, not plugin.distribution, plugin.label

    for plugin in sorted(plugins, key=rank):
        of_rlcore = plugin.essential or plugin.distribution == f"rlcore-{plugin.name}"
        name = plugin.name if of_rlcore or not plugin.distribution else plugin.label
        version = plugin.version if plugin.distribution else "local"
        names_of.setdefault(version, []).append(name)
    return ", ".join(f"{', '.join(names)} ({version})" for version, names in names_of.items())


# ---------------------------------------------------------------- the end


def report_end(run: Run, shorten: ShortPaths) -> int:
    """Prints how a run without an error ended. Returns the exit code."""
    warn(map(shorten, run.failures))
    echo(shorten(closing_line(run)))
    return exit_code(run)


def report_saved(run: Run, shorten: ShortPaths) -> None:
    """Prints what is saved of a run that an error ended between two steps, and how to resume it."""
    if run.outcome == "failed" and run.steps and run.saved_step == run.steps:
        report_end(run, shorten)


def exit_code(run: Run) -> int:
    """The exit code of a run that ended without an error."""
    from rlcore.run.training import STOPPED

    if run.stop is None or run.outcome not in STOPPED:
        return 0
    return run.stop.exit_code


def closing_line(run: Run) -> str:
    """The last line, ``done: 9 steps; Pole mean reward 4.20 of the last 2 episodes; results/p``, and how to resume."""
    from rlcore.run.training import STOPPED

    if run.nothing_left and run.outcome == "done":
        return _nothing_left(run)
    texts = [reward_text(name, behavior) for name, behavior in run.behaviors.items()]
    rewards = ", ".join(texts)
    directory = run.directory.path
    if run.config.checkpoint_settings.inference and run.outcome == "interrupted":  # the normal end of inference
        acted = sum(behavior.inferred for behavior in run.behaviors.values())
        return f"stopped after {acted} steps; {rewards}; {directory}"
    ended = str(run.outcome)
    stop = run.stop if run.outcome in STOPPED else None
    if stop is not None and not stop.by_signal:
        if run.outcome == "interrupted":  # by a plugin, not by Ctrl-C
            ended = "stopped"
        if stop.reason:
            ended += f" ({stop.reason})"
    parts = [f"{run.steps} steps", rewards, *evaluation_texts(run), str(directory)]
    line = f"{ended}: {'; '.join(parts)}"
    return line if run.outcome == "done" else f"{line}; resume with: {resuming(run)}"


def _nothing_left(run: Run) -> str:
    """The last line of a run that had reached its end before it was resumed."""
    if run.scores.stopped:
        assert run.config.evaluation is not None
        stop_at = stop_at_text(run.config.evaluation.stop_at)
        return (
            f"nothing left to learn: evaluation.stop_at {stop_at} is reached, by "
            f"{scored_text(run.scores)} at step {run.scores.step}; raise it with --set evaluation.stop_at=..., or "
            "remove it with --set evaluation.stop_at=null"
        )
    limits: dict[str, None] = {}
    options = []
    for name, behavior in run.behaviors.items():
        limits[str(behavior.settings.max_steps)] = None
        key = dotted(("behaviors", name, "max_steps"))
        options.append("--set " + shlex.quote(f"{key}=..."))
    reached = f"max_steps {', '.join(limits)} is reached"
    return f"nothing left to learn: {reached}; raise it with {' '.join(options)}"


def reward_text(name: str, behavior: TrainedBehavior) -> str:
    """``CartPole mean reward 498.20 of the last 100 episodes``; says so before the first episode ended."""
    mean = behavior.mean_reward
    count = len(behavior.recent)
    if mean is None:
        return f"{name} no mean reward, because no episode has ended"
    if count == behavior.episodes.finished:
        episodes = "the only episode" if count == 1 else f"all {count} episodes"
    else:
        episodes = f"the last {counted(count, 'episode')}"
    return f"{name} mean reward {mean:.2f} of {episodes}"


def evaluation_texts(run: Run) -> list[str]:
    """The scores of the run's evaluations, and whether one of them ended the run, as texts."""
    scores = run.scores
    settings = run.config.evaluation
    if scores.score is None or settings is None:
        return []
    texts = [f"evaluation {scores.score:.2f}, best {scores.best_score:.2f} at step {scores.best_step}"]
    if scores.stopped:
        texts.append(f"stopped at step {scores.step} because stop_at {stop_at_text(settings.stop_at)} was reached")
    return texts


def stop_at_text(stop_at: float | Mapping[str, float] | None) -> str:
    """``475``, or ``is_success 0.9`` for means of numbers that the environment reports."""
    if isinstance(stop_at, Mapping):
        return ", ".join(f"{name} {least:g}" for name, least in stop_at.items())
    return f"{stop_at:g}"


def scored_text(scores: Scores) -> str:
    """``a score of 480.00``, and the latest means of numbers that the environment reports."""
    info = "".join(f", {name} {mean:.2f}" for name, mean in scores.info.items())
    return f"a score of {scores.score:.2f}{info}"


def resuming(run: Run) -> str:
    """The command that resumes a run."""
    settings = run.config.checkpoint_settings
    words = ["rlcore", "run", "--resume", "--run-id", settings.run_id]
    if settings.results_dir != "results":
        words += ["--results-dir", settings.results_dir]
    return shlex.join(words)
