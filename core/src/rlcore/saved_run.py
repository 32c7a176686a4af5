"""A run read back from its directory, to be measured or exported; nothing in the directory is changed."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

import attrs

from rlcore.blame import state_taken_up
from rlcore.checkpoint import Checkpoint, find_checkpoints, newest_good
from rlcore.config import RunConfig
from rlcore.config.load import evaluation_environment
from rlcore.environment import BehaviorSpec
from rlcore.episode_tap import EpisodeTap
from rlcore.errors import RunStateError
from rlcore.evaluation import Evaluator
from rlcore.plugins.calls import Plugins
from rlcore.plugins.recording import recorded_to
from rlcore.recordings import RecordingAbout
from rlcore.results import EvaluationResult
from rlcore.run_context import RunContext
from rlcore.run_directory import BEST, CHECKPOINTS, CONFIGURATION
from rlcore.run_store import model_of, models_in
from rlcore.saved_state import require_models
from rlcore.setup import run_context, settings_of, with_seed
from rlcore.trainer import Policy


def find_run(run: Path) -> Path:
    """``run`` itself if it is a run directory, else the run of that id under ``results``."""
    for directory in (run, Path("results") / run):
        if (directory / CONFIGURATION).is_file():
            return directory
    raise RunStateError(f"{run}: neither a run directory nor the id of a run in results/")


@attrs.define(eq=False)
class SavedRun:
    """A run at one of its checkpoints."""

    config: RunConfig
    plugins: Plugins
    context: RunContext
    step: int
    models: dict[str, Any]  # by behavior

    @classmethod
    def load(cls, directory: Path, config: RunConfig, plugins: Plugins, checkpoint: str = "last") -> SavedRun:
        """The newest good checkpoint (``last``), the policies of the ``best`` evaluation, or the checkpoint of a step.

        Raises RunStateError if there is no such checkpoint, saying which there are.
        """
        found, state = _find(directory, checkpoint)
        config = with_seed(config, int(state["run"]["seed"]))
        context = run_context(config, plugins, directory)
        context.inference = True  # trainers are made for their policies alone
        return cls(config, plugins, context, found.step, models_in(state))

    def policies(self, behaviors: Mapping[str, BehaviorSpec]) -> dict[str, Policy]:
        """The policy of every behavior, made anew."""
        policies = {}
        for name, spec in behaviors.items():
            settings = settings_of(self.config, name)
            record = self.plugins.trainer(settings.trainer_type)
            trainer = self.plugins.create_trainer(record, settings, spec, self.context)
            with state_taken_up(f"checkpoint {self.step} of {self.context.directory}", f"behavior {name!r}"):
                trainer.load_model(model_of(self.models, name, f"{self.context.directory}"))
            policies[name] = trainer.policy
        return policies

    def evaluate(
        self,
        episodes: int,
        seed: int | None,
        deterministic: bool = True,
        video: Path | None = None,
        record: Path | None = None,
        record_format: str | None = None,
    ) -> EvaluationResult:
        """Plays in an environment of its own, the only one that is made; ``video``: every episode is filmed there.

        ``record``: the episodes become a recording of each behavior there, ``record/<behavior>``, of the format called
        ``record_format``, or of the only installed one.
        """
        taps_for = None if record is None else partial(self._taps, record, record_format)
        evaluator = Evaluator(self.config, self.plugins, self.context, video=video)
        try:
            return evaluator.evaluate(self.policies, self.step, episodes, seed, deterministic, taps_for)
        finally:
            evaluator.close()

    def _taps(
        self, directory: Path, record_format: str | None, behaviors: Mapping[str, BehaviorSpec]
    ) -> AbstractContextManager[Mapping[str, EpisodeTap]]:
        settings = evaluation_environment(self.config, self.plugins)
        assert settings is not None  # or there would be no behaviors
        about = {
            name: RecordingAbout(
                self.plugins.environment(settings.type).name,
                settings.id,
                settings.options if isinstance(settings.options, Mapping) else {},
                settings_of(self.config, name).trainer_type,
                f"Episodes played by run {self.context.run_id} as it was at step {self.step}.",
            )
            for name in behaviors
        }
        return recorded_to(self.plugins, directory, behaviors, about, record_format)


def _find(directory: Path, checkpoint: str) -> tuple[Checkpoint, dict[str, Any]]:
    checkpoints = directory / CHECKPOINTS
    if checkpoint == "last":
        return newest_good(checkpoints, f"{directory}", check=require_models)
    steps = [str(found.step) for found in find_checkpoints(checkpoints)]
    best = [str(found.step) for found in find_checkpoints(checkpoints / BEST)]
    there = f"; there are {', '.join(steps) or 'none'}" + (f", and best (of step {best[-1]})" if best else "")
    if checkpoint == "best":
        if not best:
            raise RunStateError(
                f"{directory}: there is no best checkpoint, because no evaluation was made while it trained, or "
                f"evaluation.keep_best was off{there}"
            )
        return newest_good(checkpoints / BEST, f"{directory}", check=require_models)
    if checkpoint not in steps:
        raise RunStateError(f"{directory}: there is no checkpoint {checkpoint!r}{there}")
    return newest_good(checkpoints, f"{directory}", step=int(checkpoint), check=require_models)
