"""Batch normalization: statistics of the rows where a call asks for them, running ones in every other call."""

# mypy: allow-untyped-calls
from __future__ import annotations

import copy
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from rlcore import ConfigError, PluginError
from rlcore_torch import BatchNorm, BatchRenorm, TorchTrainer
from rlcore_torch.networks.layers import frozen_call

ROWS = 3.0 + 2.0 * torch.randn(50, 16, 4, generator=torch.Generator().manual_seed(1))  # 50 minibatches
ROWS[..., 3] = 7.0  # a feature that never changes


def changed(layer: BatchNorm) -> BatchNorm:
    """The layer with other factors and shifts than 1 and 0."""
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([0.5, 2.0, -1.0, 1.0]))
        layer.bias.copy_(torch.tensor([1.0, 0.0, 3.0, -1.0]))
    return layer


def test_a_minibatch_is_normalized_by_its_own_rows_with_pytorchs_gradients() -> None:
    layer = changed(BatchNorm(4))
    theirs = nn.BatchNorm1d(4, eps=1e-3)
    theirs.weight.data.copy_(layer.weight)
    theirs.bias.data.copy_(layer.bias)
    of_results = torch.randn(16, 4, generator=torch.Generator().manual_seed(2))
    gradients = []
    for module, arguments in ((layer, (True,)), (theirs, ())):
        x = ROWS[0].clone().requires_grad_()
        y = module(x, *arguments)
        y.backward(of_results)
        gradients.append((y.detach(), x.grad, module.weight.grad, module.bias.grad))
    for ours, expected in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, expected)


@pytest.mark.parametrize("kind", [BatchNorm, BatchRenorm])
@pytest.mark.parametrize("records", [True, False])
def test_running_statistics_are_flax_averages_of_mean_and_biased_variance(kind: Any, records: bool) -> None:
    layer = kind(4, momentum=0.1)
    mean = np.zeros(4)
    var = np.ones(4)
    for rows in ROWS:
        x = rows.double().numpy()
        mean = 0.9 * mean + 0.1 * x.mean(0)
        var = 0.9 * var + 0.1 * x.var(0)
        with torch.set_grad_enabled(records):
            layer(rows, batch_statistics=True)
    np.testing.assert_allclose(layer.running_mean, mean, rtol=1e-5)
    np.testing.assert_allclose(layer.running_var, var, rtol=1e-4, atol=1e-7)
    assert not layer.running_mean.requires_grad


@pytest.mark.parametrize("kind", [BatchNorm, BatchRenorm])
def test_every_other_call_uses_the_running_ones_and_changes_nothing(kind: Any) -> None:
    layer = changed(kind(4, momentum=0.1))
    for rows in ROWS:
        layer(rows, batch_statistics=True)
    before = copy.deepcopy(layer.state_dict())
    layer.train()
    together = layer(ROWS[7])
    x = ROWS[7].double()
    mean = before["running_mean"].double()
    std = (before["running_var"].double() + 1e-3).sqrt()
    expected = (x - mean) / std * layer.weight + layer.bias
    torch.testing.assert_close(together.double(), expected, rtol=1e-5, atol=1e-5)
    alone = torch.cat([layer(row[None]) for row in ROWS[7]])
    assert torch.equal(together, alone)
    torch.testing.assert_close(frozen_call(layer, ROWS[7]), together, rtol=0, atol=0)
    assert all(torch.equal(value, before[name]) for name, value in layer.state_dict().items())
    factor, shift = layer.factor_and_shift()
    torch.testing.assert_close((ROWS[7] - layer.running_mean) * factor + shift, together)


def renormalized(x: Any, mean: Any, var: Any) -> Any:
    """Ioffe 2017, algorithm 1, with CrossQ's limits, in float64."""
    std = np.sqrt(x.var(0) + 1e-3)
    running_std = np.sqrt(var + 1e-3)
    r = np.clip(std / running_std, 1 / 3, 3)
    d = np.clip((x.mean(0) - mean) / running_std, -5, 5)
    return (x - x.mean(0)) / std * r + d


def test_renorm_corrects_after_its_warm_up_what_its_rows_make_of_features() -> None:
    layer: Any = changed(BatchRenorm(4, momentum=0.1, warm_up=3))
    plain = changed(BatchNorm(4, momentum=0.1))
    mean = np.zeros(4)
    var = np.ones(4)
    weight = layer.weight.detach().numpy()
    bias = layer.bias.detach().numpy()
    for k, rows in enumerate(ROWS):
        assert layer.count.item() == k
        ours = layer(rows, batch_statistics=True)
        x = rows.double().numpy()
        if k < 3:
            torch.testing.assert_close(ours, plain(rows, batch_statistics=True))
        else:
            expected = renormalized(x, mean, var) * weight + bias
            np.testing.assert_allclose(ours.detach(), expected, rtol=1e-4, atol=1e-4)
        mean = 0.9 * mean + 0.1 * x.mean(0)
        var = 0.9 * var + 0.1 * x.var(0)
    # Features within the limits are those that acting sees.
    x = ROWS[0].double().numpy()
    with torch.no_grad():
        torch.testing.assert_close(
            layer(ROWS[0], batch_statistics=True)[:, :3], layer(ROWS[0])[:, :3], rtol=0.05, atol=0.3
        )


