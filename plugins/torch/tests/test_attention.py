"""Attention over entities: those that are absent do not count, and their order does not either."""

# mypy: allow-untyped-calls
from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from rlcore_torch import EntityEmbedding, ResidualSelfAttention

WIDTH = 16


def attention() -> ResidualSelfAttention:
    torch.manual_seed(0)
    made = ResidualSelfAttention(WIDTH)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(0.5 * torch.randn_like(parameter))
    return made


def entities(rows: int = 3, count: int = 5) -> Tensor:
    return torch.randn(rows, count, WIDTH, generator=torch.Generator().manual_seed(1))


def test_the_result_is_the_mean_of_what_multi_head_attention_adds() -> None:
    ours = attention()
    x = entities()
    peer = nn.MultiheadAttention(WIDTH, ours.heads, batch_first=True)
    # PyTorch divides scores by the root of a head's width, which is half of the whole width's root.
    scale = 1.0 / math.sqrt(ours.heads)
    with torch.no_grad():
        assert peer.in_proj_weight is not None
        peer.in_proj_weight.copy_(torch.cat((ours.query.weight * scale, ours.key.weight, ours.value.weight)))
        peer.in_proj_bias.copy_(torch.cat((ours.query.bias * scale, ours.key.bias, ours.value.bias)))
        peer.out_proj.load_state_dict(ours.output.state_dict())
    present = torch.tensor([[1, 1, 1, 1, 1], [1, 0, 1, 0, 0], [0, 0, 0, 1, 0]], dtype=torch.bool)
    normalized = (x - x.mean(2, keepdim=True)) / (x.var(2, correction=0, keepdim=True) + 1e-5).sqrt()
    seen, _ = peer(normalized, normalized, normalized, key_padding_mask=~present, need_weights=False)
    added = normalized + seen
    added = (added - added.mean(2, keepdim=True)) / (added.var(2, correction=0, keepdim=True) + 1e-5).sqrt()
    expected = torch.stack([row[there].mean(0) for row, there in zip(added, present, strict=True)])

    torch.testing.assert_close(ours(x, present), expected, rtol=0, atol=1e-5)


def test_order_does_not_matter_and_neither_do_absent_entities() -> None:
    ours = attention()
    x = entities()
    whole = ours(x)
    order = torch.tensor([3, 0, 4, 1, 2])
    torch.testing.assert_close(ours(x[:, order]), whole, rtol=0, atol=1e-6)
    longer = torch.cat((torch.full((3, 2, WIDTH), math.nan), x, torch.full((3, 1, WIDTH), 1e30)), dim=1)
    present = torch.tensor([[False] * 2 + [True] * 5 + [False]]).expand(3, -1)
    torch.testing.assert_close(ours(longer, present), whole, rtol=0, atol=1e-6)


def test_without_any_entity_the_result_is_zero_and_gradients_are_finite() -> None:
    ours = attention()
    x = entities().requires_grad_()
    present = torch.tensor([[True] * 5, [False] * 5, [True] + [False] * 4])
    result = ours(x, present)
    assert (result[1] == 0).all() and (result[[0, 2]] != 0).all()
    result.square().sum().backward()
    assert x.grad is not None
    assert (x.grad[~present] == 0).all() and (x.grad[0] != 0).any()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in ours.parameters())


def test_each_entity_is_embedded_beside_what_is_known_about_its_own_row() -> None:
    torch.manual_seed(0)
    embedding = EntityEmbedding(2, WIDTH, beside=3)
    x = torch.randn(4, 5, 2)
    beside = torch.randn(4, 3)
    one = embedding.linear(torch.cat((beside[2], x[2, 1])))
    torch.testing.assert_close(embedding(x, beside)[2, 1], one * one.sigmoid())


def test_a_width_that_the_heads_do_not_divide_is_refused() -> None:
    with pytest.raises(ValueError, match=r"4 heads .* not 18"):
        ResidualSelfAttention(18)
