# mypy: allow-untyped-calls
"""The offline template: recorded episodes as transitions, a normalizer that knows them all, gradient steps, state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np
import pytest
import torch
from run_of_trainers import run_of

from rlcore import (
    Actions,
    BehaviorSettings,
    BehaviorSpec,
    ConfigError,
    ExtrinsicReward,
    ObservationSpec,
    Recording,
    RewardProvider,
    RunStateError,
    Transitions,
)
from rlcore_devkit.conformance.states import assert_equal, copied
from rlcore_torch import (
    ActionLayout,
    Actor,
    GradientStep,
    NetworkSettings,
    OfflineSettings,
    OfflineTrainer,
    Optimizer,
    TransitionBatch,
)
from rlcore_torch.off_policy.offline import recorded_transitions

BOUNDED = BehaviorSpec(
    "Agent",
    (ObservationSpec("seen", (3,), np.float32),),
    continuous=2,
    discrete=(2, 3),
    low=np.array([0.0, -np.inf], np.float32),
    high=np.array([4.0, np.inf], np.float32),
)


@pytest.fixture
def recording() -> Recording:
    """Three episodes of 3, 1 and 2 steps: terminated, truncated, terminated. All values are told apart."""
    masks = np.ones((9, 5), np.bool_)
    masks[[1, 4], [0, 3]] = False
    return Recording(
        BOUNDED,
        {"seen": np.arange(27, dtype=np.float32).reshape(9, 3)},
        Actions(
            np.array([[0, 1], [1, -3], [2, 0.5], [3, 2], [4, 0], [0.5, 9]], np.float32),
            np.array([[0, 0], [1, 1], [0, 2], [1, 0], [0, 1], [1, 2]]),
        ),
        np.arange(6, dtype=np.float32) + 10,
        np.array([0, 0, 1, 0, 0, 1], np.bool_),
        np.array([0, 0, 0, 1, 0, 0], np.bool_),
        np.array([3, 1, 2]),
        masks,
    )


# Each transition by hand: the row it begins at, the row it leads to, whether that was an end and of what kind.
TRANSITIONS = [(0, 1, ""), (1, 2, ""), (2, 3, "terminated"), (4, 5, "truncated"), (6, 7, ""), (7, 8, "terminated")]


class Watcher(OfflineTrainer):
    """Keeps the batches it is given; its loss moves every weight."""

    def build_model(self, value_heads: int) -> Actor:
        self.batches: list[TransitionBatch] = []
        return Actor(self.behavior, self.settings.network_settings)

    def build_optimizers(self) -> Mapping[str, Optimizer]:
        return {"policy": self.make_optimizer(self.model.parameters())}

    def gradient_step(self, batch: TransitionBatch) -> GradientStep:
        self.batches.append(batch)
        optimizer = self.optimizers["policy"]
        optimizer.zero_grad()
        (sum(parameter.sum() for parameter in optimizer.parameters) * batch.reward.mean()).backward()
        optimizer.step()
        return GradientStep({"Losses/Reward": batch.reward.mean()})


class Curious(ExtrinsicReward):
    """A reward that learns, or says it does."""

    def __init__(self) -> None:
        super().__init__(gamma=0.5, strength=2.0)
        self.shown: list[Transitions] = []

    def update(self, transitions: Transitions) -> Mapping[str, float]:
        self.shown.append(transitions)
        return {"Losses/Curious": float(len(self.shown))}


def watcher(
    recording: Recording | None,
    providers: list[RewardProvider] | None = None,
    normalize: bool = False,
    inference: bool = False,
    seed: int = 1,
    **hyperparameters: Any,
) -> Watcher:
    def read_recording(*given: str) -> Recording:
        assert recording is not None and given == ("somewhere", "Agent")
        return recording

    settings = BehaviorSettings(
        trainer_type="watcher",
        hyperparameters=OfflineSettings(**{"demo_path": "somewhere", "batch_size": 64, **hyperparameters}),
        network_settings=NetworkSettings(hidden_units=4, num_layers=1, normalize=normalize),
        reward_signals={f"reward {k}": None for k in range(len(providers or [0]))},
        max_steps=100,
    )
    run = run_of(
        *providers or [ExtrinsicReward(gamma=0.9)], seed=seed, inference=inference, read_recording=read_recording
    )
    return Watcher(settings, BOUNDED, run)


# ---------------------------------------------------------------- recorded episodes as transitions


def test_every_recorded_transition_is_stored_with_what_it_led_to(recording: Recording) -> None:
    buffer = recorded_transitions(recording, BOUNDED, ActionLayout(BOUNDED))
    assert len(buffer) == 6
    np.testing.assert_array_equal(np.flatnonzero(buffer.flags), [begins for begins, _, _ in TRANSITIONS])
    steps = buffer.transitions(np.array([begins for begins, _, _ in TRANSITIONS]))
    assert recording.actions.continuous is not None and recording.action_mask is not None
    assert steps.masks is not None and steps.next_masks is not None
    for n, (begins, leads, end) in enumerate(TRANSITIONS):
        np.testing.assert_array_equal(steps.observations["seen"][n], recording.observations["seen"][begins])
        np.testing.assert_array_equal(steps.next_observations["seen"][n], recording.observations["seen"][leads])
        bounded, free = recording.actions.continuous[n]
        np.testing.assert_allclose(steps.raw[n], [(bounded - 2) / 2, free])  # [0, 4] becomes [-1, 1]
        np.testing.assert_array_equal(steps.masks[n], recording.action_mask[begins])
        np.testing.assert_array_equal(steps.next_masks[n], recording.action_mask[leads])
        assert (steps.terminated[n], steps.truncated[n]) == (end == "terminated", end == "truncated")
    np.testing.assert_array_equal(steps.reward, recording.reward)
    np.testing.assert_array_equal(steps.choices, recording.actions.discrete)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"observations": (ObservationSpec("seen", (4,), np.float32),)}, r"observation 'seen' is \[3\] real numbers"),
        ({"low": np.array([1.0, -np.inf])}, r"the bound 'low' of actions is \[ +0. -inf\] instead of \[ +1. -inf\]"),
    ],
)
def test_a_recording_of_other_agents_is_refused(recording: Recording, change: dict[str, Any], told: str) -> None:
    behavior = attrs.evolve(BOUNDED, **change)
    with pytest.raises(ConfigError, match=rf"behavior 'Agent': in the recording, .*{told}"):
        recorded_transitions(recording, behavior, ActionLayout(behavior))


def test_a_recorded_choice_that_its_mask_forbids_is_refused(recording: Recording) -> None:
    assert recording.action_mask is not None
    recording.action_mask[6, 3] = False  # where the fifth transition begins, which chose option 1 of branch 1
    with pytest.raises(ConfigError, match="in 1 of 6 recorded steps, step 4 the first, an option was chosen that the"):
        recorded_transitions(recording, BOUNDED, ActionLayout(BOUNDED))


# ---------------------------------------------------------------- learning


def test_an_update_is_one_gradient_step_on_recorded_transitions(recording: Recording) -> None:
    trainer = watcher(recording)
    for done in range(1, 4):
        assert trainer.ready()
        stats = trainer.update()
        assert (trainer.steps, trainer.gradient_steps, len(trainer.batches)) == (done, done, done)
        assert stats["Losses/Reward"] == pytest.approx(float(trainer.batches[-1].reward.mean()))
    batch = trainer.batches[-1]
    for n in range(64):
        seen = int(batch.inputs[0][n, 0]) // 3
        index = [begins for begins, _, _ in TRANSITIONS].index(seen)
        _, leads, end = TRANSITIONS[index]
        assert int(batch.next_inputs[0][n, 0]) // 3 == leads
        assert float(batch.reward[n, 0]) == 10 + index
        # What terminated has no future; what was cut off has one, after the observation recorded last.
        assert float(batch.discount[n, 0]) == (0.0 if end == "terminated" else np.float32(0.9))


def test_the_normalizer_takes_every_recorded_observation_once_and_stays(recording: Recording) -> None:
    trainer = watcher(recording, normalize=True)
    seen = recording.observations["seen"].astype(np.float64)

    def expect() -> None:
        normalizer = trainer.model.inputs.normalizer
        assert normalizer is not None and float(normalizer.count) == len(seen)
        inputs = trainer.model.inputs((torch.from_numpy(recording.observations["seen"]),))[0]
        np.testing.assert_allclose(inputs.numpy(), (seen - seen.mean(0)) / seen.std(0), rtol=1e-3, atol=1e-3)

    expect()
    for _ in range(3):
        trainer.update()
    expect()


def test_rewards_that_learn_are_shown_recorded_transitions(recording: Recording) -> None:
    reward = Curious()
    trainer = watcher(recording, providers=[reward, ExtrinsicReward()])
    assert [trainer.update()["Losses/Curious"] for _ in range(3)] == [1.0, 2.0, 3.0]
    assert len(reward.shown) == 3 and all(len(each.reward) == 64 for each in reward.shown)
    assert trainer.batches[0].reward.shape == (64, 2)
    np.testing.assert_array_equal(trainer.batches[0].reward[:, 0], 2 * trainer.batches[0].reward[:, 1])


def test_the_learning_rate_follows_its_schedule(recording: Recording) -> None:
    trainer = watcher(recording, learning_rate=0.5, learning_rate_schedule="linear")
    rates = [trainer.update()["Policy/Learning Rate"] for _ in range(100)]
    np.testing.assert_allclose(rates, 0.5 * (1 - np.arange(100) / 100), rtol=1e-6)


# ---------------------------------------------------------------- no environment


def test_under_inference_the_recording_need_not_be_there(recording: Recording) -> None:
    learned = watcher(recording, normalize=True)
    learned.update()
    acting = watcher(None, normalize=True, inference=True, seed=9)
    acting.load_model(learned.state_dict()["model"])
    for row in ({"seen": recording.observations["seen"][k : k + 1]} for k in range(9)):
        ours = learned.policy.act(row)
        theirs = acting.policy.act(row)
        np.testing.assert_array_equal(ours.continuous, theirs.continuous)


# ---------------------------------------------------------------- state


def test_a_state_learned_from_other_data_is_refused(recording: Recording) -> None:
    trainer = watcher(recording)
    before = copied(trainer.state_dict())
    with pytest.raises(RunStateError, match="was learned from 7 recorded transitions, somewhere holds 6; resume with"):
        trainer.load_state_dict(trainer.state_dict() | {"transitions": 7})
    assert_equal(before, trainer.state_dict())
