# mypy: allow-untyped-calls, disable-error-code="union-attr,index,operator"
"""One gradient step against sums over the steps that an environment wrote down, and the target network."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from rlcore import Actions, BehaviorSpec, ObservationSpec
from rlcore_devkit.conformance.loop import learn
from rlcore_devkit.environments import ArrayEnvironment
from rlcore_dqn.trainer import DQNTrainer, joint_error

MakeTrainer = Callable[..., DQNTrainer]
Array = NDArray[Any]

SLOTS = 3
GAMMA = 0.9


@attrs.frozen
class Step:
    """A step of one agent, as the environment saw it."""

    choices: Array
    reward: float
    after: tuple[int, int]  # the place at which the step arrived
    terminated: bool
    truncated: bool


class WrittenDown(ArrayEnvironment):
    """Random rewards and ends. No observation comes twice: it is (environment, number), a *place*, in disguise."""

    def __init__(self, discrete: tuple[int, ...], masked: bool) -> None:
        self.masked = masked
        self.options = sum(discrete)
        self.place = np.zeros((SLOTS, 2), np.int64)
        self.place[:, 0] = np.arange(SLOTS)
        self.table = np.random.default_rng(5).standard_normal((SLOTS, 500, 4)).astype(np.float32)
        self.allowed = np.random.default_rng(6).random((SLOTS, 500, self.options)) < 0.6
        self.allowed[:, :, np.cumsum((0, *discrete))[:-1]] = True  # of each branch, the first option always is
        self.steps: dict[tuple[int, int], Step] = {}
        self.random = np.random.default_rng(7)
        seen = ObservationSpec("seen", (4,), np.float32)
        super().__init__(
            BehaviorSpec("Agent", (seen,), discrete=discrete, env_index=np.arange(SLOTS)),
            max_steps=7,
        )

    def begin(self, env: int, generator: np.random.Generator) -> None:
        self.place[env, 1] += 1

    def advance(self, actions: Actions) -> tuple[Array, Array]:
        reward = self.random.standard_normal(SLOTS).astype(np.float32)
        terminated = self.random.random(SLOTS) < 0.15
        before = [(int(env), int(number)) for env, number in self.place]
        self.place[:, 1] += 1
        for env, place in enumerate(before):
            truncated = bool(self._steps[env] + 1 >= 7 and not terminated[env])
            after = (place[0], place[1] + 1)
            choices = actions.discrete[env].copy()
            self.steps[place] = Step(choices, float(reward[env]), after, bool(terminated[env]), truncated)
        return reward, terminated

    def observe(self) -> dict[str, Array]:
        return {"seen": self.table[self.place[:, 0], self.place[:, 1]]}

    def action_mask(self) -> NDArray[np.bool_] | None:
        return self.allowed[self.place[:, 0], self.place[:, 1]] if self.masked else None

    def place_of(self, seen: Array) -> tuple[int, int]:
        [[env, number]] = np.argwhere((self.table == seen).all(-1)).tolist()
        return env, number


def values(trainer: DQNTrainer, environment: WrittenDown, place: tuple[int, int], target: bool) -> list[Array]:
    """The values of each branch's options by one of the two networks, layer by layer."""
    model = trainer.model
    body, head = (model.target_actor, model.target_head) if target else (model.actor, model.policy_head)
    x = torch.from_numpy(environment.table[place]).double()
    for layer in body.layers:
        x = torch.relu(layer.weight.double() @ x + layer.bias.double())
    x = head.linear.weight.double() @ x + head.linear.bias.double()
    return [branch.detach().numpy() for branch in torch.split(x, [*trainer.behavior.discrete])]


def targets(
    trainer: DQNTrainer, environment: WrittenDown, place: tuple[int, int], n_steps: int, double: bool
) -> tuple[float, int]:
    """Reward + discount * value of the best allowed options, step by step, and the steps that were summed."""
    total = 0.0
    steps = 0
    while True:
        step = environment.steps[place]
        total += GAMMA**steps * step.reward
        steps += 1
        place = step.after
        if step.terminated:
            return total, steps
        if step.truncated or steps == n_steps or place not in environment.steps:
            break
    judged = values(trainer, environment, place, target=not double)
    valued = values(trainer, environment, place, target=True)
    found = []
    first = 0
    for judging, valuing in zip(judged, valued, strict=True):
        allowed = environment.allowed[place][first : first + len(judging)] | (not environment.masked)
        found.append(valuing[max(np.flatnonzero(allowed), key=lambda option: judging[option])])
        first += len(judging)
    return total + GAMMA**steps * float(np.mean(found)), steps


