"""A run read back from its directory, to be measured or exported; nothing in the directory is changed."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import attrs

from rlcore.checkpoint import newest_good
from rlcore.config import RunConfig
from rlcore.errors import RunStateError
from rlcore.evaluation import EvaluationResult, evaluate_policies
from rlcore.plugins.calls import Plugins
from rlcore.run_context import RunContext
from rlcore.run_directory import CONFIGURATION
from rlcore.setup import make_environment, run_context, settings_of, with_seed
from rlcore.trainer import Policy

log = logging.getLogger(__name__)


def find_run(run: Path) -> Path:
    """``run`` itself if it is a run directory, else the run of that id under ``results``."""
    for directory in (run, Path("results") / run):
        if (directory / CONFIGURATION).is_file():
            return directory
    raise RunStateError(f"{run}: is neither a run directory nor the id of a run in results/")


@attrs.define(eq=False)
class SavedRun:
    """The policies of a run at its newest good checkpoint."""

    config: RunConfig
    plugins: Plugins
    context: RunContext
    step: int
    policies: dict[str, Policy]

    @classmethod
    def load(cls, directory: Path, config: RunConfig, plugins: Plugins) -> SavedRun:
        state, step = newest_state(directory)
        config = with_seed(config, int(state["run"]["seed"]))
        context = run_context(config, plugins, directory)
        environment = make_environment(config, plugins, context)
        policies = {}
        try:
            for name, spec in environment.behaviors.items():
                settings = settings_of(config, name)
                trainer = plugins.create_trainer(plugins.trainer(settings.trainer_type), settings, spec, context)
                trainer.load_model(state[name]["model"])
                policies[name] = trainer.policy
        finally:
            environment.close()
        return cls(config, plugins, context, step, policies)

    def evaluate(self, episodes: int, seed: int | None, deterministic: bool = True) -> EvaluationResult:
        return evaluate_policies(self.policies, self.config, self.plugins, self.context, episodes, seed, deterministic)


def newest_state(directory: Path) -> tuple[dict[str, Any], int]:
    """State and step of the newest good checkpoint."""
    problems = []
    for checkpoint, state, problem in newest_good(directory / "checkpoints"):
        if state is not None:
            return state, checkpoint.step
        log.warning("%s; using an older checkpoint", problem)
        problems.append(problem)
    raise RunStateError(f"{directory}: has no usable checkpoint{': ' + problems[0] if problems else ''}")
