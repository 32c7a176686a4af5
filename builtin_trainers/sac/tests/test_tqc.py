"""TQC's target, loss and policy against plain loops; SAC's tests have the rest of a gradient step."""

# mypy: allow-untyped-calls
from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from off_policy_updates import far_from_start, random_batch

from rlcore import SettingError, config_from_mapping, load_plugins
from rlcore_devkit.environments import IdentityEnvironment
from rlcore_devkit.trainings import SmallTrainings
from rlcore_sac.settings import TQCSettings
from rlcore_sac.tqc import TQCTrainer

Array = NDArray[np.float64]

CRITICS = 3
QUANTILES = 5
MakeTrainer = Callable[..., TQCTrainer]


@pytest.fixture
def make_trainer(tmp_path: Path) -> MakeTrainer:
    """See :meth:`rlcore_devkit.trainings.SmallTrainings.trainer`."""
    settings = {"batch_size": 16, "buffer_size": 256, "learning_rate": 3e-3}
    return SmallTrainings("tqc", tmp_path, settings, {"hidden_units": 16, "num_layers": 1}).trainer  # type: ignore[return-value]


def made(make_trainer: MakeTrainer, rewards: int = 1, **hyperparameters: Any) -> TQCTrainer:
    settings = {"num_critics": CRITICS, "num_quantiles": QUANTILES, "init_entcoef": 0.3, **hyperparameters}
    return far_from_start(make_trainer, IdentityEnvironment(2, continuous=2), rewards, **settings)


def quantiles_of(trainer: TQCTrainer, critics: Any, inputs: Any, action: Any) -> Array:
    """[N, B, R, M], critic by critic."""
    rows = len(inputs[0])
    with torch.no_grad():
        outputs = [critic(inputs, action).double().numpy() for critic in critics]
    return np.array(outputs).reshape(len(outputs), rows, len(trainer.providers), QUANTILES)


def targets_of(trainer: TQCTrainer, batch: Any, noise: Any) -> list[list[list[float]]]:
    """The numbers of each row and reward, one by one."""
    model = trainer.model
    count = len(trainer.providers)
    kept = CRITICS * (QUANTILES - trainer.hyperparameters.dropped_quantiles)
    with torch.no_grad():
        temperature = float(model.log_temperature.exp())
        drawn = model.draw(batch.next_inputs, None, noise.next)
        drawn_after = drawn if batch.after_ends is None else model.draw(batch.after_ends.inputs, None, noise.next)
    targets = []
    for row in range(len(batch.reward)):
        of_row = []
        for reward in range(count):
            draw, inputs = drawn, batch.next_inputs
            if batch.after_ends is not None and batch.after_ends.ignores_done[reward]:
                draw, inputs = drawn_after, batch.after_ends.inputs
            predicted = quantiles_of(trainer, model.targets, inputs, draw.action)[:, row, reward]
            smallest = sorted(predicted.ravel().tolist())[:kept]
            bonus = -temperature * float(draw.log_prob[row]) / count
            discount = float(batch.discount[row, reward])
            of_row.append([float(batch.reward[row, reward]) + discount * (each + bonus) for each in smallest])
        targets.append(of_row)
    return targets