@pytest.mark.parametrize("double", [True, False])
@pytest.mark.parametrize(("n_steps", "discrete", "masked"), [(1, (3,), False), (3, (4,), True), (3, (2, 3), True)])
def test_errors_are_those_of_sums_over_the_steps_that_were_taken(
    make_trainer: MakeTrainer, n_steps: int, discrete: tuple[int, ...], masked: bool, double: bool
) -> None:
    environment = WrittenDown(discrete, masked)
    trainer = make_trainer(
        environment, block={"reward_signals": {"extrinsic": {"gamma": GAMMA}}}, network={"activation": "relu"},
        n_steps=n_steps, double=double, buffer_init_steps=10**6,
    )  # fmt: skip
    learn(trainer, environment, 60)
    with torch.no_grad():  # networks that judge differently
        for parameter in (*trainer.model.online_parameters(), *trainer.model.target_parameters()):
            parameter.normal_(0, 0.5)
    rows = np.flatnonzero(trainer.buffer.flags)
    assert len(rows) == 60 * SLOTS
    places = [environment.place_of(seen) for seen in trainer.buffer.view(rows).observations["seen"]]
    expected = []
    counts = []
    for place in places:
        target, count = targets(trainer, environment, place, n_steps, double)
        own = values(trainer, environment, place, target=False)
        chosen = [branch[k] for branch, k in zip(own, environment.steps[place].choices, strict=True)]
        expected.append(sum(abs(value - target) for value in chosen))
        counts.append(count)
    assert set(counts) == set(range(1, n_steps + 1))
    step = trainer.gradient_step(trainer.reader.read(rows, np.ones(len(rows), np.float32)))
    np.testing.assert_allclose(step.td_error.numpy(), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("distributional", [None, "quantile", "c51"])
def test_errors_of_branches_that_cancel_are_added_up(make_trainer: MakeTrainer, distributional: str | None) -> None:
    """Branches that are wrong by +100 and -100 have an error of 200; c51 has a divergence for each."""
    trainer = make_trainer(
        WrittenDown((2, 3), masked=False),
        distributional=distributional,
        num_quantiles=5,
        num_atoms=301,
        v_min=-150.0,
        v_max=150.0,
    )
    atoms = torch.arange(-150.0, 151.0)
    numbers = {None: torch.zeros(1), "quantile": torch.zeros(5), "c51": atoms}[distributional]

    def of(value: float) -> torch.Tensor:
        return -0.5 * (numbers - value).square() if distributional == "c51" else numbers + value

    q = torch.stack([of(100.0), of(-100.0)])[None, None]  # [B, R, D, K]
    following = of(0.0).softmax(-1) if distributional == "c51" else of(0.0)
    _, error = trainer.losses(q, torch.zeros(1, 1), torch.ones(1, 1), following[None, None])
    # The divergence of two Gaussians of deviation 1 is half the square of their distance.
    expected = 2 * 0.5 * 100.0**2 if distributional == "c51" else 200.0
    assert joint_error(error).tolist() == [pytest.approx(expected, rel=1e-4)]


def collected(make_trainer: MakeTrainer, **hyperparameters: Any) -> tuple[DQNTrainer, Array]:
    """A trainer that has learnt nothing, and the rows of its buffer."""
    environment = WrittenDown((3,), masked=False)
    trainer = make_trainer(environment, buffer_init_steps=10**6, **hyperparameters)
    learn(trainer, environment, 20)
    return trainer, np.flatnonzero(trainer.buffer.flags)


@pytest.mark.parametrize(
    ("settings", "loss"),
    [
        ({"loss": "squared"}, lambda error: error**2),
        ({}, lambda error: np.where(np.abs(error) < 1.0, 0.5 * error**2, np.abs(error) - 0.5)),
        (
            {"huber_delta": 0.1},
            lambda error: np.where(np.abs(error) < 0.1, 0.5 * error**2, 0.1 * (np.abs(error) - 0.05)),
        ),
    ],
    ids=["squared", "huber", "huber-0.1"],
)
def test_importance_weights_multiply_the_losses(make_trainer: MakeTrainer, settings: Any, loss: Any) -> None:
    trainer, rows = collected(make_trainer, **settings)
    weight = np.linspace(0.1, 1.0, len(rows), dtype=np.float32)
    step = trainer.gradient_step(trainer.reader.read(rows, weight))
    assert step.td_error is not None and (np.abs(step.td_error.numpy()) > 1.0).any()
    expected = (weight * loss(np.abs(step.td_error.numpy().astype(np.float64)))).mean()
    assert step.stats["Losses/Q Loss"].item() == pytest.approx(expected, rel=1e-5)


def test_a_transition_of_weight_zero_moves_nothing(make_trainer: MakeTrainer) -> None:
    moved = []
    for rows in ([0, 1], [0, 2]):
        trainer, _ = collected(make_trainer, max_grad_norm=None)
        trainer.gradient_step(trainer.reader.read(np.array(rows), np.array([1, 0], np.float32)))
        moved.append([parameter.detach().clone() for parameter in trainer.model.online_parameters()])
    for one, other in zip(*moved, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)


@pytest.mark.parametrize("limit", [0.01, None])
def test_the_gradient_is_as_long_as_max_grad_norm_at_most(make_trainer: MakeTrainer, limit: float | None) -> None:
    trainer, rows = collected(make_trainer, max_grad_norm=limit)
    trainer.gradient_step(trainer.reader.read(rows))
    norm = torch.cat([parameter.grad.flatten() for parameter in trainer.model.online_parameters()]).norm().item()
    assert norm == pytest.approx(0.01, rel=1e-3) if limit else norm > 0.02


def distances(trainer: DQNTrainer) -> float:
    pairs = zip(trainer.model.target_parameters(), trainer.model.online_parameters(), strict=True)
    return max((target - online).abs().max().item() for target, online in pairs)


def test_the_target_network_is_copied_after_every_third_gradient_step(make_trainer: MakeTrainer) -> None:
    trainer, rows = collected(make_trainer, target_update_interval=3)
    equal = []
    for done in range(7):
        trainer.gradient_steps = done
        trainer.gradient_step(trainer.reader.read(rows))
        equal.append(distances(trainer) == 0.0)
    assert equal == [False, False, True, False, False, True, False]


def test_a_soft_target_moves_its_share_of_the_way_in_every_gradient_step(make_trainer: MakeTrainer) -> None:
    trainer, rows = collected(make_trainer, tau=0.25)
    before = [parameter.detach().clone() for parameter in trainer.model.target_parameters()]
    trainer.gradient_step(trainer.reader.read(rows))
    model = trainer.model
    for old, target, online in zip(before, model.target_parameters(), model.online_parameters(), strict=True):
        torch.testing.assert_close(target.detach(), 0.75 * old + 0.25 * online.detach())
