"""A compiled program as a tensor environment: JAX steps, and PyTorch reads the results in the memory where they are.

Memory is shared only in one direction, and only what a step gives. PyTorch could write into an array that it shares
with JAX, so no array of the simulator's state is shared: it would change the simulation. Actions are copied, because a
program of JAX reads them after the call has returned, when a trainer may have overwritten them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.dlpack import from_dlpack

from rlcore import BehaviorSpec, EpisodeSeeds, saved_mapping
from rlcore_jax.program import Carry, Output, Program
from rlcore_jax.trees import restored_tree, saved_tree
from rlcore_torch import TensorActions, TensorBatch


class JaxTensors:
    """The environments of a :class:`~rlcore_jax.program.Program` as a :class:`rlcore_torch.TensorEnvironment`.

    All players are slots of one behavior. JAX computes on its first device if PyTorch can read the memory of that, and
    else on the CPU.

    Attributes:
        behaviors: The only behavior by its name.
        num_envs: N, the number of environments.
        device: The device of all tensors.
        takes_turns: Whether players wait for others.
        saves_rows: A saved state has a row for each environment.
    """

    saves_rows = True

    def __init__(self, program: Program, behavior: str) -> None:
        """All players have the behavior called ``behavior``."""
        simulator = program.simulator
        self.num_envs = program.num_envs
        self.takes_turns = program.takes_turns
        envs = np.arange(program.num_envs)
        players = np.arange(simulator.players)
        team = None
        if simulator.teams:
            team = np.tile(players, program.num_envs)
        spec = BehaviorSpec(
            name=behavior,
            observations=simulator.observations,
            continuous=len(simulator.low),
            discrete=simulator.discrete,
            low=simulator.low,
            high=simulator.high,
            env_index=np.repeat(envs, simulator.players),
            team=team,
        )
        self.behaviors: Mapping[str, BehaviorSpec] = {behavior: spec}
        self._behavior = behavior
        self._program = program
        self._home = jax.devices()[0]
        on_gpu = self._home.platform == "gpu" and torch.cuda.is_available()
        if on_gpu:
            self.device = torch.device("cuda", self._home.local_hardware_id)
        else:
            self._home = jax.devices("cpu")[0]
            self.device = torch.device("cpu")
        self._carry: Carry | None = None  # made by `reset`

    @property
    def episodes(self) -> NDArray[np.int64]:
        """[N] number of the episode that each environment is in; a copy."""
        if self._carry is None:
            return np.zeros(self.num_envs, np.int64)
        return np.array(self._carry.episodes, np.int64)

    def reset(self, seeds: EpisodeSeeds, episodes: NDArray[np.int64]) -> dict[str, TensorBatch]:
        """Start an episode in every environment, as :meth:`rlcore_torch.TensorEnvironment.reset` says."""
        run_key = jax.random.key(seeds.run_seed)
        key = jax.device_put(run_key, self._home)  # what is computed with it follows it there
        envs = seeds.first_env + np.arange(self.num_envs, dtype=np.int32)
        arguments = (key, envs, episodes.astype(np.int32))
        if self._carry is None:  # compile the step here, where a run waits longer than in a step
            carry, _ = self._program.reset(*arguments)
            self._program.step(carry, self._no_actions())
        self._carry, output = self._program.reset(*arguments)
        return self._batches(output)

    def step(self, actions: Mapping[str, TensorActions]) -> dict[str, TensorBatch]:
        """Move every environment once, as :meth:`rlcore_torch.TensorEnvironment.step` says."""
        chosen = actions[self._behavior]
        numbers = chosen.continuous if chosen.discrete is None else chosen.discrete
        assert numbers is not None
        discrete = chosen.discrete is not None
        players = self._program.simulator.players
        shape = (self.num_envs, players, numbers.shape[1])
        if self.device.type == "cpu":  # JAX takes arrays of NumPy faster than those of DLPack
            kind = np.int32 if discrete else np.float32
            copied = numbers.numpy().astype(kind)
            array = copied.reshape(shape)
        else:
            clone = numbers.to(torch.int32) if discrete else numbers.clone()
            array = jax.dlpack.from_dlpack(clone.view(shape))
        self._carry, output = self._program.step(self._carry, array)
        return self._batches(output)

    def _no_actions(self) -> NDArray[Any]:
        simulator = self._program.simulator
        agents = (self.num_envs, simulator.players)
        if simulator.discrete:
            branches = len(simulator.discrete)
            return np.zeros((*agents, branches), np.int32)
        parts = len(simulator.low)
        return np.zeros((*agents, parts), np.float32)

    def _batches(self, output: Output) -> dict[str, TensorBatch]:
        # Views of few arrays: every array that is handed over costs more than ten times what a view costs.
        observations = {}
        final_observations = {}
        for name, both in output.observations.items():
            observations[name], final_observations[name] = from_dlpack(both).unbind()
        reward = from_dlpack(output.reward)
        terminated, truncated, *acts = from_dlpack(output.flags).unbind()
        batch = TensorBatch(observations, reward, terminated, truncated, final_observations)
        if acts:
            [batch.needs_action] = acts
        if output.mask is not None:
            batch.action_mask = from_dlpack(output.mask)
        if output.final_mask is not None:
            batch.final_action_mask = from_dlpack(output.final_mask)
        return {self._behavior: batch}

    def state_dict(self) -> dict[str, Any]:
        """Return the state by the path of each leaf, as :meth:`rlcore_torch.TensorEnvironment.state_dict` says."""
        return {"carry": saved_tree(self._carry)}

    def load_state_dict(self, state: Mapping[str, Any]) -> dict[str, TensorBatch]:
        """Continue from ``state``, as :meth:`rlcore_torch.TensorEnvironment.load_state_dict` says."""
        episodes = np.zeros(self.num_envs, np.int64)
        self.reset(EpisodeSeeds(0), episodes)  # makes a tree of the right structure
        saved = saved_mapping(state, "carry")
        self._carry = restored_tree(saved, self._carry)
        output = self._program.show(self._carry)
        return self._batches(output)

    def close(self) -> None:
        """Free the state; may be called twice."""
        self._carry = None
