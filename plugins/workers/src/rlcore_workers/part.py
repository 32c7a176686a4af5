"""The environments of one worker: what every executor runs, wherever it runs workers."""

from __future__ import annotations

from collections.abc import Mapping
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore import (
    Environment,
    EpisodeSeeds,
    Parameters,
    ProcessGenerators,
    SavesRows,
    SavesState,
    saved_mapping,
)
from rlcore_workers.arrays import PartArrays
from rlcore_workers.contract import PartMade, Task
from rlcore_workers.recipe import context_of, make_environment, plugins_of

# The entries of a state without rows.
ENVIRONMENT = "environment"
GENERATORS = "generators"


class Part:
    """Some of a run's environments, in a worker. An executor calls the methods by name, ``create`` first.

    Methods return what can be pickled. Batches go into the rows of the run's arrays, which :meth:`attach` gives.
    """

    def __init__(self, task: Task) -> None:
        self._task = task
        self._environment: Environment
        self._arrays: PartArrays
        self._parameters: Parameters = {}
        self._saves_rows = False

    def create(self) -> PartMade:
        """Load the plugins and make the environments."""
        plugins = plugins_of(self._task.plugins)
        context = context_of(self._task.context, plugins)
        ProcessGenerators.seed(EpisodeSeeds(context.seed, context.first_env))
        environment = self._environment = make_environment(plugins, context)
        self._saves_rows = isinstance(environment, SavesRows) and environment.saves_rows
        return PartMade(
            behaviors=dict(environment.behaviors),
            saves_state=isinstance(environment, SavesState),
            saves_rows=self._saves_rows,
            factories=context.factories.found,
            resume_limits=tuple(getattr(environment, "resume_limits", ())),
            close_seconds=float(getattr(environment, "close_seconds", 0.0)),
            resume_notes=tuple(getattr(environment, "resume_notes", ())),
        )

    def attach(self, arrays: PartArrays) -> None:
        """Learn the rows that batches are written to."""
        self._arrays = arrays

    def reset(self, seeds: EpisodeSeeds, names: tuple[str, ...]) -> dict[str, Any] | None:
        """Start the episodes that the arrays name, with the environment parameters ``names`` in the arrays."""
        self._set_parameters(names)
        episodes = self._arrays.begin.copy()
        ProcessGenerators.seed(seeds, episodes)
        batches = self._environment.reset(seeds, episodes)
        return self._arrays.put(batches, self._environment.episodes)

    def step(self, names: tuple[str, ...] | None = None) -> dict[str, Any] | None:
        """Step with the actions in the arrays; ``names`` are those of parameters that changed since, None: none."""
        if names is not None:
            self._set_parameters(names)
        actions = self._arrays.actions()
        started = perf_counter()
        batches = self._environment.step(actions)
        self._arrays.busy += perf_counter() - started
        return self._arrays.put(batches, self._environment.episodes)

    def state_dict(self) -> dict[str, Any]:
        """Return the state of environments that save themselves.

        Rows stand for their environments alone: they may continue in another process. Other states have the generators
        of this process, from which their environments may draw.
        """
        assert isinstance(self._environment, SavesState)
        state = self._environment.state_dict()
        if self._saves_rows:
            return state
        return {ENVIRONMENT: state, GENERATORS: ProcessGenerators.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a state of :meth:`state_dict`."""
        assert isinstance(self._environment, SavesState)
        saved = state if self._saves_rows else saved_mapping(state, ENVIRONMENT)
        batches = self._environment.load_state_dict(saved)
        if not self._saves_rows:
            ProcessGenerators.load_state_dict(saved_mapping(state, GENERATORS))
        self._arrays.put(batches, self._environment.episodes)

    def close(self) -> None:
        """Close the environments."""
        self._environment.close()

    def _set_parameters(self, names: tuple[str, ...]) -> None:
        if not names:
            return
        if tuple(self._parameters) != names:
            self._parameters = {}
            for number, name in enumerate(names):
                # A view of what the run writes; an environment that changed it would change other parameters too.
                column: NDArray[np.float64] = self._arrays.parameters[:, number]
                column.flags.writeable = False
                self._parameters[name] = column
        self._environment.set_parameters(self._parameters)
