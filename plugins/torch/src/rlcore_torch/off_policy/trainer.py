"""The off-policy template: store transitions, and take gradient steps on samples of them.

A subclass provides a network, optimizers and one gradient step, and may change how it explores. The random beginning,
the loop of an update and the state are here. The other parts of an update, in the order in which it meets them:

* ``optimization/schedules.py``: the gradient steps that are due (:class:`UpdateRatio`), the learning rate.
* ``off_policy/replay_sampler.py``: which transitions a minibatch has; ``priorities.py`` those of prioritized replay.
* ``off_policy/replay.py`` and ``replay_rings.py``: the stored transitions; ``prior_data.py``: recorded ones beside
  them.
* ``off_policy/saved_replay.py``: whether checkpoints have them.
* ``off_policy/batch_reader.py``: rewards of n steps, discounts and normalized observations of a minibatch, which is a
  ``TransitionBatch`` (``off_policy/transition_batch.py``).
* ``off_policy/minibatch_trainer.py``: gradients of several ranks, random numbers of losses, statistics.
* ``optimization/optimizer.py``, and on a CPU ``acceleration/flat_adam.py``: the step of an optimizer.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from rlcore import (
    Actions,
    AgentBatch,
    BehaviorSettings,
    BehaviorSpec,
    ConfigError,
    RunContext,
    RunStateError,
    blamed,
    derive_generator,
    generator_state,
    restore_generator,
    saved_array,
    saved_count,
    saved_mapping,
)
from rlcore_torch.acceleration.registry import accelerate
from rlcore_torch.lives import lives_as_episodes
from rlcore_torch.networks.actions import ActionNoise, numpy_mask_logits
from rlcore_torch.networks.inputs import to_numpy
from rlcore_torch.off_policy.batch_reader import BatchReader
from rlcore_torch.off_policy.collected_rows import CollectedRows
from rlcore_torch.off_policy.joined_replay import JoinedReplay
from rlcore_torch.off_policy.minibatch_trainer import GradientStep, MinibatchTrainer, mean_by_tag
from rlcore_torch.off_policy.prior_data import PriorData, read_prior_data
from rlcore_torch.off_policy.replay import ReplayBuffer
from rlcore_torch.off_policy.replay_rings import LEAST_ROWS
from rlcore_torch.off_policy.replay_sampler import UniformSampler, create_replay_sampler, draw
from rlcore_torch.off_policy.saved_replay import SavedReplay, in_units
from rlcore_torch.off_policy.stored_rewards import StoredEpisodeRewards
from rlcore_torch.off_policy.transition_batch import TransitionBatch, joined
from rlcore_torch.optimization.schedules import UpdateRatio
from rlcore_torch.policy.policy import Parameters, RawActions
from rlcore_torch.policy.remembering import act_remembering
from rlcore_torch.reward_scaling import ENTRY
from rlcore_torch.settings import OffPolicySettings
from rlcore_torch.template import Statistic

__all__ = ["OffPolicyTrainer"]

log = logging.getLogger("rlcore.plugin.torch")

STEPS_OF_NOISE = 64  # whose exploration noise is drawn at once
RECORDED = "recorded_transitions"  # the entry of a state that says how many the run learns from


class OffPolicyTrainer(MinibatchTrainer):
    """A trainer that learns from transitions of any earlier policy.

    A subclass implements :meth:`build_model`, :meth:`build_optimizers` and :meth:`gradient_step`. Gradient steps start
    when ``buffer_init_steps`` agent steps are taken and ``batch_size`` of them stored. From then on there is one for
    every ``steps_per_update`` agent steps.

    Attributes:
        soft_values: Whether values contain a bonus for the policy's entropy; batches of several steps then have the
            steps in between. A subclass may set it.
        updates_while_stepping: Whether an update may come between an action and what follows it, as
            :class:`rlcore.Trainer` says.
        hyperparameters: The block ``hyperparameters``.
        sampler: The replay sampler.
        buffer: The replay buffer.
        reward_scaling: How the environment's reward is learned from; None: as it is.
        action_generator: The random generator of exploration; seeded and saved.
        action_noise: Random numbers for acting, standard normal for continuous parts: a row for each agent, whichever
            rank it is in; drawn for many steps at once, and saved.
        saves_buffer: Whether checkpoints have the replay buffer.
        resume_limits: Why a resumed run is only alike, as :class:`rlcore.Trainer` says.
        smaller_checkpoints: What leaves large parts out of checkpoints, as :class:`rlcore.Trainer` says.
        memory: [S, K * M] what the K bodies of ``model.remembering`` remember before the next action, the policy's
            numbers first. Zero where an episode begins; None without memory.
    """

    soft_values = False
    updates_while_stepping = True
    saves_buffer = False
    resume_limits: tuple[str, ...] = ()
    smaller_checkpoints: tuple[str, ...] = ()

    hyperparameters: OffPolicySettings

    def __init__(self, settings: BehaviorSettings, behavior: BehaviorSpec, run: RunContext) -> None:
        h: OffPolicySettings = settings.hyperparameters
        self.sampler = UniformSampler() if run.inference else create_replay_sampler(h, behavior, run)
        super().__init__(settings, behavior, run)
        if self.model.memory is not None and self.sampler.changes_steps:
            raise ConfigError(
                f"{self.sampler.described} changes single transitions, and networks with memory learn from sequences; "
                "leave out one of the two",
                key=("behaviors", behavior.name, "hyperparameters", "replay_sampler"),
            )
        remembered = self.model.memory_size * len(self.model.remembering)
        self.memory = np.zeros((behavior.slots, remembered), np.float32) if remembered else None
        recorded: ReplayBuffer | None = None
        if h.prior_data is not None and not run.inference:
            # Before the replay buffer, so that this one is asked for what memory is left.
            recorded = read_prior_data(h.prior_data, behavior, self.model, self.policy.layout, run)
            self.policy.refresh()
        self.buffer = self._make_buffer(behavior, h, run, remembered)
        self._joined: JoinedReplay | None = None
        if run.ranks.size > 1:
            self._joined = JoinedReplay(self.buffer, self.share, run.ranks)
        self.reward_scaling = self.make_reward_scaling()
        self.reader = BatchReader(
            self.buffer,
            self.model.learner_inputs,
            self.policy.layout,
            self.providers,
            self.device,
            h.n_steps,
            self.soft_values,
            self.reward_scaling,
        )
        self._prior_data: PriorData | None = None
        if recorded is not None and h.prior_data is not None:
            self._prior_data = PriorData.of(recorded, self.reader, h.prior_data.rows_of(h.batch_size))
        start = max(h.buffer_init_steps, h.batch_size)
        self._episode_rewards = StoredEpisodeRewards(self.reader, self.provider_names)
        self._collected = CollectedRows(self.buffer)
        self._ratio = UpdateRatio(h.steps_per_update, start, h.gradient_steps)
        self._reward_ratio = UpdateRatio(h.reward_signal_steps_per_update or h.steps_per_update, start)
        generator = derive_generator(run.seed, f"{behavior.name}/actions")
        self.action_generator = generator
        head = self.model.policy_head
        self.action_noise = ActionNoise(behavior, STEPS_OF_NOISE, generator, head.held_size, self.share, head.hold)
        self._begun_with: dict[str, Statistic] = {}  # statistics of an update when its first minibatch was drawn
        self._shares: list[float] = []  # of this rank in each minibatch of an update
        self._begun = False  # whether the buffer holds the current observation
        accelerate(self, run)

    @property
    def exploration_step(self) -> int:
        """The agent step at which a schedule of exploration is evaluated.

        The step at which the latest gradient step was due; before the first one, the current step. All ranks have it
        alike, and a resumed run continues it.
        """
        return min(self.step_count.steps, self._ratio.latest)

    # ------------------------------------------------------------ what a subclass may change

    def explore(self, batch: AgentBatch) -> tuple[RawActions, NDArray[np.int64] | None]:
        """Return raw parts [S, continuous] and choices [S, branches], drawn from the current policy.

        A subclass may override it.
        """
        noise = None
        if not self.settings.network_settings.deterministic:
            noise = self.action_noise.next()
        return self.policy.explore(self.parameters(batch), noise)

    def random_actions(self, batch: AgentBatch) -> tuple[RawActions, NDArray[np.int64] | None]:
        """Return raw parts [S, continuous] and choices [S, branches], uniform over ranges and allowed options.

        A continuous part without bounds has no uniform distribution: it is standard normal.
        """
        generator = self.action_generator
        layout = self.policy.layout
        # Drawn for all slots of the run: an agent draws the same whichever rank it is in.
        slots = self.share.total
        local = self.share.numbers
        raw = choices = None
        if layout.continuous:
            drawn = generator.uniform(-1.0, 1.0, (slots, layout.continuous)).astype(np.float32)
            is_unbounded = np.isinf(layout.clip)
            count = int(is_unbounded.sum())
            if count:
                drawn[:, is_unbounded] = generator.standard_normal((slots, count), dtype=np.float32)
            raw = drawn[local]
        if layout.branches:
            # The greatest of equal lots is a uniform choice, also among those that a mask leaves.
            lots = generator.random((slots, layout.logits), dtype=np.float32)[local]
            if batch.action_mask is not None:
                lots = numpy_mask_logits(lots, batch.action_mask)
            choices = layout.greedy_choices(lots)
        return raw, choices

    # ------------------------------------------------------------ for subclasses

    def parameters(self, batch: AgentBatch) -> Parameters:
        """Return what actions are drawn with, as :meth:`rlcore_torch.ActorPolicy.parameters` does.

        Networks with memory remember the step. :meth:`explore` calls it once.
        """
        if self.memory is None:
            return self.policy.parameters(batch.observations, batch.action_mask)
        return act_remembering(self.policy, batch, self.memory)

    # ------------------------------------------------------------ the Trainer contract

    def begin(self, batch: AgentBatch) -> None:
        """Start new episodes in all slots."""
        if self.memory is not None:
            self.memory[:] = 0.0
        self._episode_rewards.begin()
        self.buffer.begin(batch)
        self._begun = True
        self.normalize(batch)

    def act(self, batch: AgentBatch) -> Actions:
        """Return random actions before ``buffer_init_steps``, and those of :meth:`explore` afterwards."""
        if not self._begun:  # resumed from a checkpoint without the buffer; the normalizer has seen this batch
            self.buffer.begin(batch)
            self._begun = True
        before = None if self.memory is None else self.memory.copy()
        if self.steps < self.hyperparameters.buffer_init_steps:
            raw, choices = self.random_actions(batch)
            if self.memory is not None:
                self.parameters(batch)
        else:
            raw, choices = self.explore(batch)
        self.buffer.act(raw, choices, before)
        return self.policy.layout.actions(raw, choices)

    def observe(self, actions: Actions, batch: AgentBatch) -> None:
        """Store the transitions that closed."""
        episodes = batch
        batch = lives_as_episodes(batch)
        needed_from = self.hyperparameters.buffer_init_steps
        if self.steps >= needed_from:
            needed_from = self._ratio.next
        self.step_count.add(self._episode_rewards.observe(batch), needed_from)
        if self.learning_providers:
            self._collected.add(self.buffer.closed_rows)
        if self.memory is not None:
            self.memory[episodes.ended] = 0.0  # a lost life ends the value alone, and not what is remembered
            if batch.aborted is not None:
                self.memory[batch.aborted] = 0.0
        self.normalize(batch)

    def ready(self) -> bool:
        """Return whether a gradient step is due."""
        # With several ranks, others may have stored something.
        return self._ratio.due(self.steps) > 0 and (len(self.buffer) > 0 or self._joined is not None)

    # ------------------------------------------------------------ the parts of an update

    def update(self) -> Mapping[str, Statistic]:
        """Take all gradient steps that are due, each with :meth:`gradient_step`; return statistics.

        A subclass may override it with the same parts. Raises TrainingDiverged if a statistic is not finite,
        ConfigError if the sampler needs errors that :meth:`gradient_step` does not give.
        """
        steps: list[GradientStep] = []
        for batch in self.minibatches():
            steps.append(self.gradient_step(batch))
            self.prioritize(batch, steps[-1])
        return self.finish(steps)

    def minibatches(self) -> Iterator[TransitionBatch]:
        """Yield a minibatch for each gradient step that is due, of which a rank has its own rows.

        Sets the learning rate of all optimizers first. ``gradient_steps`` counts a step when the next minibatch is
        asked for: during a step it is the number of those before.
        """
        report: Mapping[str, Sequence[float]] = {}
        if self._episode_rewards.has_finished:
            report = self._episode_rewards.report()
        if self.reward_scaling is not None:
            # Rewards are scaled by the variance of all that were collected, in all ranks.
            self._episode_rewards.compute()
            self.reward_scaling.join()
        if self._joined is not None:
            report = self._joined.exchange({tag: list(sums) for tag, sums in report.items()})
        self._begun_with = {**self.set_learning_rates(self._ratio.latest), **report}
        self._shares = []
        for _ in range(self._ratio.due(self.step_count.steps)):
            yield self._minibatch()
            self._ratio.done += 1
            self.gradient_steps += 1

    def _minibatch(self) -> TransitionBatch:
        batch_size = self.hyperparameters.batch_size
        if self._joined is not None:
            local, part = self._joined.sample(batch_size, self.generator, self.model.memory)
            self._shares.append(part.share)
            return attrs.evolve(self.reader.read(local), rows=part)
        prior = self._prior_data
        if prior is not None:
            batch_size -= prior.count
        progress = min(1.0, self.step_count.steps / self.settings.max_steps)
        sample = draw(self.sampler, self.buffer, batch_size, self.generator, progress)
        weight = sample.weight
        if weight is None and self.sampler.uses_td_errors:  # a trainer may compute errors only beside weights
            weight = np.ones(len(sample.rows), np.float32)
        rows = self.with_neighbors(sample.rows, self.buffer)
        batch = self.reader.read(rows, weight, sample.steps)
        if prior is None:
            return batch
        return joined(batch, prior.draw(self.generator))

    def prioritize(self, batch: TransitionBatch, step: GradientStep) -> None:
        """Give the sampler the errors of the gradient step on ``batch``, if it uses them.

        Raises ConfigError if the step has none, and TrainingDiverged if an error is not finite.
        """
        if self._joined is not None or not self.sampler.uses_td_errors:
            return
        if step.td_error is None:
            chosen = self.hyperparameters.replay_sampler
            raise ConfigError(
                f"behavior {self.behavior.name!r}: replay_sampler {chosen and chosen.type!r} needs temporal-difference "
                f"errors, which trainer {self.settings.trainer_type!r} does not give; choose another one"
            )
        errors = to_numpy(step.td_error)
        wrong = errors[~np.isfinite(errors)]
        if wrong.size:
            raise self.diverged(f"a temporal-difference error is {wrong[0]:g}")
        with blamed(self.sampler.described or "the replay sampler", "in learned"):
            self.sampler.learned(self.buffer, batch.starts, errors[: len(batch.starts)])

    def finish(self, steps: Sequence[GradientStep]) -> Mapping[str, Statistic]:
        """Let the reward providers learn; return the statistics of the update, means over its ``steps`` among them.

        Raises TrainingDiverged if a statistic is not finite.
        """
        stats = {**self._begun_with, **self.summarize(steps, self._shares)}
        if self.learning_providers:
            stats |= self._update_rewards()
        self.policy.refresh_distribution()
        return stats

    # ------------------------------------------------------------ inside

    def _make_buffer(
        self, behavior: BehaviorSpec, h: OffPolicySettings, run: RunContext, remembered: int
    ) -> ReplayBuffer:
        """A buffer of ``buffer_size`` rows, or of the least number for inference, which learns nothing."""
        if run.inference:
            return ReplayBuffer(behavior, LEAST_ROWS * behavior.slots, remembered=remembered)
        size = h.buffer_size
        if self.share.total > behavior.slots:
            # As many rows for each slot as one process would have.
            size = math.ceil(size / self.share.total) * behavior.slots
        buffer = ReplayBuffer(behavior, size, self.sampler.priority_alpha, remembered)
        self._choose_saving(buffer, run)
        return buffer

    def _choose_saving(self, buffer: ReplayBuffer, run: RunContext) -> None:
        """Decide whether checkpoints have the replay buffer; say what it takes, or why a resume is only alike."""
        name = self.behavior.name
        key = "hyperparameters.save_replay_buffer"
        choice = self.hyperparameters.save_replay_buffer
        if choice is False:
            self.resume_limits = (*self.resume_limits, f"{key} of {name} is false")
            return
        replay = SavedReplay.of(buffer, run)
        takes = in_units(replay.nbytes)
        if choice == "auto" and not replay.is_cheap:
            without = "" if replay.hard_links else " without hard links"
            limit = f"the replay of {name}, {takes}, is not saved{without} ({key}: true saves it)"
            self.resume_limits = (*self.resume_limits, limit)
            return
        self.saves_buffer = True
        self.smaller_checkpoints = (*self.smaller_checkpoints, f"{key}: false of {name}")
        log.info(
            "behavior %r: a replay buffer of %s rows takes %s, and up to about %s in the checkpoints of the run",
            name,
            f"{self.hyperparameters.buffer_size:,}",
            takes,
            in_units(replay.on_disk(self.settings)),
        )

    @property
    def _sampler_type(self) -> str:
        """The name of the replay sampler without its distribution, which may change."""
        chosen = self.hyperparameters.replay_sampler
        if chosen is None:
            return "uniform"
        _, _, name = chosen.type.rpartition("/")
        return name

    def _update_rewards(self) -> dict[str, float]:
        statistics: list[tuple[str, float]] = []
        for _ in range(self._reward_ratio.due(self.steps)):
            rows = self.buffer.sample(self.hyperparameters.batch_size, self.generator)
            transitions = self.reader.transitions(rows, self._collected.take())
            statistics += self.update_providers(transitions).items()
            self._reward_ratio.done += 1
        return mean_by_tag(statistics)

    # ------------------------------------------------------------ state

    def state_dict(self) -> dict[str, Any]:
        """Return what a run must save; with :attr:`saves_buffer`, the buffer too."""
        state = super().state_dict()
        state["generators"]["actions"] = generator_state(self.action_generator)
        state |= {
            "noise": self.action_noise.state_dict(),
            "ratio": self._ratio.state_dict(),
            "reward_ratio": self._reward_ratio.state_dict(),
            "slots": self.behavior.slots,
            "episode_rewards": self._episode_rewards.state_dict(),
        }
        if self._prior_data is not None:
            state[RECORDED] = len(self._prior_data.rows)
        if self.memory is not None:
            state["memory"] = self.memory.copy()
        if self.reward_scaling is not None:  # after the episode rewards, which add the latest steps
            state[ENTRY] = self.reward_scaling.state_dict()
        if self.saves_buffer:
            state["buffer"] = self.buffer.state_dict()
            state["sampler"] = {"type": self._sampler_type, "state": self.sampler.state_dict()}
            if self.learning_providers:
                state["collected"] = self._collected.state_dict()
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from :meth:`state_dict`. Raises RunStateError, changing nothing, for a state that does not fit."""
        super().load_state_dict(state)
        restore_generator(self.action_generator, state["generators"]["actions"])
        self.action_noise.load_state_dict(state["noise"])
        self._ratio.load_state_dict(state["ratio"], self.steps)
        self._reward_ratio.load_state_dict(state["reward_ratio"], self.steps)
        self._episode_rewards.load_state_dict(state["episode_rewards"])
        if self.reward_scaling is not None:
            self.reward_scaling.load_state_dict(state)
        if self.memory is not None:
            self.memory[:] = state["memory"]
        if "buffer" in state:
            self.buffer.load_state_dict(state["buffer"])
            self.sampler.load_state_dict(state["sampler"]["state"])
            if self.learning_providers:
                self._collected.load_state_dict(state["collected"])
            self._begun = True
            if self._joined is not None:
                self._joined.forget()
            return
        log.warning(
            "behavior %r: the checkpoint has no replay buffer, so learning goes on when %d new transitions are stored; "
            "hyperparameters.save_replay_buffer: true keeps the buffer in checkpoints",
            self.behavior.name,
            self.hyperparameters.batch_size,
        )
        self._begun = False
        self._restart()

    def load_learned(self, state: Mapping[str, Any]) -> None:
        """Continue with the weights, the optimizers and the generators of ``state``, and with an empty buffer."""
        super().require_fit(state)
        self._load(state)
        restore_generator(self.action_generator, state["generators"]["actions"])
        if self.reward_scaling is not None:
            self.reward_scaling.load_statistics(state)
        self._restart()

    def _restart(self) -> None:
        """Learn again once a minibatch of new transitions is stored."""
        h = self.hyperparameters
        start = max(self.steps + h.batch_size, h.buffer_init_steps)
        self._ratio.restart(start)
        self._reward_ratio.restart(start)
        self._collected.clear()

    def require_fit(self, state: Mapping[str, Any]) -> None:
        super().require_fit(state)
        if state["slots"] != self.behavior.slots:
            raise RunStateError(
                f"behavior {self.behavior.name!r}: the checkpoint is of {state['slots']} agents, this run has "
                f"{self.behavior.slots}; set environment.num_envs as it was"
            )
        self._require_recorded(state)
        self._episode_rewards.require_fit(saved_mapping(state, "episode_rewards"))
        if self.reward_scaling is not None:
            self.reward_scaling.require_fit(state)
        if self.memory is not None:
            saved_array(state, "memory", np.float32, self.memory.shape)
        if "buffer" in state:
            saved = saved_mapping(state, "sampler")
            if saved.get("type") != self._sampler_type and not self.inference:
                raise RunStateError(
                    f"behavior {self.behavior.name!r}: the checkpoint was saved with replay_sampler.type "
                    f"{saved.get('type')!r} and this run has {self._sampler_type!r}; resume with the sampler of the "
                    "checkpoint, or start a new run"
                )
            self.buffer.require_fit(saved_mapping(state, "buffer"))
            self.sampler.require_fit(saved_mapping(saved, "state"))
            if self.learning_providers:
                self._collected.require_fit(saved_mapping(state, "collected"))

    def _require_recorded(self, state: Mapping[str, Any]) -> None:
        """Raise RunStateError if the run of ``state`` learned from another number of recorded transitions."""
        saved = saved_count(state, RECORDED) if RECORDED in state else 0
        here = 0 if self._prior_data is None else len(self._prior_data.rows)
        if saved != here and not self.inference:
            raise RunStateError(
                f"behavior {self.behavior.name!r}: the checkpoint was learned with {saved} recorded transitions of "
                f"hyperparameters.prior_data, and this run has {here}; resume with the same data"
            )
