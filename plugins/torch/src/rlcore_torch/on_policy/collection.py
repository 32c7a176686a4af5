"""How an on-policy trainer collects a rollout, and what a checkpoint has of it.

The statistics of the observation normalizer change with updates alone, but for the first rollout: there they change in
each step, before its observations are acted on, because those of the first step say little of the steps after it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from rlcore import (
    Actions,
    AgentBatch,
    BehaviorSettings,
    BehaviorSpec,
    RunContext,
    RunStateError,
    derive_generator,
    fill,
    generator_state,
    restore_generator,
    saved_array,
    saved_bool,
    saved_count,
    saved_mapping,
)
from rlcore_torch.lives import lives_as_episodes
from rlcore_torch.networks.actions import ActionNoise
from rlcore_torch.networks.inputs import AnyInputs
from rlcore_torch.networks.models import ActorCritic
from rlcore_torch.networks.saved_networks import load_model_state, model_state
from rlcore_torch.on_policy.advantages import EpisodeRewards
from rlcore_torch.on_policy.device_rollout import TensorRollout, TurnsRollout
from rlcore_torch.on_policy.rollout import RolloutBuffer
from rlcore_torch.on_policy.saved_rollout import load_rollout, require_rollout_fit, rollout_state
from rlcore_torch.optimization.optimizer import Optimizer
from rlcore_torch.policy.policy import ActorPolicy
from rlcore_torch.policy.remembering import act_remembering
from rlcore_torch.reward_scaling import ENTRY
from rlcore_torch.settings import OnPolicySettings
from rlcore_torch.template import TorchTrainer
from rlcore_torch.tensors.acting import SharedMemoryActor, TensorActor, TensorNoise, shares_memory
from rlcore_torch.tensors.refusals import refusal_of_tensors

__all__ = ["RolloutTrainer"]

Methods = tuple[Callable[..., Any], ...]


class RolloutTrainer(TorchTrainer):
    """Acts with the current policy and stores what happens; the base of :class:`rlcore_torch.OnPolicyTrainer`.

    Attributes:
        hyperparameters: The block ``hyperparameters``.
        model: The network.
        optimizer: The optimizer of all parameters of the network.
        policy: The current policy.
        buffer: The rollout that is collected.
        memory: [S, M] what the networks remember before the next action: the policy's numbers first, the critic's last,
            which are the same if it shares the policy's body. Zero where an episode begins; None without memory.
        action_noise: Random numbers for acting: Gaussian ones for continuous parts and Gumbel ones for options. Each
            agent has a row, whichever rank it is in; drawn for many steps at once, and saved.
        rollout_start: Agent steps of all ranks at which the rollout began. Schedules are evaluated there, so that a
            rollout is learned from as it was collected, and the last one not with the values of the end.
        reward_scaling: How the environment's reward is learned from; None: as it is.
        begins_statistics: Whether this is the rollout in which the normalizer's statistics begin, step by step. The
            log-probabilities of a rollout are those of the outputs that actions were drawn with, whatever the
            statistics were; its values and gradient steps have those of its end.
    """

    hyperparameters: OnPolicySettings
    model: ActorCritic

    def __init__(self, settings: BehaviorSettings, behavior: BehaviorSpec, run: RunContext) -> None:
        super().__init__(settings, behavior, run)
        self._inputs: AnyInputs = self.model.learner_inputs
        self.optimizer = self.make_optimizer(self.model.parameters())
        self._follow_steps({"optimizer": self.optimizer})
        self.policy = ActorPolicy(behavior, self.model, self.backend)
        head = self.model.policy_head
        slots = behavior.slots
        remembered = self.model.memory_size * len(self.model.remembering)
        self.memory = np.zeros((slots, remembered), np.float32) if remembered else None
        collected = self.hyperparameters.buffer_size
        if self.ranks.size > 1:
            # As many rows in every rank as one process would have: an agent's part does not depend on its rank.
            rows_of_all = math.ceil(collected / self.share.total)
            collected = rows_of_all * slots
        noise_size = head.held_size // head.hold
        self._buffer_sizes = self.stored(), collected, remembered, noise_size, head.continuous
        self.buffer = RolloutBuffer(*self._buffer_sizes)
        self.rollout_start = 0
        self.begins_statistics = False
        self._noise_generator = derive_generator(run.seed, f"{behavior.name}/actions")
        self._minibatch_generator = derive_generator(run.seed, f"{behavior.name}/minibatches")
        self._new_noise = behavior, self.buffer.rows, self._noise_generator, head.held_size, self.share, head.hold
        self.action_noise = ActionNoise(*self._new_noise)
        self.episode_rewards = [EpisodeRewards(np.zeros(slots)) for _ in self.providers]
        self.reward_scaling = self.make_reward_scaling()
        self._actor: Any = self.policy  # whose arrays or tensors the buffer stores
        self._actions: Callable[..., Any] = self.policy.layout.actions

    def take_tensors(self, device: torch.device, takes_turns: bool = False) -> str | None:
        """Collect rollouts of tensors on ``device`` from now on, before the first :meth:`begin`.

        ``takes_turns`` says that batches may have ``needs_action``. Returns None, or why the trainer keeps to NumPy:
        what it has been given, or a method that a subclass overrides.
        """
        refusal = refusal_of_tensors(self, device)
        if refusal is not None:
            return refusal
        # The parts of an update read both alike.
        kind = TurnsRollout if takes_turns else TensorRollout
        self.buffer = kind(self.device, *self._buffer_sizes)
        if shares_memory(self.device):
            self._actor = SharedMemoryActor(self.policy)
        else:
            self._actor = TensorActor(self.policy)
            self.action_noise = TensorNoise(*self._new_noise)
            self.action_noise.device = self.device
        self._actions = self._actor.actions
        return None

    def played(self) -> list[AgentBatch]:
        """Return the rewards and flags of the steps since the last call, after :meth:`take_tensors`."""
        return self.buffer.played()

    def stored(self) -> BehaviorSpec:
        """Return the behavior with the observations that a rollout stores; a subclass may add to those of the agents.

        It adds them to the batches too that it gives to :meth:`begin` and :meth:`observe`. Their names begin with "/".
        """
        return self.behavior

    def actor_optimizer(self) -> Optimizer:
        """Return the optimizer of all parameters."""
        return self.optimizer

    # ------------------------------------------------------------ acting

    def begin(self, batch: AgentBatch) -> None:
        """Start new episodes in all slots."""
        self._forget(np.ones(self.behavior.slots, np.bool_))
        self.buffer.begin(batch, self.memory)
        if not self._inputs.has_statistics:  # the weights that a run begins with may have some
            self.begins_statistics = True
        if self.begins_statistics:
            self.normalize(batch)

    def act(self, batch: AgentBatch) -> Actions:
        """Return actions, and store what their distribution was given."""
        noise = None
        if not self.settings.network_settings.deterministic:
            noise = self.action_noise.next()
        if self.memory is None:
            columns, logits = self._actor.parameters(batch.observations, batch.action_mask)
        else:
            columns, logits = act_remembering(self.policy, batch, self.memory)
        raw, choices = self.explore((columns, logits), noise)
        self.buffer.act(raw, choices, columns, logits)
        return self._actions(raw, choices)  # type: ignore[no-any-return]

    def explore(self, parameters: tuple[Any, Any], noise: tuple[Any, Any] | None) -> tuple[Any, Any]:
        """Return raw parts [S, continuous] and choices [S, branches]: a draw of the policy, or its best without noise.

        ``parameters`` are the columns of the continuous parts [S, columns] and the logits [S, logits], those of
        forbidden options the smallest; a part that the behavior does not have is None. ``noise`` are Gaussian numbers
        [S, noise_size] and Gumbel numbers [S, logits] of :attr:`action_noise`; None with
        ``network_settings.deterministic``.

        A subclass may override it to act otherwise while it learns; evaluation and snapshots stay as they are. Actions
        that depend on nothing but the arguments, :attr:`rollout_start` and constants are equal in all ranks, and after
        a resume; so are further draws of :attr:`action_noise`. The log-probabilities of a rollout stay those of
        ``parameters``: a loss with their ratios, such as PPO's, needs actions that were drawn from them.

        An override gets arrays, and its trainer keeps to NumPy in a tensor environment. With
        :func:`rlcore_torch.reads_tensors` it gets tensors there, on a GPU.
        """
        return self._actor.explore(parameters, noise)  # type: ignore[no-any-return]

    def observe(self, actions: Actions, batch: AgentBatch) -> None:
        """Store the transitions that closed."""
        episodes = batch
        batch = lives_as_episodes(batch)
        if batch.aborted is not None:
            self._forget(batch.aborted)
        full = self.rollout_start + self.hyperparameters.buffer_size
        if self.memory is None:  # batches on a device have no memory, and no rows `ended`
            closed = self.buffer.observe(batch)
        else:
            # A lost life ends the value alone: agents that are evaluated know no lives, and remember on.
            closed = self.buffer.observe(batch, self.memory, episodes.ended)
        self.step_count.add(closed, min(full, self.settings.max_steps))
        if self.begins_statistics and self.steps < full:  # those after a full rollout belong to the next one
            self.normalize(batch)

    def _forget(self, cut: NDArray[np.bool_]) -> None:
        """Forget what was remembered and earned in the episodes of these slots [S], which are cut.

        Reward sums are reset where there is no transition in the buffer; ``cut_rows`` reports the others.
        """
        unreported = cut & (self.buffer.lengths() == 0)
        for rewards in self.episode_rewards:
            rewards.open[unreported] = 0.0
        if self.reward_scaling is not None:
            self.reward_scaling.forget(unreported)
        if self.memory is not None:
            self.memory[cut] = 0.0

    def ready(self) -> bool:
        """Return whether the rollout is full, or is the last one before ``max_steps``, which may be shorter.

        A short rollout holds at least ``batch_size`` transitions, and every rank has a part. Fewer would take
        ``num_epoch`` steps as long as all others along gradients noisier than ``batch_size`` asks for.
        """
        h = self.hyperparameters
        collected = self.steps - self.rollout_start
        if collected >= h.buffer_size:
            return True
        is_last = self.rollout_start < self.settings.max_steps <= self.steps
        if not is_last or collected < h.batch_size:
            return False
        return not self.ranks.any(self.buffer.size == 0)

    # ------------------------------------------------------------ state

    def state_dict(self) -> dict[str, Any]:
        """Return what a run must save of the trainer."""
        rewards = zip(self.provider_names, self.episode_rewards, strict=True)
        state: dict[str, Any] = {
            "model": model_state(self.model),
            "optimizer": self.optimizer.state_dict(),
            "buffer": rollout_state(self.buffer.on_host()),
            "steps": self.steps,
            "begins_statistics": self.begins_statistics,
            "generators": {
                "actions": generator_state(self._noise_generator),
                "minibatches": generator_state(self._minibatch_generator),
            },
            "noise": self.action_noise.state_dict(),
            "episode_rewards": {name: sums.open.copy() for name, sums in rewards},
            "providers": self.providers_state(),
        }
        if self.reward_scaling is not None:
            state[ENTRY] = self.reward_scaling.state_dict()
        if self.memory is not None:
            size = self.model.memory_size
            acting = self.memory[:, :size].copy()
            critic = self.memory[:, -size:].copy()  # the same if it shares the policy's body
            state["memory"] = {"acting": acting, "critic": critic}
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from :meth:`state_dict`. Raises RunStateError, changing nothing, for a state that does not fit."""
        self.require_fit(state)
        self._load_learned(state)
        if self.memory is not None:
            size = self.model.memory_size
            memory = state["memory"]
            self.memory[:, -size:] = memory["critic"]
            self.memory[:, :size] = memory["acting"]
        self.policy.refresh()
        arrays = self.buffer.on_host()
        load_rollout(arrays, state["buffer"])
        self.buffer.load(arrays)
        self.rollout_start = self.steps - self.ranks.total(self.buffer.size)
        self.begins_statistics = bool(state["begins_statistics"])
        self.action_noise.load_state_dict(state["noise"])
        episode_rewards = saved_mapping(state, "episode_rewards")
        for name, rewards in zip(self.provider_names, self.episode_rewards, strict=True):
            fill(rewards.open, episode_rewards, name)
        if self.reward_scaling is not None:
            self.reward_scaling.load_state_dict(state)

    def load_learned(self, state: Mapping[str, Any]) -> None:
        """Continue with the weights, the optimizer and the generators of ``state``, and with an empty rollout."""
        super().require_fit(state)
        self.require_optimizer_fit(self.optimizer, saved_mapping(state, "optimizer"))
        self._load_learned(state)
        self.rollout_start = self.steps
        self.policy.refresh()

    def _load_learned(self, state: Mapping[str, Any]) -> None:
        load_model_state(self.model, state["model"], self.behavior.name)
        self.optimizer.load_state_dict(state["optimizer"])
        self.forget_captured()
        self.steps = saved_count(state, "steps")
        generators = state["generators"]
        restore_generator(self._noise_generator, generators["actions"])
        restore_generator(self._minibatch_generator, generators["minibatches"])
        self.load_providers(state["providers"])
        if self.reward_scaling is not None:
            self.reward_scaling.load_statistics(state)

    def require_fit(self, state: Mapping[str, Any]) -> None:
        super().require_fit(state)
        buffer = saved_mapping(state, "buffer")
        slots = len(saved_array(buffer, "cursor", np.int64, (None,)))
        if slots != self.behavior.slots:
            raise RunStateError(
                f"behavior {self.behavior.name!r}: the checkpoint is of {slots} agents, this run has "
                f"{self.behavior.slots}; set environment.num_envs as it was"
            )
        require_rollout_fit(self.buffer.on_host(), buffer)
        saved_bool(state, "begins_statistics")
        if self.reward_scaling is not None:
            self.reward_scaling.require_fit(state)
        if self.memory is not None:
            memory = saved_mapping(state, "memory")
            for name in ("acting", "critic"):
                saved_array(memory, name, np.float32, (slots, self.model.memory_size))
        self.require_optimizer_fit(self.optimizer, saved_mapping(state, "optimizer"))

    # What reads batches or rollouts, and can read tensors in the place of arrays; see refusal_of_tensors.
    _methods_of_tensors: ClassVar[Methods] = (begin, act, explore, observe, stored, state_dict, load_state_dict)
