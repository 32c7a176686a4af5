"""A league: several policies of one behavior that learn side by side, each in environments of its own.

The *main* policy is the one that the run is about: its steps are those of the run, and it is what checkpoints, exports
and evaluations read. *Main exploiters* learn to beat the main policy as it is; *league exploiters* learn to beat the
snapshots of all. Each leaves snapshots behind for the others to play against, and starts again from its first
weights when it wins or takes too long.

Source: Vinyals et al. 2019, Grandmaster level in StarCraft II using multi-agent reinforcement learning, "Methods",
section "Populating the league". There, exploiters start again from a policy that imitates people.

Shapes: S slots of the behavior.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs
import numpy as np

from rlcore import (
    Actions,
    AgentBatch,
    FrozenState,
    RunStateError,
    SavedValueError,
    TrainerWrapper,
    saved_count,
    saved_float,
    saved_mapping,
)
from rlcore_ghost.arrays import Bools, Ints
from rlcore_ghost.selfplay.samplers import Candidates, PrioritizedSampler
from rlcore_ghost.selfplay.trainer import TAGS, GhostTrainer
from rlcore_ghost.settings import LeagueSettings, PrioritizedParameters

__all__ = ["League", "MainExploiterSampler", "shares"]

ENTRY = "league"  # of a trainer's state
WEIGHT = 0.2  # of an update's results in the running mean of an exploiter
FEW_WINS = 0.2  # below it, a main exploiter plays against older snapshots too


def shares(settings: LeagueSettings, envs: int) -> list[Ints] | None:
    """The environments of the main policy and of each exploiter; None if ``envs`` are too few for all."""
    exploiters = settings.main_exploiters + settings.league_exploiters
    size = max(1, int(settings.share * envs))
    main = envs - exploiters * size
    if main < 1:
        return None
    return np.split(np.arange(envs), range(main, envs, size))


class MainExploiterSampler:
    """The main policy as it is; while it wins nearly always, its older snapshots too, so that there is a way up."""

    def __init__(self) -> None:
        self._older = PrioritizedSampler(PrioritizedParameters(weighting="variance"))

    def sample(self, candidates: Candidates, count: int, generator: np.random.Generator) -> Ints:
        """Choose among the candidates, of which the last one is the main policy as it is."""
        latest = len(candidates.names) - 1
        games = candidates.games.sum()
        result = 0.5
        if games > 0:
            result = float(candidates.score @ candidates.games / games)
        if result >= FEW_WINS or latest == 0:
            return np.full(count, latest)
        return self._older.sample(candidates, count, generator)


@attrs.define(eq=False)
class Exploiter:
    """One exploiter: its trainer, and when it starts again.

    Attributes:
        trainer: The trainer.
        first_model: The weights that it begins with.
        reset_at: Steps of the trainer when it last began.
        result: Running mean of the results of its games since then.
        resets: How often it started again.
    """

    trainer: GhostTrainer
    first_model: FrozenState
    reset_at: int = 0
    result: float = 0.0
    resets: int = 0

    def state_dict(self) -> dict[str, Any]:
        """The state of the trainer, and everything else."""
        return {
            "trainer": self.trainer.state_dict(),
            "first": self.first_model,
            "reset_at": self.reset_at,
            "result": self.result,
            "resets": self.resets,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from :meth:`state_dict`. Raises RunStateError if it does not fit, and is in no use then."""
        self.reset_at = saved_count(state, "reset_at")
        self.resets = saved_count(state, "resets")
        self.result = saved_float(state, "result")
        self.first_model = FrozenState(saved_mapping(state, "first"))
        self.trainer.load_state_dict(saved_mapping(state, "trainer"))