def test_r_and_d_are_limited_and_have_no_gradient() -> None:
    layer = BatchRenorm(1, warm_up=0)
    far = torch.tensor([[1000.0], [1100.0]], requires_grad=True)  # d is 5 and r is 3
    y = layer(far, batch_statistics=True)
    torch.testing.assert_close(y.detach(), torch.tensor([[2.0], [8.0]]))
    y[0].sum().backward()
    assert far.grad is not None
    # With constant r and d, moving all rows alike changes nothing.
    assert abs(far.grad.sum().item()) < 1e-6
    near = BatchRenorm(1, warm_up=0)
    y = near(torch.tensor([[-1e-3], [1e-3]]), batch_statistics=True)
    std = (1e-6 + 1e-3) ** 0.5
    torch.testing.assert_close(y.detach(), torch.tensor([[-1e-3], [1e-3]]) / std / 3)


def test_a_layer_continues_from_its_buffers_through_the_end_of_its_warm_up() -> None:
    whole = BatchRenorm(4, warm_up=6)
    for rows in ROWS[:5]:
        whole(rows, batch_statistics=True)
    assert whole.count.dtype == torch.int64
    resumed = BatchRenorm(4, warm_up=6)
    resumed.load_state_dict(copy.deepcopy(whole.state_dict()))
    for rows in ROWS[5:9]:
        assert torch.equal(whole(rows, batch_statistics=True), resumed(rows, batch_statistics=True))
    assert torch.equal(whole(ROWS[0]), resumed(ROWS[0]))


def test_a_recorded_step_leaves_the_warm_up_too() -> None:
    """One graph, made once, as a recording is made once: nothing in the layer is a branch on values."""
    layer = BatchRenorm(4, momentum=0.1, warm_up=2)
    plain = copy.deepcopy(layer)
    one_graph: Any = torch.compile(layer, backend="eager", fullgraph=True)
    for rows in ROWS[:6]:
        torch.testing.assert_close(one_graph(rows, True), plain(rows, True))
    assert layer.count.item() == plain.count.item() == 6


def test_statistics_of_one_row_are_refused() -> None:
    with pytest.raises(ValueError, match="at least two rows, not 1"):
        BatchNorm(4)(ROWS[0, :1], batch_statistics=True)


def test_a_layer_after_one_in_bfloat16_computes_in_float32() -> None:
    layer = BatchNorm(4)
    assert layer(ROWS[0].bfloat16()).dtype == layer(ROWS[0].bfloat16(), True).dtype == torch.float32
    assert layer.running_mean.dtype == torch.float32


# ---------------------------------------------------------------- what trainers refuse


class Model(nn.Module):
    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, 4), norm)


def refuse(norm: nn.Module, ranks: int = 1, batch_size: int = 32, inference: bool = False) -> None:
    trainer: Any = SimpleNamespace(
        model=Model(norm),
        settings=SimpleNamespace(trainer_type="mine"),
        behavior=SimpleNamespace(name="Walker"),
        ranks=SimpleNamespace(size=ranks),
        inference=inference,
        hyperparameters=SimpleNamespace(batch_size=batch_size),
    )
    TorchTrainer._refuse_batch_norm(trainer)


def test_pytorchs_own_layer_is_refused_by_its_place_unless_it_is_frozen() -> None:
    place = r"'mine': body\.1 of its network is a torch\.nn\.BatchNorm1d.*use rlcore_torch\.BatchNorm"
    with pytest.raises(PluginError, match=place):
        refuse(nn.BatchNorm1d(4))
    with pytest.raises(PluginError, match="BatchNorm2d"):
        refuse(nn.BatchNorm2d(4, track_running_stats=False).eval())  # uses those of its rows there too
    refuse(nn.BatchNorm1d(4).eval())
    refuse(BatchNorm(4))


def test_ranks_and_minibatches_of_one_row_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"behaviors\.Walker\.network_settings\.batch_norm: .*one rank"):
        refuse(BatchRenorm(4), ranks=2)
    with pytest.raises(ConfigError, match=r"hyperparameters\.batch_size: must be at least 2 .*not 1"):
        refuse(BatchNorm(4), batch_size=1)
    refuse(nn.LayerNorm(4), ranks=2, batch_size=1)
    refuse(BatchNorm(4), ranks=2, batch_size=1, inference=True)  # which computes no statistics
