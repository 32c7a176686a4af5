# mypy: allow-untyped-calls
"""Imitation with distributions of continuous actions other than the default."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch.distributions import Normal, TanhTransform, TransformedDistribution

from rlcore import Recording
from rlcore_devkit.conformance.recordings import record
from rlcore_devkit.environments import identity_continuous, identity_hybrid

MakeTrainer = Callable[..., Any]


def with_distribution(name: str) -> dict[str, Any]:
    return {"network_settings": {"hidden_units": 32, "num_layers": 1, "action_distribution": name}}


def noisy() -> Recording:
    """Actions around 0, with a deviation of 0.6 where the first observed number is positive, and 0.1 elsewhere."""
    recording = record(identity_continuous(4, "Agent"), 500)
    [seen] = recording.observations.values()
    actions = recording.actions.continuous
    assert actions is not None
    deviation = np.where(seen[recording.rows][:, :1] > 0, 0.6, 0.1)
    actions[:] = deviation * np.random.default_rng(1).standard_normal(actions.shape)
    return recording


@pytest.mark.parametrize("name", ["bc", pytest.param("iql", marks=pytest.mark.learning)])
def test_a_state_dependent_deviation_is_learned_where_it_differs(make_trainer: MakeTrainer, name: str) -> None:
    recording = noisy()
    trainer = make_trainer(name, recording, learning_rate=0.01, block=with_distribution("state_dependent_gaussian"))
    for _ in range(400):
        trainer.update()
    [(key, seen)] = recording.observations.items()
    for side, deviation in ((1.0, 0.6), (-1.0, 0.1)):
        given = np.full((4000, seen.shape[1]), 0.5, np.float32)
        given[:, 0] = side * 0.7
        parameters = trainer.policy.parameters({key: given}, None)
        noise = np.random.default_rng(2).standard_normal((4000, trainer.policy.layout.continuous), np.float32)
        draws, _ = trainer.policy.choose(parameters, (noise, noise))
        assert draws.std(0) == pytest.approx(deviation, rel=0.4)


@pytest.mark.parametrize("name", ["bc", "iql"])
def test_the_squashed_gaussian_has_the_likelihood_of_its_definition(make_trainer: MakeTrainer, name: str) -> None:
    trainer = make_trainer(name, record(identity_hybrid(2, "Agent"), 60), block=with_distribution("squashed_gaussian"))
    rows = np.arange(len(trainer.buffer.raw))[trainer.buffer.flags > 0]
    batch = trainer.reader.actions(rows)
    inside = (batch.raw.abs() < 0.99).all(1)
    with torch.no_grad():
        columns, _ = trainer.model.policy(batch.inputs)
        found = trainer.model.policy_head.distribution.log_prob(columns, batch.raw)
        mean, log_std = columns.chunk(2, dim=1)
        theirs = TransformedDistribution(Normal(mean, log_std.exp()), [TanhTransform()]).log_prob(batch.raw).sum(1)
    assert inside.sum() > 20
    torch.testing.assert_close(found[inside], theirs[inside], rtol=1e-3, atol=1e-3)
    assert np.isfinite([trainer.update()["Losses/Policy Loss"] for _ in range(50)]).all()
