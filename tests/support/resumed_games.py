"""Self-play without PyTorch on games without rules, saved and continued from checkpoints at any step."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import numpy as np
from worlds_of_games import Numbered, Recorder, World, ghost_trainers

from rlcore import Actions, AgentBatch, fill, load_checkpoint, save_checkpoint, saved_array, saved_count
from rlcore_ghost.selfplay.samplers import PrioritizedSampler, UniformSampler
from rlcore_ghost.settings import NoParameters, PrioritizedParameters, SelfPlaySettings

FREQUENT = {"save_steps": 30, "swap_steps": 17, "team_change": 45, "window": 3}


class Drawing(Numbered):
    """A policy that draws its actions, and remembers how many it has chosen in the episode."""

    memory_size = 2

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self._generator = np.random.default_rng(0)

    def seed(self, seed: int) -> None:
        self._generator = np.random.default_rng(seed)

    def act(
        self, observations: Any, action_mask: Any = None, deterministic: bool = True, memory: Any = None
    ) -> Actions:
        rows = len(observations["seen"])
        if memory is None:
            memory = np.zeros((rows, 2), np.float32)
        drawn = self._generator.integers(100, size=rows)
        memory[:, 0] += 1
        memory[:, 1] += drawn
        return Actions(discrete=(self.number * 100_000 + memory.sum(1)).astype(np.int64)[:, None] % 1_000_000)


class Learner(Recorder):
    """A recorder whose state can be saved; a snapshot is numbered by the updates before it."""

    def __init__(self, rows: int) -> None:
        super().__init__(rows)
        self.policy = Drawing(0)
        self.updates = 0

    def snapshot(self, state: Mapping[str, Any] | None = None) -> Drawing:
        return Drawing(self.updates if state is None else int(saved_array(state, "number", np.int64, (1,))[0]))

    def ready(self) -> bool:
        return False

    def update(self) -> dict[str, float]:
        self.updates += 1
        return {}

    def state_dict(self) -> dict[str, Any]:
        held = [(-1.0, -1) if each is None else each for each in self.open]
        return {
            "model": {"updates": np.array([self.updates])},
            "steps": self.steps,
            "open": np.array(held, np.float64),
            "acted": self.acted.copy(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        held = saved_array(state, "open", np.float64, (len(self.open), 2))
        steps = saved_count(state, "steps")
        updates = saved_array(state["model"], "updates", np.int64, (1,))
        fill(self.acted, state, "acted")
        self.open = [None if action < 0 else (seen, int(action)) for seen, action in held.tolist()]
        self.steps, self.updates = steps, int(updates[0])


@attrs.frozen
class Rules:
    """The parts of a :class:`Play`. ``behaviors`` gives the teams of each behavior by name."""

    kind: str = "together"
    envs: int = 3
    sizes: tuple[int, ...] = (1, 1)
    behaviors: Mapping[str, tuple[int, ...]] = attrs.field(factory=lambda: {"Agent": (0, 1)})
    sampler: str = "uniform"
    aborts: bool = False
    seed: int = 1
    fixed: tuple[str, ...] = ()
    update_every: int = 5  # steps
    settings: Mapping[str, Any] = attrs.field(factory=dict)


class Play:
    """A world, the ghost trainers of its behaviors, and the loop between them."""

    def __init__(self, rules: Rules, world: World | None = None) -> None:
        self.rules = rules
        self.world = World(rules.kind, rules.envs, rules.sizes, rules.seed, rules.aborts) if world is None else world
        self.block = SelfPlaySettings(**{**FREQUENT, **rules.settings})
        pfsp = rules.sampler == "pfsp"
        sampler = PrioritizedSampler(PrioritizedParameters()) if pfsp else UniformSampler(NoParameters())
        made = ghost_trainers(
            self.world, self.block, rules.behaviors,
            {key: Drawing(-1 - index) for index, key in enumerate(rules.fixed)},
            trainer=Learner, sampler=sampler, seed=rules.seed,
        )  # fmt: skip
        self.slots = {name: slots for name, (slots, _) in made.items()}
        self.trainers = {name: trainer for name, (_, trainer) in made.items()}
        self.controller = next(iter(self.trainers.values())).controller
        self.batch: AgentBatch | None = None
        self.step_number = 0
        self.stopped: set[str] = set()

    def parts(self) -> dict[str, AgentBatch]:
        """The batch of each behavior."""
        assert self.batch is not None
        return {name: self.batch.take(slots) for name, slots in self.slots.items()}

    def begin(self) -> None:
        """Begin new games in all environments."""
        self.batch = self.world.begin()
        self.batches = self.parts()
        for name, trainer in self.trainers.items():
            trainer.begin(self.batches[name])

    def step(self) -> list[Any]:
        """One step of all environments, and an update of each trainer if it is due. Returns what was done."""
        done: list[Any] = []
        acted = {}
        for name, trainer in self.trainers.items():
            acted[name] = trainer.act(self.batches[name])
            assert acted[name].discrete is not None
            needed = self.batches[name].needs_action
            chosen = acted[name].discrete[:, 0]
            learns = trainer.learning_slots & (True if needed is None else needed)
            own = Recorder.LEARNS + self.batches[name].observations["seen"][learns, 0]
            assert (chosen[learns] == own).all(), "who learns takes the actions of the trainer"
            done.append((chosen if needed is None else np.where(needed, chosen, -1)).tolist())
        self.batch = self.world.step()
        self.batches = self.parts()
        for name, trainer in self.trainers.items():
            trainer.observe(acted[name], self.batches[name])
            done.append((trainer.learning_slots.tolist(), trainer.ghosts.place.tolist()))
        self.step_number += 1
        if self.step_number % self.rules.update_every == 0:
            done += [trainer.update() for name, trainer in self.trainers.items() if name not in self.stopped]
        return done

    def run(self, steps: int) -> list[Any]:
        """Play ``steps`` steps, and return what was done."""
        return [self.step() for _ in range(steps)]

    def stop(self, name: str) -> None:
        """The behavior called ``name`` has reached ``max_steps``."""
        self.stopped.add(name)
        self.trainers[name].stop_learning()

    def state(self) -> dict[str, Any]:
        """The state of each trainer by behavior."""
        return {name: trainer.state_dict() for name, trainer in self.trainers.items()}

    def resumed(self, directory: Path, rules: Rules | None = None, state: Mapping[str, Any] | None = None) -> Play:
        """A new play that continues from this one, through a checkpoint below ``directory``.

        ``rules`` are other rules, if some changed; ``state`` stands in the place of the state of this play.
        """
        saved = load_checkpoint(save_checkpoint(directory, self.step_number, self.state() if state is None else state))
        other = Play(self.rules if rules is None else rules, copy.deepcopy(self.world))
        for name, trainer in other.trainers.items():
            trainer.load_state_dict(saved[name])
        assert self.batch is not None
        slots = len(self.batch.reward)
        batch = self.batch
        none = np.zeros(slots, np.bool_)
        other.batch = AgentBatch(
            {name: array.copy() for name, array in batch.observations.items()}, np.zeros(slots, np.float32), none, none,
            needs_action=None if batch.needs_action is None else batch.needs_action.copy(),
        )  # fmt: skip
        other.batches, other.step_number = other.parts(), self.step_number
        for name in self.stopped:
            other.stop(name)
        return other


def played(steps: int, rules: Rules | None = None, **changes: Any) -> Play:
    """A play of so many steps, with changes of ``rules``."""
    play = Play(attrs.evolve(rules or Rules(), **changes))
    play.begin()
    play.run(steps)
    return play


def difference(ours: Any, theirs: Any, path: Sequence[str] = ()) -> str | None:
    """The path of the first value in which two states differ, bit for bit; None if they are equal."""
    if isinstance(ours, Mapping) and isinstance(theirs, Mapping):
        if ours.keys() != theirs.keys():
            return "/".join([*path, f"keys {sorted(ours.keys() ^ theirs.keys())}"])
        found = (difference(ours[key], theirs[key], (*path, str(key))) for key in ours)
        return next((each for each in found if each is not None), None)
    if isinstance(ours, np.ndarray) and isinstance(theirs, np.ndarray):
        same = (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape) and ours.tobytes() == theirs.tobytes()
    elif isinstance(ours, list | tuple) and isinstance(theirs, list | tuple):
        same = list(ours) == list(theirs)
    else:
        same = type(ours) is type(theirs) and ours == theirs
    return None if same else "/".join(path)
