# mypy: allow-untyped-calls
"""Gradient steps on images: each critic encodes an image once for both losses that look at it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from rlcore_devkit.environments import ImageIdentity
from rlcore_sac.trainer import SACTrainer
from rlcore_torch import TransitionBatch

ROWS = 6


def images_of(trainer: SACTrainer) -> TransitionBatch:
    generator = torch.Generator().manual_seed(0)
    (spec,) = trainer.model.inputs.images
    first, after = (torch.randint(256, (ROWS, *spec.shape), dtype=torch.uint8, generator=generator) for _ in range(2))
    return TransitionBatch(
        inputs=(first,),
        next_inputs=(after,),
        raw=None,
        choices=torch.randint(3, (ROWS, 1), generator=generator),
        mask=None,
        next_mask=None,
        reward=torch.randn((ROWS, 1), generator=generator),
        discount=torch.full((ROWS, 1), 0.9),
    )


def gradients(trainer: SACTrainer) -> list[Tensor]:
    found = [parameter.grad.clone() for parameter in trainer.model.parameters() if parameter.grad is not None]
    for parameter in trainer.model.parameters():
        parameter.grad = None
    return found


def test_both_losses_have_the_gradients_of_images_that_are_encoded_for_each(make_trainer: Callable[..., Any]) -> None:
    trainer: SACTrainer = make_trainer(ImageIdentity(4))
    batch = images_of(trainer)
    drawn, policy_loss = trainer.policy_loss(batch, None)
    (policy_loss + trainer.temperature_loss(drawn, None)).backward()
    trainer.critic_loss(batch, trainer.step_noise(batch)).total.backward()
    expected = gradients(trainer)
    trainer.gradients(batch, trainer.step_noise(batch))
    found = gradients(trainer)
    assert len(found) == len(expected) > 10
    for one, other in zip(expected, found, strict=True):
        assert torch.equal(one, other)
        assert bool(one.any())


def test_a_gradient_step_encodes_each_image_once_in_each_network(make_trainer: Callable[..., Any]) -> None:
    trainer: SACTrainer = make_trainer(ImageIdentity(4))
    passes: Counter[str] = Counter()
    model = trainer.model
    networks = {"policy": [model.actor], "critics": list(model.critics), "targets": list(model.targets)}
    for name, bodies in networks.items():
        for network in bodies:
            body: Any = getattr(network, "body", network)
            body.encoders[0].register_forward_hook(lambda *_, name=name: passes.update([name]))
    trainer.gradient_step(images_of(trainer))
    assert passes == {"policy": 2, "critics": 2, "targets": 2}  # two images, and two networks that see one each
