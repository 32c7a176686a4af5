"""A minibatch of images in pieces side by side, in place of threads within each operation.

Threads within an operation wait for each other at the end of each of its loops, and each time for as long as another
process holds the processor of one of them. Threads that each take a piece of the rows meet once per minibatch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch
from torch import Tensor

from rlcore_torch.acceleration.registry import Acceleration, Function
from rlcore_torch.networks.batch_norm import BatchNorm
from rlcore_torch.networks.layers import Dropout
from rlcore_torch.networks.models import Actor
from rlcore_torch.on_policy.minibatch import Loss, LossFunction, Minibatch, is_mean_over_rows
from rlcore_torch.on_policy.trainer import OnPolicyTrainer

Piece = TypeVar("Piece")
Made = TypeVar("Made")


class PieceThreads:
    """Threads that compute pieces of a minibatch side by side, each operation of a piece in one thread.

    Results do not depend on which thread is faster: they are joined in the order of the pieces.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self._pool = ThreadPoolExecutor(count, thread_name_prefix="rlcore-pieces")

    def map(self, function: Callable[[Piece], Made], pieces: Iterable[Piece]) -> list[Made]:
        """Return ``function`` of every piece, computed without a graph."""

        def without_graph(piece: Piece) -> Made:
            with torch.no_grad():
                return function(piece)

        return list(self._pool.map(without_graph, pieces))

    def gradients(
        self, losses: Callable[[Piece], tuple[Tensor, Made]], pieces: Iterable[Piece], parameters: Sequence[Tensor]
    ) -> list[Made]:
        """Leave the gradient of the sum of all losses in ``parameters``; return what ``losses`` returned beside them.

        ``losses`` returns the loss of a piece [], and anything else.
        """

        def gradient(piece: Piece) -> tuple[Sequence[Tensor | None], Made]:
            loss, beside = losses(piece)
            return torch.autograd.grad(loss, parameters, allow_unused=True), beside

        gradients_of_pieces = []
        results = []
        for gradients, beside in self._pool.map(gradient, pieces):
            gradients_of_pieces.append(gradients)
            results.append(beside)
        # Added in the order of the pieces: sums do not depend on which thread was first.
        for parameter, *parts in zip(parameters, *gradients_of_pieces, strict=True):
            total: Tensor | None = None
            for part in parts:
                if total is None:
                    total = part
                elif part is not None:
                    total += part
            parameter.grad = total
        return results


def piece_threads(model: Actor, threads: int) -> PieceThreads | None:
    """Return ``threads`` threads for pieces if ``model`` sees images; operations have one thread each from then on.

    None for a single thread, for networks of vectors, whose operations are too short, for those with memory, whose
    minibatches of sequences are not split, and for those with dropout, which counts its draws, or with batch
    normalization, whose statistics are those of whole minibatches.
    """
    if threads < 2 or not model.inputs.images or model.memory_size:
        return None
    if any(isinstance(module, Dropout | BatchNorm) for module in model.modules()):
        return None
    torch.set_num_threads(1)
    return PieceThreads(threads)


def _pieces(trainer: OnPolicyTrainer) -> Mapping[Function, Function] | None:
    """The values of a rollout and the gradient of a minibatch in pieces, one for each thread."""
    threads = piece_threads(trainer.model, trainer.backend.threads)
    if threads is None:
        return None

    def backward(loss: LossFunction, batch: Minibatch) -> Loss:
        rows = len(batch.advantage)
        if not rows or not is_mean_over_rows(loss):
            return OnPolicyTrainer.backward(trainer, loss, batch)
        size = math.ceil(rows / threads.count)
        sizes = [min(size, rows - start) for start in range(0, rows, size)]
        shares = [count / rows for count in sizes]

        def part(piece: Minibatch) -> tuple[Tensor, Loss]:
            share = len(piece.advantage) / rows
            of_piece = loss(piece)
            return of_piece.total * share, of_piece.detached()

        losses = threads.gradients(part, batch.split(sizes), trainer.optimizer.parameters)
        return Loss.of_pieces(losses, shares)

    return {OnPolicyTrainer.backward: backward, OnPolicyTrainer.of_each: threads.map}


PIECES = Acceleration[OnPolicyTrainer](
    piece="piece_threads", methods=(OnPolicyTrainer.backward, OnPolicyTrainer.of_each), make=_pieces
)
