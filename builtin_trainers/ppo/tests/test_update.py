"""One update: what the loss is given, in which order, and what moves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from rlcore import AgentBatch, Run
from rlcore_devkit.conformance.loop import first_batch, learn, play
from rlcore_devkit.conformance.states import assert_equal, copied
from rlcore_devkit.environments import IdentityEnvironment, TinyCorridor, identity_hybrid
from rlcore_ppo.by_hand import GRADIENTS
from rlcore_ppo.settings import PPOSettings
from rlcore_ppo.trainer import PPOTrainer
from rlcore_torch import Loss, Minibatch

MakeTrainer = Callable[..., PPOTrainer]
MakeRun = Callable[..., Run]


@pytest.fixture
def losses(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Minibatch, Loss]]:
    """Every minibatch and its loss, as the trainer computes it."""
    seen: list[tuple[Minibatch, Loss]] = []
    compute = PPOTrainer.loss

    def loss(self: PPOTrainer, batch: Minibatch) -> Loss:
        found = compute(self, batch)
        seen.append((batch, found))
        return found

    assert PPOTrainer.loss in GRADIENTS.methods  # those of the class as it is written
    monkeypatch.setattr(PPOTrainer, "loss", loss)
    return seen


class Scaled(IdentityEnvironment):
    """Observations in another unit, and with another zero."""

    scale = 1.0
    offset = 0.0

    def observe(self) -> dict[str, Any]:
        seen = super().observe()
        return {**seen, "reals": seen["reals"] * np.float32(self.scale) + np.float32(self.offset)}


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_the_first_ratio_of_every_update_is_one(
    make_trainer: MakeTrainer, losses: list[tuple[Minibatch, Loss]], masked: bool, normalize: bool
) -> None:
    """Observations are far beyond the normalizer's limit; the ReLUs would show a difference of the inputs."""
    environment: Any = TinyCorridor(8, masked=True) if masked else Scaled(8, continuous=2, discrete=(3,))
    if normalize:
        environment.scale, environment.offset = 1000.0, 300.0
    trainer = make_trainer(environment, network={"normalize": normalize, "activation": "relu"}, num_epoch=3)
    updates = learn(trainer, environment, 4 * 32)
    assert len(updates) == 4 and len(losses) == 4 * 3 * 4
    # While the first rollout is collected, each step is normalized by the statistics of the steps before it.
    for first in range(12 if normalize else 0, len(losses), 12):
        ratio = losses[first][1].log_ratio.detach().exp().numpy()
        np.testing.assert_allclose(ratio, 1.0, atol=2e-5)
        assert np.abs(losses[first + 1][1].log_ratio.detach().numpy()).max() > 1e-4, "the weights moved"


def test_every_epoch_visits_every_transition_once_in_another_order(
    make_trainer: MakeTrainer, losses: list[tuple[Minibatch, Loss]]
) -> None:
    environment = identity_hybrid(8)
    learn(make_trainer(environment, num_epoch=3, batch_size=60), environment, 32)
    sizes = [len(batch.advantage) for batch, _ in losses]
    assert sizes == [64] * 12, "equal parts of about 60"
    epochs = [torch.cat([batch.raw for batch, _ in losses[k : k + 4] if batch.raw is not None]) for k in (0, 4, 8)]
    ordered = [sorted(map(tuple, epoch.tolist())) for epoch in epochs]
    assert ordered[0] == ordered[1] == ordered[2] and len(set(ordered[0])) == 256
    assert not epochs[0].equal(epochs[1]) and not epochs[1].equal(epochs[2])


@pytest.mark.parametrize("normalization", ["rollout", "minibatch", "none"])
def test_advantages_are_standardized_as_chosen(
    make_trainer: MakeTrainer, losses: list[tuple[Minibatch, Loss]], normalization: str
) -> None:
    environment = identity_hybrid(8)
    learn(make_trainer(environment, advantage_normalization=normalization, num_epoch=1), environment, 32)
    parts = [batch.advantage for batch, _ in losses]

    def standard(advantages: torch.Tensor) -> bool:
        return abs(advantages.mean().item()) < 1e-5 and abs(advantages.std(correction=0).item() - 1) < 1e-4

    assert standard(torch.cat(parts)) == (normalization != "none")
    assert all(standard(part) for part in parts) == (normalization == "minibatch")


