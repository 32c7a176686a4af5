"""Optimizers of plugins: any ``torch.optim.Optimizer``, with checkpoints that need no pickle.

A plugin registers an optimizer with ``rlcore_optimizers``; :class:`~rlcore_torch.OptimizerSpec` describes the result. A
behavior chooses one with ``hyperparameters: {optimizer: {type: NAME}}``.

The state of an optimizer is what it keeps for each parameter, by the index of the parameter and by name, and those
options of its groups that steps have changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import numpy as np
import torch
from torch import Tensor, nn

from rlcore import PluginError, RunStateError, blamed, first_non_finite, saved_mapping
from rlcore_torch.hookspecs import OptimizerSpec
from rlcore_torch.optimization.optimizer import TorchOptimizer

RESUME_ADVICE = "use the network_settings and the optimizer settings the checkpoint was made with"


@attrs.frozen
class _Tensor:
    """What a tensor in the state is like."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    device: torch.device


Kinds = Mapping[str, _Tensor | None]  # None for a value that is not a tensor


class PluginOptimizer(TorchOptimizer):
    """The optimizer of a plugin, over at least one parameter.

    Raises PluginError, which names the record and its plugin, if the optimizer is not as
    :class:`rlcore_torch.OptimizerSpec` describes.
    """

    def __init__(
        self, spec: OptimizerSpec, settings: Any, parameters: Sequence[nn.Parameter], learning_rate: float
    ) -> None:
        self.type = spec.name
        self._spec = spec
        self._settings = settings
        super().__init__(parameters, learning_rate, _create(spec, settings, parameters, learning_rate))
        # One step on copies shows mistakes before the training, and which state a checkpoint must have.
        copies = [nn.Parameter(p.detach().clone(), p.requires_grad) for p in parameters]
        tried = TorchOptimizer(copies, learning_rate, _create(spec, settings, copies, learning_rate))
        for p in copies:
            p.grad = torch.zeros_like(p)
        with blamed(spec.described, "in a step on copies of the parameters, with gradients of 0"):
            tried._optimizer.step()
        self._kinds = [_kinds(spec.described, tried._optimizer.state.get(p, {})) for p in copies]
        self._options = [_copied(group) for group in self._optimizer.param_groups]  # as they were at first

    def another(self, learning_rate: float) -> PluginOptimizer:
        return PluginOptimizer(self._spec, self._settings, self.parameters, learning_rate)

    def step(self) -> None:
        with blamed(self._spec.described, "in step"):
            self._optimizer.step()

    # ------------------------------------------------------------ state

    def state_dict(self) -> dict[str, Any]:
        parameters = {}
        groups = {}
        for index, p in enumerate(self.parameters):
            state = self._optimizer.state.get(p)
            if state:
                parameters[str(index)] = _arrays(self._spec.described, state)
        for index, (group, first) in enumerate(zip(self._optimizer.param_groups, self._options, strict=True)):
            changed = {name: value for name, value in _copied(group).items() if not _equal(value, first.get(name))}
            if changed:
                groups[str(index)] = _arrays(self._spec.described, changed)
        return {"type": self.type, "parameters": parameters, "groups": groups}

    def require_fit(self, state: Mapping[str, Any]) -> None:
        parameters = saved_mapping(state, "parameters")
        groups = saved_mapping(state, "groups")
        counts = {"parameter": len(self.parameters), "group": len(self._optimizer.param_groups)}
        for (owner, count), saved in zip(counts.items(), (parameters, groups), strict=True):
            if unknown := saved.keys() - set(map(str, range(count))):
                raise RunStateError(
                    f"the saved optimizer has a {owner} {min(unknown)} and this run's only {count}; {RESUME_ADVICE}"
                )
        for index, p in enumerate(self.parameters):
            if str(index) not in parameters:
                continue
            saved = saved_mapping(parameters, str(index))
            kinds = self._kinds[index]
            where = f"of parameter {index}"
            # A parameter that never had a gradient may have nothing of what a step needs.
            if (missing := kinds.keys() - saved.keys()) and not kinds.keys().isdisjoint(saved):
                raise RunStateError(f"the saved optimizer has no {min(missing)} {where}; {RESUME_ADVICE}")
            for name, value in saved.items():
                _require_value(name, value, kinds.get(name), tuple(p.shape), where)
        for key in groups:
            for name, value in saved_mapping(groups, key).items():
                _require_value(name, value, None, getattr(value, "shape", ()), f"of group {key}")

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.require_fit(state)
        for index, p in enumerate(self.parameters):
            saved = state["parameters"].get(str(index))
            kinds = self._kinds[index]
            if saved is None:
                self._optimizer.state.pop(p, None)
            else:
                self._optimizer.state[p] = {n: _restored(value, kinds.get(n), p.device) for n, value in saved.items()}
        device = self.parameters[0].device
        for index, (group, first) in enumerate(zip(self._optimizer.param_groups, self._options, strict=True)):
            saved = state["groups"].get(str(index), {})
            for name in _copied(group).keys() - first.keys():
                del group[name]
            group |= _copied(first) | {name: _restored(value, None, device) for name, value in saved.items()}