class League(TrainerWrapper):
    """The main policy's trainer, and the exploiters beside it.

    Attributes:
        exploiters: The exploiters by name.
    """

    trainer: GhostTrainer

    def __init__(
        self,
        trainers: Mapping[str, GhostTrainer],
        slots: Sequence[Ints],
        settings: LeagueSettings,
        save_steps: int,
    ) -> None:
        """``trainers`` are those of the main policy and of each exploiter by name, ``slots`` the slots of each.

        Together, these are all S slots of the behavior.
        """
        self._trainers = list(trainers.values())
        main = self._trainers[0]
        super().__init__(main)
        self._settings = settings
        self._slots = list(slots)
        self._reset_steps = settings.reset_steps or 10 * save_steps
        self.exploiters: dict[str, Exploiter] = {}
        for name, trainer in trainers.items():
            if trainer is not main:
                model = FrozenState(trainer.state_dict()["model"])
                self.exploiters[name] = Exploiter(trainer, model)
        self._parts: list[AgentBatch] = []  # of `_parts_of`, for each trainer
        self._parts_of: AgentBatch | None = None

    @property
    def learning_slots(self) -> Bools:
        """[S] the slots of the main policy whose open episodes are learned from."""
        size = sum(map(len, self._slots))
        learning = np.zeros(size, np.bool_)
        learning[self._slots[0]] = self.trainer.learning_slots
        return learning

    def _in_parts(self, batch: AgentBatch) -> Iterator[tuple[GhostTrainer, Ints, AgentBatch]]:
        """Each trainer with its slots, and their part of the batch."""
        if self._parts_of is not batch:
            self._parts = [batch.take(slots) for slots in self._slots]
            self._parts_of = batch
        return zip(self._trainers, self._slots, self._parts, strict=True)

    def begin(self, batch: AgentBatch) -> None:
        """Begin a new game in every environment."""
        for trainer, _, part in self._in_parts(batch):
            trainer.begin(part)

    def act(self, batch: AgentBatch) -> Actions:
        """Actions of all slots."""
        parts = [(slots, trainer.act(part)) for trainer, slots, part in self._in_parts(batch)]
        return Actions.joined(parts)

    def observe(self, actions: Actions, batch: AgentBatch) -> None:
        """Pass on to each trainer what its slots saw."""
        for trainer, slots, part in self._in_parts(batch):
            trainer.observe(actions.take(slots), part)

    def ready(self) -> bool:
        """Whether any of the trainers can be updated."""
        return any(trainer.ready() for trainer in self._trainers)

    def update(self) -> Mapping[str, float | Sequence[float]]:
        """Update the trainers that are ready; statistics of exploiters have their names before the tags."""
        stats: dict[str, float | Sequence[float]] = {}
        if self.trainer.ready():
            stats.update(self.trainer.update())
        for name, exploiter in self.exploiters.items():
            if not exploiter.trainer.ready():
                continue
            learner_stats = exploiter.trainer.update()
            self._restart_if_due(exploiter, learner_stats)
            prefix = f"League/{name}/"
            for tag, value in learner_stats.items():
                if tag.startswith(TAGS):
                    stats[prefix + tag.removeprefix(TAGS)] = value
            stats[f"{prefix}Resets"] = float(exploiter.resets)
        return stats

    def _restart_if_due(self, exploiter: Exploiter, stats: Mapping[str, Any]) -> None:
        # The statistics of an update, whether it is written or not: a restart must not depend on summary_freq.
        result = stats.get(f"{TAGS}Win Rate")
        if result is not None:
            exploiter.result += WEIGHT * (float(result) - exploiter.result)
        steps = exploiter.trainer.steps
        wins = exploiter.result >= self._settings.reset_result
        takes_too_long = steps - exploiter.reset_at >= self._reset_steps
        if wins or takes_too_long:
            exploiter.trainer.restart(exploiter.first_model)
            exploiter.reset_at = steps
            exploiter.result = 0.0
            exploiter.resets += 1

    def stop_learning(self) -> None:
        """Let all agents play as ghosts from now on."""
        for trainer in self._trainers:
            trainer.stop_learning()

    # ------------------------------------------------------------ state

    def state_dict(self) -> dict[str, Any]:
        """The state of the main policy's trainer, with an entry for the exploiters."""
        exploiters = {name: exploiter.state_dict() for name, exploiter in self.exploiters.items()}
        return {**self.trainer.state_dict(), ENTRY: exploiters}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from :meth:`state_dict`. Raises RunStateError, changing nothing, if the state does not fit."""
        if ENTRY not in state:
            raise SavedValueError("the checkpoint was saved without a league; remove the block, or start a new run")
        # One trainer may have loaded its part before another one finds that the state does not fit.
        before = self.state_dict()
        try:
            self._load(state)
        except RunStateError:
            self._load(before)
            raise

    def _load(self, state: Mapping[str, Any]) -> None:
        self.trainer.load_state_dict(state)
        exploiters = saved_mapping(state, ENTRY)
        for name, exploiter in self.exploiters.items():
            exploiter.load_state_dict(saved_mapping(exploiters, name))

    def load_model(self, model: Mapping[str, Any]) -> None:
        """Let all begin with these weights, now and whenever they start again."""
        for trainer in self._trainers:
            trainer.load_model(model)
        for exploiter in self.exploiters.values():
            exploiter.first_model = FrozenState(model)