@pytest.mark.parametrize("rewards", [1, 2])
@pytest.mark.parametrize("dropped", [0, 2, 4])
def test_targets_are_the_smallest_quantiles_of_all_critics_together(
    make_trainer: MakeTrainer, dropped: int, rewards: int
) -> None:
    trainer = made(make_trainer, rewards, dropped_quantiles=dropped)
    batch = random_batch(trainer, False, 3)
    noise = trainer.step_noise(batch)
    found = trainer.target(batch, noise.next, None)
    assert found.shape == (len(batch.reward), rewards, CRITICS * (QUANTILES - dropped))
    np.testing.assert_allclose(found, targets_of(trainer, batch, noise), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_loss_is_that_of_quantile_regression_a_mean_over_all(make_trainer: MakeTrainer, weighted: bool) -> None:
    """Each pair of a quantile and a number of the target by itself."""
    trainer = made(make_trainer, 2)
    batch = random_batch(trainer, weighted, 4)
    noise = trainer.step_noise(batch)
    found = trainer.critic_loss(batch, noise)
    quantiles = quantiles_of(trainer, trainer.model.critics, batch.inputs, batch.raw)
    targets = np.array(targets_of(trainer, batch, noise))  # [B, R, J]
    losses = np.zeros((CRITICS, len(batch.reward), 2))
    for index in np.ndindex(losses.shape):
        critic, row, reward = index
        terms = []
        for m in range(QUANTILES):
            for sample in targets[row, reward]:
                error = sample - quantiles[critic, row, reward, m]
                huber = 0.5 * error**2 if abs(error) <= 1 else abs(error) - 0.5
                terms.append(abs((m + 0.5) / QUANTILES - (error < 0)) * huber)
        losses[index] = np.mean(terms)
    weight = np.ones(len(batch.reward)) if batch.weight is None else batch.weight.double().numpy()
    assert found.total.item() == pytest.approx((weight * losses.mean((0, 2))).mean(), rel=1e-4)
    np.testing.assert_allclose([float(loss) for loss in found.q_losses], losses.mean((1, 2)), rtol=1e-4)
    if weighted:
        assert found.td_error is not None
        error = np.abs((quantiles.mean((0, 3)) - targets.mean(2)).sum(1))
        np.testing.assert_allclose(found.td_error, error, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("value", ["mean", "min"])
def test_the_policy_maximizes_all_quantiles_and_its_entropy(make_trainer: MakeTrainer, value: str) -> None:
    trainer = made(make_trainer, dropped_quantiles=4, policy_value=value)
    batch = random_batch(trainer, False, 5)
    noise = trainer.step_noise(batch)
    drawn, loss = trainer.policy_loss(batch, noise.here)
    assert drawn.action is not None and drawn.log_prob is not None
    of_critics = quantiles_of(trainer, trainer.model.critics, batch.inputs, drawn.action).mean((2, 3))  # [N, B]
    chosen = of_critics.mean(0) if value == "mean" else of_critics.min(0)
    temperature = trainer.model.log_temperature.exp().item()
    expected = temperature * drawn.log_prob.detach().double().numpy() - chosen
    assert loss.item() == pytest.approx(expected.mean(), rel=1e-4)


def test_a_gradient_step_moves_every_part_and_the_targets_follow(make_trainer: MakeTrainer) -> None:
    trainer = made(make_trainer, tau=0.25)
    before = {name: tensor.clone() for name, tensor in trainer.model.state_dict().items()}
    trainer.gradient_step(random_batch(trainer, False, 6))
    after = trainer.model.state_dict()
    for name, value in after.items():
        assert not value.equal(before[name]), name
        if name.startswith("targets."):
            critic = after[name.replace("targets.", "critics.")]
            torch.testing.assert_close(value, 0.75 * before[name] + 0.25 * critic)


def test_too_many_dropped_quantiles_are_refused() -> None:
    with pytest.raises(SettingError, match=r"dropped_quantiles: must be below num_quantiles \(5\), not 5"):
        TQCSettings(num_quantiles=5, dropped_quantiles=5)


def test_drawn_critics_are_refused() -> None:
    with pytest.raises(SettingError, match=r"target_critics: is not for tqc, whose targets pool the quantiles of all"):
        TQCSettings(target_critics=2)


@pytest.mark.parametrize(("preset", "critics", "widths"), [("tqc", 2, (256, 256)), ("tqc-paper", 5, (512, 512, 512))])
def test_presets_have_narrow_critics_and_those_of_the_paper(preset: str, critics: int, widths: tuple[int, ...]) -> None:
    config = config_from_mapping({"preset": preset, "behaviors": {"Walker": {}}}, load_plugins())
    behavior = config.behaviors["Walker"]
    h = behavior.hyperparameters
    assert (behavior.trainer_type, h.num_critics, h.num_quantiles, h.dropped_quantiles) == ("tqc", critics, 25, 2)
    assert behavior.network_settings.widths == (256, 256)
    assert behavior.network_settings.of_critic.widths == widths
