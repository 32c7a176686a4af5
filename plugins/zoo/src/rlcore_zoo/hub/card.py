"""The model card of a run: the metadata that a hub reads, and a page for people."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs
from huggingface_hub import EvalResult, ModelCard, ModelCardData

from rlcore import BehaviorEvaluation, OpponentEvaluation, RunData, yaml_text
from rlcore_zoo.hub.contents import CURVE, FILM, Entry
from rlcore_zoo.hub.score import LEVEL, Score, interval

LIBRARY = "rlcore"
TASK = "reinforcement-learning"  # the hub's name of the task


@attrs.frozen(eq=False)
class Shared:
    """A run that is to be shared, and what was made of it for its card.

    Attributes:
        repository: OWNER/NAME.
        data: What the run wrote.
        entries: The files that are uploaded beside the card.
        packages: The distributions of the run's environment and trainers.
        versions: The versions that the run was made with, by name.
        score: Episodes that were played for the card; None if there are none.
        license: The license of the model as the hub names it; None if its owner says nothing.
    """

    repository: str
    data: RunData
    entries: Sequence[Entry]
    packages: Sequence[str]
    versions: Mapping[str, str]
    score: Score | None
    license: str | None = None

    @property
    def name(self) -> str:
        """The run id that ``rlcore pull`` gives the run."""
        return self.repository.rpartition("/")[2]

    @property
    def environment(self) -> Mapping[str, Any]:
        """The block of the environment in which the score was measured; empty for a run without one."""
        configuration = self.data.configuration
        training = configuration.get("environment") or {}
        evaluation = (configuration.get("evaluation") or {}).get("environment") or {}
        kind = training.get("type")
        if evaluation.get("type", kind) != kind:
            return evaluation
        return {**training, **evaluation}

    @property
    def world(self) -> str:
        """The environment in a word, such as ``CartPole-v1``."""
        block = self.environment
        return str(block.get("id") or block.get("type") or "recorded data")

    @property
    def trainers(self) -> dict[str, str]:
        """The trainer of each behavior."""
        behaviors = self.data.configuration.get("behaviors") or {}
        return {name: str(block.get("trainer_type")) for name, block in behaviors.items()}

    def has(self, prefix: str, suffix: str = "") -> list[str]:
        """The names of uploaded files with this beginning and end."""
        names = [entry.name for entry in self.entries]
        return [name for name in names if name.startswith(prefix) and name.endswith(suffix)]


def model_card(shared: Shared) -> ModelCard:
    """The card. Its metadata says which library and task it is, and the score as unverified results."""
    played = {} if shared.score is None else shared.score.result.behaviors
    results = [
        EvalResult(
            task_type=TASK,
            task_name=TASK,
            dataset_type=shared.world,
            dataset_name=shared.world,
            metric_type="mean_reward",
            metric_name="mean_reward" if len(played) == 1 else f"mean_reward of {name}",
            metric_value=f"{evaluation.mean_reward:.2f} +/- {evaluation.std_reward:.2f}",
            verified=False,
        )
        for name, evaluation in played.items()
    ]
    tags = dict.fromkeys((shared.world, *shared.trainers.values(), TASK, f"deep-{TASK}", LIBRARY))
    metadata = ModelCardData(
        library_name=LIBRARY,
        pipeline_tag=TASK,
        license=shared.license,
        tags=list(tags),
        model_name=shared.name,
        eval_results=results or None,
    )
    text = "\n".join(page(shared))
    return ModelCard(f"---\n{metadata.to_yaml()}\n---\n\n{text}\n")


def page(shared: Shared) -> Iterator[str]:
    """Yield the lines of the page below the metadata."""
    status = shared.data.status
    configuration = shared.data.configuration
    trainers = list(dict.fromkeys(shared.trainers.values()))
    kind = shared.environment.get("type")
    steps = (status.get("metadata") or {}).get("run_steps")
    seed = (configuration.get("env_settings") or {}).get("seed")
    yield f"# {shared.world}: {', '.join(trainers)}"
    yield ""
    facts = [f"trainer {' and '.join(f'`{name}`' for name in trainers)}"]
    facts.append(f"environment `{shared.world}` of `{kind}`" if kind else "trained on recorded data")
    if isinstance(steps, int):
        facts.append(f"{steps:,} agent steps")
    facts.append(f"seed {seed}")
    yield f"A run of rlcore: {', '.join(facts)}."
    if shared.has(FILM):
        yield from ("", f'<video src="{FILM}" controls autoplay loop muted></video>')
    yield from ("", "## Score", "")
    yield from _score(shared)
    if shared.has(CURVE):
        yield from ("", "## Curve", "", f"![Mean return over agent steps]({CURVE})")
    yield from ("", "## Use it", "")
    yield from _use(shared)
    yield from ("", "## Configuration", "")
    yield "`configuration.yaml` has all keys. The environment and the behaviors:"
    chosen = {key: configuration[key] for key in ("environment", "behaviors") if configuration.get(key)}
    yield from ("", "```yaml", yaml_text(chosen, sort_keys=False, width=100).rstrip("\n"), "```")
    yield from ("", "## Versions", "", "| made with | version |", "|---|---|")
    yield from (f"| {name} | {version} |" for name, version in shared.versions.items())


def _score(shared: Shared) -> Iterator[str]:
    score = shared.score
    if score is not None:
        yield f"| behavior | mean reward | {LEVEL:.0%} interval | standard deviation | episodes |"
        yield "|---|---|---|---|---|"
        for name, played in score.result.behaviors.items():
            yield _row(name, played)
        for name, against in score.result.opponents.items():
            yield _row(f"against {name}, won {against.win_rate:.0%}", against)
        yield ""
        yield (
            f"`rlcore push` measured this: the checkpoint `{score.checkpoint}` (step {score.step:,}) played these "
            f"episodes with its most likely actions, with seed {score.seed}. The interval is a bootstrap of the mean "
            "over the episodes. This is one training run with one seed: the interval says nothing about other seeds."
        )
    result = shared.data.result or {}
    evaluation = result.get("evaluation")
    if isinstance(evaluation, Mapping) and evaluation.get("score") is not None:
        settings = shared.data.configuration.get("evaluation") or {}
        if score is not None:
            yield ""
        yield (
            f"Evaluations during the training, of {settings.get('episodes', 10)} episodes each: the last score was "
            f"{evaluation['score']:.2f} at step {evaluation['step']:,}, the best {evaluation['best_score']:.2f} at "
            f"step {evaluation['best_step']:,}. The checkpoint `best` was chosen by these scores."
        )
    elif score is None:
        yield "No score was measured."


def _row(name: str, played: BehaviorEvaluation | OpponentEvaluation) -> str:
    bounds = ""
    ends = interval(played.returns)
    if ends is not None:
        low, high = ends
        bounds = f"{low:.2f} to {high:.2f}"
    return f"| {name} | {played.mean_reward:.2f} | {bounds} | {played.std_reward:.2f} | {played.episodes} |"


def _use(shared: Shared) -> Iterator[str]:
    name = shared.name
    behavior = next(iter(shared.trainers), "BEHAVIOR")
    checkpoints = shared.has("checkpoints/")
    best = shared.has("checkpoints/best/")
    resumable = len(checkpoints) > len(best)  # a checkpoint of the best evaluation has weights only
    packages = " ".join(dict.fromkeys((*shared.packages, "rlcore-zoo")))
    yield "```sh"
    yield f"pip install {packages}"
    yield f"rlcore pull {shared.repository}"
    if shared.score is not None:
        score = shared.score
        episodes = next(iter(score.result.behaviors.values())).episodes
        yield f"rlcore evaluate {name} --checkpoint {score.checkpoint} --episodes {episodes} --seed {score.seed}"
    elif not resumable:
        yield f"rlcore evaluate {name} --checkpoint best"
    else:
        yield f"rlcore evaluate {name}"
    if resumable:
        key = shlex.quote(f"behaviors.{behavior}.max_steps=...")
        yield f"rlcore run --resume --run-id {name} --set {key}"
        yield f"rlcore run results/{name}/configuration.yaml --run-id mine --initialize-from {name}"
    yield f"rlcore export {name}" + ("" if resumable else " --checkpoint best")
    yield "```"
    for policy in shared.has("", ".onnx"):
        yield ""
        yield f"`{policy}` is the exported policy of the last checkpoint; ONNX Runtime runs it without rlcore."
    yield ""
    yield "Read `configuration.yaml` before you resume or evaluate a run of another user."
