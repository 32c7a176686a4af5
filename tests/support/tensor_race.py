"""A game of two players as tensors: its slots act in turns, with masks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rlcore import BehaviorSpec, EpisodeSeeds, ObservationSpec
from rlcore_torch import AsNumpy, TensorActions, TensorBatch, environment_keys, fold_in, uniforms

GOAL = 7
MOST_MOVES = 9


class ThroughNumpy(AsNumpy):
    """Gives arrays to every trainer."""

    def keep_batches(self, trainers: Sequence[Any]) -> bool:
        return False


class TensorRace:
    """Two players move one piece 0 to 2 fields; whoever reaches the goal wins 1, and the other loses 1.

    A move costs its player 0.1. After a move of 0 the same player moves again; two fields may not be moved from an odd
    field. An episode is cut off after 9 moves. Slot 2c + p is player p of environment c.
    """

    takes_turns = True

    def __init__(self, num_envs: int, name: str = "Racer") -> None:
        self.num_envs, self.name, self.device = num_envs, name, torch.device("cpu")
        observation = ObservationSpec("field", (3,), np.float32)
        env_index = np.repeat(np.arange(num_envs), 2)
        spec = BehaviorSpec(name, (observation,), discrete=(3,), env_index=env_index)
        self.behaviors: Mapping[str, BehaviorSpec] = {name: spec}
        self._numbers = torch.zeros(num_envs, dtype=torch.int64)

    @property
    def episodes(self) -> Any:
        return self._numbers.numpy().copy()

    def reset(self, seeds: EpisodeSeeds, episodes: Any) -> dict[str, TensorBatch]:
        self._seed(seeds)
        self._numbers = torch.tensor(episodes)
        self._state = self._first()
        self._owed = torch.zeros(self.num_envs, 2)  # rewards since each player's last action
        return self._batch()

    def _seed(self, seeds: EpisodeSeeds) -> None:
        self._seeds = seeds
        self._keys = environment_keys(seeds.run_seed, torch.arange(self.num_envs) + seeds.first_env)

    def _first(self) -> Tensor:
        """[N, 3]: the field, whose turn it is, and moves so far."""
        drawn = uniforms(fold_in(self._keys, self._numbers), 2)
        zero = torch.zeros(self.num_envs)
        return torch.stack([torch.floor(3 * drawn[:, 0]), torch.floor(2 * drawn[:, 1]), zero], 1)

    def _seen(self, state: Tensor) -> tuple[Tensor, Tensor]:
        """Observations [2N, 3] and masks [2N, 3] of both players."""
        player = torch.arange(2).repeat(self.num_envs)
        field, turn, moves = (column.repeat_interleave(2) for column in state.unbind(1))
        mask = torch.ones(2 * self.num_envs, 3, dtype=torch.bool)
        mask[:, 2] = (field % 2 == 0) | (turn != player)
        return torch.stack([field / GOAL, (turn == player).float(), moves / MOST_MOVES], 1), mask

    def _batch(self, **ended: Any) -> dict[str, TensorBatch]:
        seen, mask = self._seen(self._state)
        acts = self._state[:, 1].repeat_interleave(2) == torch.arange(2).repeat(self.num_envs)
        none = torch.zeros(2 * self.num_envs, dtype=torch.bool)
        given = {"reward": none.float(), "terminated": none, "truncated": none.clone(), **ended}
        return {self.name: TensorBatch({"field": seen}, **given, needs_action=acts, action_mask=mask)}

    def step(self, actions: Mapping[str, TensorActions]) -> dict[str, TensorBatch]:
        chosen = actions[self.name].discrete
        assert chosen is not None
        field, turn, moves = self._state.unbind(1)
        mover = turn.long()
        rows = torch.arange(self.num_envs)
        move = chosen[:, 0].view(-1, 2)[rows, mover]
        self._owed[rows, mover] = -0.1
        last = torch.stack([field + move, torch.where(move == 0, turn, 1 - turn), moves + 1], 1)
        won = last[:, 0] >= GOAL
        over = won | (last[:, 2] >= MOST_MOVES)
        self._owed[rows, mover] += won.float()
        self._owed[rows, 1 - mover] -= won.float()
        self._numbers = self._numbers + over
        self._state = torch.where(over[:, None], self._first(), last)
        final, final_mask = self._seen(last)
        closed = over[:, None] | (self._state[:, 1:2] == torch.arange(2))
        reward = torch.where(closed, self._owed, 0.0).flatten()
        self._owed = torch.where(closed, 0.0, self._owed)
        ended = {"terminated": won, "truncated": over & ~won}
        flags = {name: flag.repeat_interleave(2) for name, flag in ended.items()}
        finals = {"final_observations": {"field": final}, "final_action_mask": final_mask}
        return self._batch(reward=reward, **flags, **finals)

    def state_dict(self) -> dict[str, Any]:
        arrays = {"state": self._state, "owed": self._owed, "numbers": self._numbers}
        seeds = {"run_seed": self._seeds.run_seed, "first_env": self._seeds.first_env}
        return {**seeds, **{name: value.numpy().copy() for name, value in arrays.items()}}

    def load_state_dict(self, state: Mapping[str, Any]) -> dict[str, TensorBatch]:
        self._seed(EpisodeSeeds(int(state["run_seed"]), int(state["first_env"])))
        self._state, self._owed, self._numbers = (torch.tensor(state[n]) for n in ("state", "owed", "numbers"))
        return self._batch()

    def close(self) -> None:
        pass