def test_linear_schedules_follow_the_step_and_end_where_ml_agents_ends_them(make_trainer: MakeTrainer) -> None:
    environment = identity_hybrid(8)
    linear = {"learning_rate_schedule": "linear", "learning_rate": 1e-3, "beta": 0.01, "epsilon": 0.3}
    trainer = make_trainer(environment, block={"max_steps": 1024}, **linear)
    read = trainer.clip_range, trainer.entropy_weight  # the tensors that a recorded step reads
    steps = play(trainer, environment, 5 * 32)
    updates = [(stats, trainer.optimizer.learning_rate) for _, _, stats, _ in steps if stats]
    for k, (stats, learning_rate) in enumerate(updates):
        left = 1 - 256 * k / 1024  # at the step where the rollout began
        assert stats["Policy/Learning Rate"] == pytest.approx(1e-10 + (1e-3 - 1e-10) * left)
        assert stats["Policy/Beta"] == pytest.approx(1e-5 + (0.01 - 1e-5) * left)
        assert stats["Policy/Epsilon"] == pytest.approx(0.1 + 0.2 * left)
        assert learning_rate == stats["Policy/Learning Rate"]
    assert [each.item() for each in read] == [pytest.approx(0.1), pytest.approx(1e-5)]


def test_schedules_of_beta_and_epsilon_follow_that_of_the_learning_rate_unless_given() -> None:
    followed = PPOSettings(learning_rate_schedule="constant")
    assert (followed.beta_schedule, followed.epsilon_schedule) == ("constant", "constant")
    own = PPOSettings(learning_rate_schedule="constant", beta_schedule="linear")
    assert (own.beta_schedule, own.epsilon_schedule) == ("linear", "constant")


def test_an_update_stops_before_the_minibatch_that_passes_the_target_kl(
    make_trainer: MakeTrainer, losses: list[tuple[Minibatch, Loss]]
) -> None:
    """The weights are those of an update without a target that has no more minibatches."""
    settings = {"learning_rate": 3e-3, "batch_size": 64}
    environment = identity_hybrid(8)
    trainer = make_trainer(environment, num_epoch=6, target_kl=0.01, **settings)
    [stats] = learn(trainer, environment, 32)
    kl = [float((found.log_ratio.exp() - 1 - found.log_ratio).detach().mean()) for _, found in losses]
    assert 4 < len(kl) < 24 and len(kl) % 4 != 1, "neither at once nor never, and within a pass"
    assert all(value <= 0.015 for value in kl[:-1]) and kl[-1] > 0.015
    assert all(np.isfinite(value) for value in stats.values())
    ratio = torch.cat([found.log_ratio.detach() for _, found in losses]).exp()
    clipped = [each.double().mean().item() for each in (ratio < 0.8, ratio > 1.2)]
    assert min(clipped) > 0 and stats["Policy/Clip Fraction"] == pytest.approx(sum(clipped), abs=1e-6)
    for tag, part in (("Losses/Policy Loss", "policy"), ("Losses/Value Loss", "value"), ("Policy/Entropy", "entropy")):
        assert stats[tag] == pytest.approx(np.mean([getattr(found, part).item() for _, found in losses]), rel=1e-5)
    plain = make_trainer(environment, num_epoch=6, **settings)
    steps = 0
    step = plain.optimizer.step

    def until() -> None:
        nonlocal steps
        steps += 1
        if steps < len(kl):
            step()

    plain.optimizer.step = until  # type: ignore[method-assign]
    learn(plain, identity_hybrid(8), 32)
    assert steps == 24
    assert_equal(trainer.state_dict()["model"], plain.state_dict()["model"])


