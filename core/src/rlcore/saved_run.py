"""A run read back from its directory, to be measured or exported; nothing in the directory is changed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs

from rlcore.checkpoint import newest_good
from rlcore.config import RunConfig
from rlcore.environment import BehaviorSpec
from rlcore.errors import RunStateError
from rlcore.evaluation import EvaluationResult, evaluate_policies
from rlcore.plugins.calls import Plugins
from rlcore.run_context import RunContext
from rlcore.run_directory import CONFIGURATION
from rlcore.run_store import model_of, models_in
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
    """A run at its newest good checkpoint."""

    config: RunConfig
    plugins: Plugins
    context: RunContext
    step: int
    models: dict[str, Any]  # by behavior

    @classmethod
    def load(cls, directory: Path, config: RunConfig, plugins: Plugins) -> SavedRun:
        checkpoint, state = newest_good(directory / "checkpoints", f"{directory}")
        config = with_seed(config, int(state["run"]["seed"]))
        return cls(config, plugins, run_context(config, plugins, directory), checkpoint.step, models_in(state))

    def policies(self, behaviors: Mapping[str, BehaviorSpec]) -> dict[str, Policy]:
        """The policy of every behavior, made anew."""
        policies = {}
        for name, spec in behaviors.items():
            settings = settings_of(self.config, name)
            record = self.plugins.trainer(settings.trainer_type)
            trainer = self.plugins.create_trainer(record, settings, spec, self.context)
            trainer.load_model(model_of(self.models, name, f"{self.context.directory}"))
            policies[name] = trainer.policy
        return policies

    def evaluate(self, episodes: int, seed: int | None, deterministic: bool = True) -> EvaluationResult:
        """Plays in an environment of its own, the only one that is made."""
        return evaluate_policies(self.policies, self.config, self.plugins, self.context, episodes, seed, deterministic)
