"""Threads compute pieces of POCA's minibatches of images; a class that overrides a method computes them by its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

import rlcore_poca.trainer
from rlcore import BehaviorSpec, ObservationSpec
from rlcore_poca.trainer import POCATrainer
from rlcore_torch import backend, template
from rlcore_torch.acceleration.piece_threads import PIECES

MakeTrainer = Callable[..., POCATrainer]
PIECE_METHODS = {"backward", "of_each"}


@pytest.fixture(autouse=True)
def fast_cpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(template, "choose_backend", backend.choose_backend)  # also under pytest --plain-torch
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


def made(make_trainer: MakeTrainer) -> POCATrainer:
    image = ObservationSpec("image", (20, 20, 1), np.uint8, "image")
    group = np.zeros(2, np.int64)
    behavior = BehaviorSpec("Agent", (image,), discrete=(3,), env_index=np.zeros(2, np.int64), group=group)
    return make_trainer(behavior, torch_settings={"fast_cpu": True, "num_threads": 2})


def test_pieces_are_computed_side_by_side_and_values_by_pocas_own_critic(make_trainer: MakeTrainer) -> None:
    """POCA overrides ``value``, whose faster way is for critics of single agents."""
    trainer = made(make_trainer)
    assert vars(trainer).keys() >= PIECE_METHODS
    assert "value" not in vars(trainer)


@pytest.mark.parametrize("method", PIECES.methods, ids=lambda method: str(method.__name__))
def test_pieces_are_for_no_class_that_overrides_a_method(
    make_trainer: MakeTrainer, monkeypatch: pytest.MonkeyPatch, method: Callable[..., Any]
) -> None:
    def override(self: Any, *arguments: Any) -> Any:
        return method(self, *arguments)

    kind = type("Overriding", (POCATrainer,), {method.__name__: override})
    monkeypatch.setattr(rlcore_poca.trainer, "POCATrainer", kind)
    trainer = made(make_trainer)
    assert type(trainer) is kind
    assert not vars(trainer).keys() & PIECE_METHODS