def test_the_gradient_that_moves_the_weights_is_clipped(make_trainer: MakeTrainer) -> None:
    environment = identity_hybrid(8)
    trainer = make_trainer(environment, max_grad_norm=0.01)
    norms: list[float] = []
    step = trainer.optimizer.step

    def recording() -> None:
        norms.append(torch.cat([p.grad.reshape(-1) for p in trainer.model.parameters()]).norm().item())
        step()

    trainer.optimizer.step = recording  # type: ignore[method-assign]
    [stats] = learn(trainer, environment, 32)
    assert len(norms) == 12
    np.testing.assert_allclose(norms, 0.01, rtol=1e-3)
    assert stats["Losses/Gradient Norm"] > 0.01, "reported as it was before"


def test_the_normalizer_has_seen_every_transition_once(make_trainer: MakeTrainer) -> None:
    """Step by step in the first rollout, which begins the statistics, and at the updates of the later ones."""
    environment = IdentityEnvironment(8, continuous=2)
    trainer = make_trainer(environment, network={"normalize": True})
    seen: list[NDArray[np.float32]] = []
    act = trainer.act
    update = trainer.update
    updates = 0

    def acting(batch: AgentBatch) -> Any:
        seen.append(batch.observations["reals"].copy())
        known = seen if updates == 0 else seen[: 32 * updates]
        check(np.concatenate(known))
        return act(batch)

    def updating() -> Any:
        nonlocal updates
        updates += 1
        return update()

    def check(rows: NDArray[np.float32]) -> None:
        everything = rows.astype(np.float64)
        normalizer = trainer.model.inputs.normalizer
        assert normalizer is not None and len(everything) == normalizer.count
        np.testing.assert_allclose(normalizer.mean.numpy(), everything.mean(0), atol=1e-9)
        np.testing.assert_allclose(normalizer.m2.numpy() / len(everything), everything.var(0), atol=1e-9)

    trainer.act, trainer.update = acting, updating  # type: ignore[method-assign]
    learn(trainer, environment, 3 * 32)
    assert updates == 3
    check(np.concatenate(seen))


def test_a_resume_in_the_first_rollout_continues_its_statistics(make_trainer: MakeTrainer) -> None:
    environment = IdentityEnvironment(8, continuous=2)
    trainer, resumed = (make_trainer(environment, network={"normalize": True}) for _ in range(2))
    [name] = environment.behaviors
    batch = first_batch(environment)
    trainer.begin(batch)
    both = [trainer]
    for step in range(40):  # a rollout has 32
        if step == 10:
            resumed.load_state_dict(copied(trainer.state_dict()))
            both.append(resumed)
        actions = [each.act(batch) for each in both]
        np.testing.assert_array_equal(actions[-1].continuous, actions[0].continuous)
        batch = environment.step({name: actions[0]})[name]
        for each in both:
            each.observe(actions[0], batch)
            if each.ready():
                each.update()
    assert_equal(resumed.state_dict(), trainer.state_dict())


@pytest.mark.parametrize(
    ("max_steps", "rollouts", "left"),
    [(112, [32, 32, 32, 16], 0), (100, [32, 32, 32], 8), (96, [32, 32, 32], 0), (60, [32, 32], 0)],
)
def test_the_last_rollout_is_learned_from_although_it_is_short_unless_it_is_shorter_than_a_minibatch(
    make_run: MakeRun, losses: list[tuple[Minibatch, Loss]], max_steps: int, rollouts: list[int], left: int
) -> None:
    """8 agents: 100 steps end at 104, and 60 at 64. Minibatches of 16 rows."""
    hyperparameters = {"batch_size": 16, "buffer_size": 32, "num_epoch": 1}
    with make_run("identity_hybrid", num_envs=8, hyperparameters=hyperparameters, max_steps=max_steps) as run:
        run.train()
        assert run.steps == sum(rollouts) + left
    assert [len(batch.advantage) for batch, _ in losses] == [16] * (sum(rollouts) // 16)
