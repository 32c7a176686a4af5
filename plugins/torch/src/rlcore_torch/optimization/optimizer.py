"""The interface of optimizers, and Adam; the state of an optimizer fits into a checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from rlcore import RunStateError, saved_array

__all__ = ["Optimizer", "TorchAdam", "TorchOptimizer"]

BETAS = (0.9, 0.999)  # those of Adam's paper, and of PyTorch


def require_betas(state: Mapping[str, Any], betas: tuple[float, float]) -> None:
    """Raise RunStateError if the betas in ``state`` are others: its moments are averages over other times."""
    first, second = saved_array(state, "betas", np.float64, (2,)).tolist()
    saved = (first, second)
    if saved != betas:
        raise RunStateError(
            f"the saved optimizer has betas {saved} and this run's {betas}; resume with those of the checkpoint, or "
            "start a new run"
        )


class Optimizer:
    """The interface of all optimizers.

    A gradient step is ``zero_grad()``, ``loss.backward()``, ``clip_grad_norm(...)`` where wanted, ``step()``.

    Attributes:
        type: The registered name, without its distribution.
        parameters: The parameters that are moved.
        learning_rate: Step size; may be set before every step.
        rate_factor: The learning rate as a factor on the trainer's, which follows a schedule.
        capturable: Whether a step recorded as a CUDA graph sees the learning rate change.
        after_step: Called after each step; None for nothing. See :func:`call_after_steps`.
    """

    capturable = False
    after_step: Callable[[], None] | None = None
    rate_factor = 1.0
    type: str
    parameters: Sequence[nn.Parameter]
    learning_rate: float

    def another(self, learning_rate: float) -> Optimizer:
        """Return an optimizer of the same parameters with the same settings, and with a state of its own."""
        raise NotImplementedError

    def zero_grad(self) -> None:
        """Clear the gradients of the parameters."""
        raise NotImplementedError

    def clip_grad_norm(self, max_norm: float) -> Tensor:
        """Scale the gradient to an L2 norm of at most ``max_norm``; return the norm before, of shape []."""
        raise NotImplementedError

    def step(self) -> None:
        """Move the parameters against the gradient that ``backward`` left in them."""
        raise NotImplementedError

    # ------------------------------------------------------------ state

    def state_dict(self) -> dict[str, Any]:
        """Return the ``type``, and arrays and numbers to continue from."""
        raise NotImplementedError

    def require_fit(self, state: Mapping[str, Any]) -> None:
        """Raise RunStateError if the state belongs to another model or other settings, or is not finite."""
        raise NotImplementedError

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from :meth:`state_dict`. Raises RunStateError, changing nothing, where :meth:`require_fit` does."""
        raise NotImplementedError


def call_after_steps(optimizer: Optimizer, function: Callable[[], None]) -> None:
    """Call ``function`` after each step of ``optimizer``, without recording gradients."""
    step = optimizer.step

    def step_and_call() -> None:
        step()
        with torch.no_grad():
            function()

    optimizer.after_step = function
    optimizer.step = step_and_call  # type: ignore[method-assign]


class Adam(Optimizer):
    """The base of both implementations of Adam (Kingma and Ba 2015, arXiv:1412.6980, algorithm 1).

    Their states are the same, so that a checkpoint of one continues with the other.

    Attributes:
        epsilon: Added to the root of the second moment.
        betas: Shares of the first and second moment that a step keeps.
    """

    type = "adam"
    epsilon: float
    betas: tuple[float, float]

    def moments(self) -> dict[str, Tensor]:
        """Return ``mean`` and ``square``, both [P] for all P numbers of the parameters, and the ``step``.

        The step is [], or has one for each parameter where some had no gradient in a step.
        """
        raise NotImplementedError

    def load_moments(self, moments: dict[str, Any]) -> None:
        """Continue from the tensors of :meth:`moments`."""
        raise NotImplementedError

    def state_dict(self) -> dict[str, Any]:
        state: dict[str, Any] = {"type": self.type}
        if self.betas != BETAS:  # a state without them has those of the paper
            state["betas"] = np.array(self.betas)
        for name, tensor in self.moments().items():
            state[name] = tensor.detach().cpu().numpy().copy()
        return state

    def require_fit(self, state: Mapping[str, Any]) -> None:
        """Raise RunStateError if the moments belong to another model or other betas, or are not finite."""
        require_betas({"betas": np.array(BETAS), **state}, self.betas)
        for name, tensor in self.moments().items():
            saved = saved_array(state, name, np.float32)
            shape = tuple(tensor.shape)
            shapes: list[tuple[int, ...]] = [shape]
            if name == "step":  # of either form, whichever this run's has
                shapes = [(), (len(self.parameters),)]
            if saved.shape not in shapes:
                raise RunStateError(
                    f"the saved optimizer's {name} has shape {saved.shape} and this model's "
                    f"{shape}; use the network_settings the checkpoint was made with"
                )
            if not np.isfinite(saved).all():
                raise RunStateError(f"the saved optimizer's {name} is not finite; the training had diverged")

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.require_fit(state)
        moments = {name: torch.from_numpy(state[name].copy()) for name in self.moments()}
        self.load_moments(moments)


