"""Flat parameters and Adam against PyTorch's own, one tensor at a time."""

# mypy: allow-untyped-calls
from __future__ import annotations

import pytest
import torch
from torch import nn

from rlcore.errors import RunStateError
from rlcore.torch.flat import FlatParameters
from rlcore.torch.optimizer import Adam


def model(width: int = 5) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, width), nn.Tanh(), nn.Linear(width, 2))


def loss(of: nn.Module, step: int) -> torch.Tensor:
    x = torch.randn(8, 3, generator=torch.Generator().manual_seed(step))
    return of(x).square().sum()  # type: ignore[no-any-return]


def test_flat_parameters_leave_the_model_as_it_was() -> None:
    plain, laid_out = model(), model()
    flat = FlatParameters(laid_out.parameters())
    assert loss(laid_out, 0).equal(loss(plain, 0))
    assert flat.parameter.equal(torch.cat([p.detach().reshape(-1) for p in plain.parameters()]))
    loss(plain, 0).backward()
    loss(laid_out, 0).backward()
    assert flat.gradient.equal(torch.cat([p.grad.reshape(-1) for p in plain.parameters() if p.grad is not None]))
    flat.zero_gradient()
    assert all(p.grad is not None and not p.grad.any() for p in laid_out.parameters())


@pytest.mark.parametrize("max_norm", [0.5, 1e6])
def test_updates_are_those_of_torch_adam_with_gradient_clipping(max_norm: float) -> None:
    plain, laid_out = model(), model()
    theirs = torch.optim.Adam(plain.parameters(), lr=0.01, eps=1e-5)
    flat = FlatParameters(laid_out.parameters())
    ours = Adam(flat, 0.01, 1e-5)
    for step in range(20):
        if step == 10:
            ours.learning_rate = theirs.param_groups[0]["lr"] = 0.003
        theirs.zero_grad()
        loss(plain, step).backward()
        norm = nn.utils.clip_grad_norm_(plain.parameters(), max_norm)
        theirs.step()
        flat.zero_gradient()
        loss(laid_out, step).backward()
        torch.testing.assert_close(flat.clip_gradient(max_norm), norm)
        assert flat.gradient.norm() <= max_norm * (1 + 1e-6)
        ours.step()
    for mine, other in zip(laid_out.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-5, atol=1e-6)


def test_a_saved_optimiser_goes_on_where_it_was() -> None:
    def steps(optimizer: Adam, of: nn.Module, first: int) -> None:
        for step in range(first, first + 5):
            optimizer.flat.zero_gradient()
            loss(of, step).backward()
            optimizer.step()

    whole, restored = model(), model()
    ours = Adam(FlatParameters(whole.parameters()), 0.01, 1e-5)
    steps(ours, whole, 0)
    other = Adam(FlatParameters(restored.parameters()), 0.01, 1e-5)
    other.flat.parameter.copy_(ours.flat.parameter)
    other.load_state_dict(ours.state_dict())
    steps(ours, whole, 5)
    steps(other, restored, 5)
    assert ours.flat.parameter.equal(other.flat.parameter)


def test_moments_of_another_model_are_refused_and_nothing_changes() -> None:
    ours = Adam(FlatParameters(model().parameters()), 0.01, 1e-5)
    before = ours.state_dict()
    with pytest.raises(RunStateError, match="network_settings"):
        ours.load_state_dict(Adam(FlatParameters(model(6).parameters()), 0.01, 1e-5).state_dict())
    assert all((before[name] == array).all() for name, array in ours.state_dict().items())
