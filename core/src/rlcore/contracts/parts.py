"""The contract of work between two steps of a run: parts in an order, rlcore's own and those of plugins.

:mod:`rlcore.run.boundaries` has the order. A run calls each part in it, saves each in its checkpoints, and restores
each in the same order. Shapes: N environments of all ranks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore.contracts.stats import StatSummary


class BoundaryPart:
    """Something that a run does between two steps, or keeps in its checkpoints: a base class.

    Derive from it, and override what is needed: all methods do nothing here. A part must be a function of the run's
    seed, its steps and its own state, or a resumed run differs from one that is never stopped: it draws from
    :func:`rlcore.derive_generator`, and saves the generator. Where several processes train together, each has the part,
    and each calls it at the same steps.

    Attributes:
        name: Its entry in the ``run`` of a checkpoint. rlcore sets it for parts of plugins, to DIST/NAME.
        described: The part in messages.
        next_step: Agent steps of the run at which the part is due; None while it is not. The run stops there, or soon
            after, to call :meth:`do`. Saved and restored by the part.
        follows_checkpoints: Whether training waits until a checkpoint is written and :meth:`checkpoint_saved` returned,
            which then sees what was saved. Otherwise, training may be some steps further.
    """

    name: str = ""
    described: str = ""
    next_step: int | None = None
    follows_checkpoints: bool = False

    # ------------------------------------------------------------ between two steps

    def begin(self, step: int) -> None:
        """The run was created or restored, and its first step is next. ``step`` are its agent steps."""

    def due(self, step: int, ending: bool) -> bool:
        """Whether to call :meth:`do` at ``step``. ``ending``: every behavior has reached its ``max_steps``.

        Asked wherever something may be due: in all ranks alike.
        """
        return self.next_step is not None and step >= self.next_step

    def do(self, step: int) -> None:
        """Do what is due at ``step``, and set :attr:`next_step`."""

    def checkpoint_saved(self, step: int) -> None:
        """The checkpoint of ``step`` was written; ``rlcore_checkpoint_saved`` follows."""

    def finish(self, step: int) -> None:
        """The run ends in order at ``step``, and saved its last checkpoint."""

    # ------------------------------------------------------------ episodes and steps

    def before_reset(self, episodes: NDArray[np.int64]) -> None:
        """Every environment is about to start an episode, with the numbers ``episodes`` [N]."""

    def after_reset(self, episodes: NDArray[np.int64]) -> None:
        """The ``episodes`` [N] of all environments have started."""

    def after_step(self) -> bool:
        """Called after each step of the environments, if it is overridden.

        Returns whether all environments are to start their next episode now.
        """
        return False

    # ------------------------------------------------------------ summaries and status

    def stats(self) -> Mapping[str, float]:
        """Scalars by tag for the summaries of every behavior."""
        return {}

    def summarised(self, behavior: str, stats: dict[str, StatSummary]) -> None:
        """A summary of ``behavior`` was made of ``stats``, those of rank 0; not called under ``--inference``."""

    def status(self) -> Mapping[str, Mapping[str, Any]]:
        """Sections of the training status by name, of JSON values."""
        return {}

    # ------------------------------------------------------------ checkpoints

    def state_dict(self) -> Mapping[str, Any]:
        """Return all that a resumed run needs of the part: nested mappings of numpy arrays and JSON values."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from :meth:`state_dict`. Raises RunStateError if the state does not fit.

        Called before trainers and environments are restored, and not where the checkpoint has no such part.
        """

    def load_learned(self, state: Mapping[str, Any]) -> None:
        """Continue from the state of a run with other environments, agents or ranks, whose episodes start again."""
        self.load_state_dict(state)