class TorchOptimizer(Optimizer):
    """An optimizer of PyTorch, over parameters on any device.

    On a GPU, an optimizer that can be captured in a CUDA graph has its learning rate in a tensor there, so that neither
    setting the rate nor a step waits for the device.
    """

    def __init__(
        self, parameters: Sequence[nn.Parameter], learning_rate: float, optimizer: torch.optim.Optimizer
    ) -> None:
        self.parameters = parameters
        self._optimizer = optimizer
        device = parameters[0].device
        if device.type == "cuda":
            # PyTorch warns that such an optimizer is slower where it is not captured; it also does not wait.
            setattr(optimizer, "_warned_capturable_if_run_uncaptured", True)  # noqa: B010
            for group in optimizer.param_groups:
                if "capturable" in group:
                    group |= {"capturable": True, "lr": torch.tensor(learning_rate, device=device)}
            self.capturable = all(isinstance(group["lr"], Tensor) for group in optimizer.param_groups)
        self.learning_rate = learning_rate

    @property
    def learning_rate(self) -> float:
        """Step size; may be set before every step."""
        return self._learning_rate

    @learning_rate.setter
    def learning_rate(self, rate: float) -> None:
        self._learning_rate = rate
        for group in self._optimizer.param_groups:
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(rate)  # in place: a captured step reads this tensor
            else:
                group["lr"] = rate

    def zero_grad(self) -> None:
        self._optimizer.zero_grad()

    def clip_grad_norm(self, max_norm: float) -> Tensor:
        return nn.utils.clip_grad_norm_(self.parameters, max_norm)

    def step(self) -> None:
        self._optimizer.step()


class TorchAdam(TorchOptimizer, Adam):
    """``torch.optim.Adam``."""

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        learning_rate: float,
        epsilon: float,
        betas: tuple[float, float] = BETAS,
    ) -> None:
        parameters = list(parameters)
        self.epsilon = epsilon
        self.betas = betas
        # Not torch's default of one kernel for each parameter and operation.
        fused = parameters[0].device.type in ("cpu", "cuda")
        adam = torch.optim.Adam(parameters, learning_rate, betas, epsilon, fused=fused)
        super().__init__(parameters, learning_rate, adam)

    def another(self, learning_rate: float) -> TorchAdam:
        return TorchAdam(self.parameters, learning_rate, self.epsilon, self.betas)

    def moments(self) -> dict[str, Tensor]:
        means = []
        squares = []
        step_of_each = []
        for p in self.parameters:
            # Adam begins the state of a parameter with its first gradient, and counts the steps in which it had one.
            zero = torch.zeros_like(p)
            state = self._optimizer.state.get(p, {"exp_avg": zero, "exp_avg_sq": zero, "step": 0.0})
            means.append(state["exp_avg"].detach().reshape(-1))
            squares.append(state["exp_avg_sq"].detach().reshape(-1))
            step_of_each.append(float(state["step"]))
        steps = torch.tensor(step_of_each)
        step = steps
        if len(set(step_of_each)) == 1:
            step = steps[0]
        return {"mean": torch.cat(means), "square": torch.cat(squares), "step": step}

    def load_moments(self, moments: dict[str, Any]) -> None:
        sizes = [p.numel() for p in self.parameters]
        means = moments["mean"].split(sizes)
        squares = moments["square"].split(sizes)
        steps = moments["step"].expand(len(sizes))
        for p, mean, square, step in zip(self.parameters, means, squares, steps, strict=True):
            device = p.device
            # Copied: a step writes into these tensors, and views would change what is loaded elsewhere.
            self._optimizer.state[p] = {
                "step": step.clone().to(device),
                "exp_avg": mean.view_as(p).clone().to(device),
                "exp_avg_sq": square.view_as(p).clone().to(device),
            }
