"""Trainers of a class that overrides one method: they must learn from it, also where accelerations are on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import pytest
import torch
from torch import Tensor

from rlcore_torch import template
from rlcore_torch.backend import Backend, choose_backend


def changed(method: Callable[..., Any], factor: float) -> Callable[..., Any]:
    """A method of a subclass whose losses are ``factor`` times those of ``method``."""

    def override(self: Any, *values: Any, **named: Any) -> Any:
        found = method(self, *values, **named)
        return found * factor if isinstance(found, Tensor) else found

    return override


def assert_learns_the_same_without(monkeypatch: pytest.MonkeyPatch, trained: Callable[[], Any]) -> None:
    """Assert that accelerations do not change what the trainer that ``trained`` returns learns, bit for bit."""

    def without(run: Any) -> Backend:
        return attrs.evolve(choose_backend(run), pieces=frozenset())

    weights = []
    for choose in (choose_backend, without):
        monkeypatch.setattr(template, "choose_backend", choose)
        weights.append([parameter.detach().clone() for parameter in trained().model.parameters()])
    assert weights[0]
    assert all(torch.equal(one, other) for one, other in zip(*weights, strict=True))