def _create(
    spec: OptimizerSpec, settings: Any, parameters: Sequence[nn.Parameter], learning_rate: float
) -> torch.optim.Optimizer:
    """The optimizer that the target of ``spec`` returns; PluginError unless it has all parameters and no other."""
    optimizer = spec.create(parameters=list(parameters), learning_rate=learning_rate, settings=settings)
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise PluginError(f"{spec.described}: returned a {type(optimizer).__name__}, not a torch.optim.Optimizer")
    held = [id(p) for group in optimizer.param_groups for p in group["params"]]
    given = [id(p) for p in parameters]
    missing = len(set(given) - set(held))
    others = len(set(held) - set(given))
    if missing or others:
        raise PluginError(
            f"{spec.described}: returned an optimizer with {len(given) - missing} of the {len(given)} parameters it "
            f"was given and {others} others; its groups must have each of them and no other"
        )
    return optimizer


# ---------------------------------------------------------------- values of a state


def _kinds(described: str, state: Mapping[str, Any]) -> Kinds:
    """What the values are that an optimizer keeps for a parameter; PluginError if a checkpoint cannot have one."""
    return {
        name: _Tensor(value.shape, value.dtype, state[name].device) if isinstance(value, np.ndarray) else None
        for name, value in _arrays(described, state).items()
    }


def _arrays(described: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Tensors as arrays, beside numbers. PluginError if a checkpoint cannot have a value."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Tensor):
            with blamed(described, f"to save its {name}"):
                found[name] = value.detach().cpu().numpy().copy()
        elif isinstance(name, str) and (value is None or isinstance(value, bool | int | float)):
            found[name] = value
        else:
            raise PluginError(
                f"{described}: keeps a {type(value).__name__} as {name!r}; a checkpoint has only tensors and numbers"
            )
    return found


def _copied(group: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a group without its parameters and learning rate; tensors are copied."""
    options = {name: value for name, value in group.items() if name not in ("params", "lr")}
    return {name: value.detach().clone() if isinstance(value, Tensor) else value for name, value in options.items()}


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, Tensor) or isinstance(other, Tensor):
        return isinstance(one, Tensor) and isinstance(other, Tensor) and one.equal(other)
    return type(one) is type(other) and bool(one == other)


def _require_value(name: str, value: Any, kind: _Tensor | None, shape: tuple[int, ...], where: str) -> None:
    """Raises RunStateError for a value that is not of its ``kind``, or not finite.

    A value without a kind, such as one that the optimizer keeps only after several steps, may be a number, or a tensor
    of ``shape`` or of one number.
    """
    if isinstance(value, np.ndarray):
        of_kind = kind is not None and (value.shape, value.dtype) == (kind.shape, kind.dtype)
        fits = of_kind or (kind is None and value.shape in (shape, ()) and value.dtype.kind in "fiub")
        found = f"an array of {value.dtype} of shape {value.shape}"
    else:
        fits = kind is None and (value is None or isinstance(value, bool | int | float))
        found = repr(value)[:60]
    if not fits:
        wanted = f"of shape {shape}" if kind is None else f"of {kind.dtype} of shape {kind.shape}"
        raise RunStateError(f"the saved optimizer's {name} {where} is {found}, not an array {wanted}; {RESUME_ADVICE}")
    if first_non_finite(value) is not None:
        raise RunStateError(f"the saved optimizer's {name} {where} is not finite; the training had diverged")


def _restored(value: Any, kind: _Tensor | None, device: torch.device) -> Any:
    if not isinstance(value, np.ndarray):
        return value
    return torch.from_numpy(value.copy()).to(device if kind is None else kind.device)
