"""Both implementations of Adam against torch.optim.Adam, and against each other across a checkpoint."""

# mypy: allow-untyped-calls
from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from torch import nn

from rlcore import RunStateError
from rlcore_devkit.conformance.states import assert_equal
from rlcore_torch import Adam, TorchAdam
from rlcore_torch.cpu import FlatAdam

KINDS: list[type[FlatAdam] | type[TorchAdam]] = [TorchAdam, FlatAdam]
BOTH = pytest.mark.parametrize("kind", KINDS)


def model(width: int = 5) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, width), nn.Tanh(), nn.Linear(width, 2))


def loss(of: nn.Module, step: int) -> torch.Tensor:
    x = torch.randn(8, 3, generator=torch.Generator().manual_seed(step))
    return of(x).square().sum()  # type: ignore[no-any-return]


def alike(owned: nn.Module, plain: nn.Module, rtol: float = 1e-5, atol: float = 1e-6) -> None:
    for mine, other in zip(owned.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(mine, other, rtol=rtol, atol=atol)


def judged(kind: Any) -> tuple[nn.Sequential, nn.Sequential, torch.optim.Adam, Any]:
    """A model for PyTorch's own optimizer, one for ``kind``, and both optimizers."""
    plain, owned = model(), model()
    return plain, owned, torch.optim.Adam(plain.parameters(), lr=0.01, eps=1e-5), kind(owned.parameters(), 0.01, 1e-5)


def steps(optimizer: Adam, of: nn.Module, first: int) -> None:
    for step in range(first, first + 5):
        optimizer.zero_grad()
        loss(of, step).backward()
        optimizer.step()


@BOTH
@pytest.mark.parametrize("max_norm", [0.5, 1e6])
def test_updates_are_those_of_torch_adam_with_gradient_clipping(kind: type[FlatAdam], max_norm: float) -> None:
    plain, owned, theirs, ours = judged(kind)
    for step in range(20):
        if step == 10:
            ours.learning_rate = theirs.param_groups[0]["lr"] = 0.003
        theirs.zero_grad()
        loss(plain, step).backward()
        norm = nn.utils.clip_grad_norm_(plain.parameters(), max_norm)
        theirs.step()
        ours.zero_grad()
        loss(owned, step).backward()
        torch.testing.assert_close(ours.clip_grad_norm(max_norm), norm)
        clipped = torch.cat([p.grad.reshape(-1) for p in owned.parameters() if p.grad is not None])
        assert clipped.norm() <= max_norm * (1 + 1e-6)
        ours.step()
    alike(owned, plain)


@pytest.mark.parametrize(("first", "second"), list(itertools.product(KINDS, KINDS)))
def test_a_saved_optimizer_continues_in_either_implementation(first: type[FlatAdam], second: type[FlatAdam]) -> None:
    whole, restored = model(), model()
    ours = first(whole.parameters(), 0.01, 1e-5)
    steps(ours, whole, 0)
    other = second(restored.parameters(), 0.01, 1e-5)
    restored.load_state_dict(whole.state_dict())
    other.load_state_dict(ours.state_dict())
    assert_equal(other.state_dict(), ours.state_dict())
    steps(ours, whole, 5)
    steps(other, restored, 5)
    alike(restored, whole, **({"rtol": 0, "atol": 0} if first is second else {"atol": 1e-7}))


@BOTH
@pytest.mark.parametrize("saved", [None, TorchAdam, FlatAdam])
def test_parameters_that_lack_gradients_now_and_then_move_as_with_torch_adam(
    kind: type[FlatAdam], saved: type[FlatAdam] | None
) -> None:
    """Layers with gradients are drawn; the state goes through ``saved`` in the middle."""
    plain, owned, theirs, ours = judged(kind)
    draws = torch.rand(12, 4, generator=torch.Generator().manual_seed(3)) < 0.6
    draws[0], draws[1], draws[2] = False, True, torch.tensor([True, True, False, False])
    for step, drawn in enumerate(draws.tolist()):
        if step == 6 and saved is not None:
            other = saved(owned.parameters(), 0.01, 1e-5)
            other.load_state_dict(ours.state_dict())
            ours = other
        before = [p.detach().clone() for p in owned.parameters()]
        for net, optimizer in ((plain, theirs), (owned, ours)):
            optimizer.zero_grad()
            loss(net, step).backward()
            for p, there in zip(net.parameters(), drawn, strict=True):
                if not there:
                    p.grad = None
            norm = nn.utils.clip_grad_norm_(net.parameters(), 0.5) if net is plain else ours.clip_grad_norm(0.5)
            assert norm > 0.5 or not any(drawn)
            optimizer.step()
        assert [not p.equal(old) for p, old in zip(owned.parameters(), before, strict=True)] == drawn
        alike(owned, plain)


@BOTH
def test_two_optimizers_share_a_parameter(kind: type[FlatAdam]) -> None:
    """An encoder that two losses train: each optimizer has it, and a head of its own."""
    ours, theirs = ([model(), nn.Linear(5, 2)] for _ in range(2))
    theirs[1].load_state_dict(ours[1].state_dict())
    made: dict[bool, list[Any]] = {}
    for mine, (both, head) in ((True, ours), (False, theirs)):
        parameters = [list(both.parameters()), [*both[0].parameters(), *head.parameters()]]
        adam = kind if mine else lambda each, rate, eps: torch.optim.Adam(each, lr=rate, eps=eps)
        made[mine] = [adam(each, rate, 1e-5) for each, rate in zip(parameters, (0.01, 0.03), strict=True)]
    for step in range(6):
        x = torch.randn(8, 3, generator=torch.Generator().manual_seed(step))
        for mine, (both, head) in ((True, ours), (False, theirs)):
            optimizer = made[mine][step % 2]
            optimizer.zero_grad()
            (head(torch.tanh(both[0](x))) if step % 2 else both(x)).square().sum().backward()
            optimizer.step()
    for own, its in zip(ours, theirs, strict=True):
        alike(own, its)


@BOTH
def test_moments_of_another_model_are_refused_and_nothing_changes(kind: type[FlatAdam]) -> None:
    ours = kind(model().parameters(), 0.01, 1e-5)
    before = ours.state_dict()
    with pytest.raises(RunStateError, match="network_settings"):
        ours.load_state_dict(kind(model(6).parameters(), 0.01, 1e-5).state_dict())
    assert_equal(before, ours.state_dict())
