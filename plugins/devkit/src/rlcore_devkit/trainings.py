"""Create trainers and whole runs on the small environments of :mod:`rlcore_devkit` in one line each."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from rlcore import (
    BehaviorSpec,
    Environment,
    Plugins,
    Ranks,
    RunContext,
    Trainer,
    TrainerSpec,
    config_from_mapping,
    load_plugins,
)

if TYPE_CHECKING:
    from rlcore import Run


def create_trainer(
    behavior: BehaviorSpec,
    block: Mapping[str, Any],
    plugins: Plugins,
    directory: Path,
    seed: int = 1,
    num_envs: int = 1,
    torch_settings: Mapping[str, Any] | None = None,
    **context: Any,
) -> Trainer:
    """Create the trainer of a behavior from its ``block``, as a run does; ``context`` are more arguments of the run."""
    document: dict[str, Any] = {"behaviors": {behavior.name: block}, "env_settings": {"seed": seed}}
    if torch_settings:
        document["torch_settings"] = torch_settings
    config = config_from_mapping(document, plugins)
    behaviors = {behavior.name: behavior}
    run = RunContext(config, plugins, directory, seed, num_envs, behaviors=behaviors, **context)
    settings = config.behaviors[behavior.name]
    spec = plugins.record(TrainerSpec, settings.trainer_type)
    trainer: Trainer = plugins.create(spec, settings=settings, behavior=behavior, run=run)
    return trainer


@attrs.frozen
class SmallTrainings:
    """Creates trainers and runs of one ``trainer_type``; each call can change hyperparameters and network settings.

    Attributes:
        trainer_type: The trainer, NAME or DIST/NAME.
        directory: The directory of the runs.
        hyperparameters: Hyperparameters of every trainer.
        network: ``network_settings`` of every trainer.
    """

    trainer_type: str
    directory: Path
    hyperparameters: Mapping[str, Any] = attrs.field(factory=dict)
    network: Mapping[str, Any] = attrs.field(factory=dict)

    def trainer(
        self,
        environment: Environment,
        *,
        block: Mapping[str, Any] | None = None,
        network: Mapping[str, Any] | None = None,
        plugins: Plugins | None = None,
        torch_settings: Mapping[str, Any] | None = None,
        seed: int = 1,
        ranks: Ranks | None = None,
        first_env: int = 0,
        **hyperparameters: Any,
    ) -> Trainer:
        """Create the trainer of the environment's only behavior as a run does; ``block`` has its other settings.

        In a run of several processes, ``ranks`` exchanges between them, and ``first_env`` is the number of the
        environment's first copy.
        """
        [behavior] = environment.behaviors.values()
        settings = self._settings(hyperparameters, network)
        settings |= block or {}
        return create_trainer(
            behavior,
            settings,
            plugins or load_plugins(),
            self.directory,
            seed,
            environment.num_envs,
            torch_settings=torch_settings or {},
            ranks=ranks or Ranks(),
            first_env=first_env,
        )

    def run(
        self,
        environment: str,
        *,
        run_id: str = "run",
        seed: int = 1,
        num_envs: int = 8,
        start: Mapping[str, Any] | None = None,
        hyperparameters: Mapping[str, Any] | None = None,
        network: Mapping[str, Any] | None = None,
        **block: Any,
    ) -> Run:
        """Run the environment ``id`` of type ``testing`` with one behavior, ``Agent``, in ``results/run_id``.

        ``block`` contains other settings of the behavior, ``start`` settings of ``checkpoint_settings``. The run has
        one summary, at its end, and prints nothing.
        """
        from rlcore import Run

        settings = {**self._settings(hyperparameters, network), "summary_freq": 1_000_000, **block}
        return Run(
            {
                "plugins": {"local": ["rlcore_devkit.hooks"]},
                "preset": "none",
                "environment": {"type": "testing", "id": environment, "num_envs": num_envs},
                "env_settings": {"seed": seed},
                "behaviors": {"Agent": settings},
                "checkpoint_settings": {
                    "run_id": run_id,
                    "results_dir": str(self.directory / "results"),
                    **(start or {}),
                },
                "stats": {"console": False},
            }
        )

    def _settings(self, hyperparameters: Mapping[str, Any] | None, network: Mapping[str, Any] | None) -> dict[str, Any]:
        return {
            "trainer_type": self.trainer_type,
            "hyperparameters": {**self.hyperparameters, **(hyperparameters or {})},
            "network_settings": {**self.network, **(network or {})},
        }
