"""More slots within a run, for agents of an environment that have appeared since it began: :class:`rlcore.AddsSlots`.

New trainers continue from what the old ones learned, as in a run that is resumed with more agents.
"""

from __future__ import annotations

import logging

from rlcore.contracts.environment import AddsSlots
from rlcore.contracts.trainer import PortableTrainer
from rlcore.errors import EnvironmentFailed
from rlcore.plugins.failures import blamed
from rlcore.run.behaviors.behavior import trainer_named
from rlcore.run.components import make_state
from rlcore.run.resume import load_policies, restore_state
from rlcore.run.training import Training

log = logging.getLogger(__name__)


def add_wanted_slots(training: Training, environment: AddsSlots) -> None:
    """Have ``environment``, which wants slots, add them, and begin new episodes. Called between two epochs."""
    state = training.state
    session = training.session
    refusal = _refusal(training)
    if refusal:
        if not training.slots_refused:
            log.warning("agents have no slot and act without being learned from, because %s (reported once)", refusal)
        training.slots_refused = True
        return
    if not training.context.inference:
        # With the old slots, first: whatever the environment does next, the run can be resumed from here.
        training.boundaries.checkpoints.save_unless_saved(regular=False)
        training.boundaries.checkpoints.wait_until_written()
    with blamed(state.environment_name, "in add_slots", EnvironmentFailed):
        environment.add_slots()
    # The state of the run from here on, also for the checkpoint after an error of the environment.
    grown = make_state(training.context, training.run.plugins, session.notifications.lesson_changed, state.environment)
    changes = []
    for name, behavior in grown.behaviors.items():
        before = state.behaviors[name].spec.slots
        if behavior.spec.slots != before:
            changes.append(f"{behavior.spec.slots} instead of {before} slots for agents of {name!r}")
    added = ", ".join(changes)
    grown.added_slots = (*state.added_slots, f"agents got slots within the run: {added}")
    parts = list(state.parts)
    if state.curricula is not None and grown.curricula is not None:
        parts[parts.index(state.curricula)] = grown.curricula
    grown.parts = tuple(parts)
    session.state = grown
    captured = state.capture({})
    place = training.run.directory.path
    if training.context.inference:
        load_policies(grown, captured, place)
        for name, behavior in grown.behaviors.items():
            behavior.load_without_slots(captured["run"]["behaviors"][name])
        grown.begin_episodes()
    else:
        restore_state(grown, captured, place, "with fewer slots")
    for name, behavior in grown.behaviors.items():
        behavior.succeed(state.behaviors[name])
        behavior.set_boundaries()
    log.warning(
        "%s from step %d on: weights, optimizers, counters and lessons continue, open episodes, rollouts and replay "
        "buffers start empty",
        added,
        grown.steps,
    )


def _refusal(training: Training) -> str:
    """Why slots cannot be added; empty if they can."""
    if training.context.ranks.size > 1:
        return "slots are not added in a run of several ranks"
    if training.context.inference:
        return ""
    for behavior in training.behaviors.values():
        if not isinstance(behavior.trainer, PortableTrainer):
            return f"{trainer_named(behavior)} cannot continue with other slots"
    return ""
