"""Optimizers of plugins: any ``torch.optim.Optimizer``, with checkpoints that need no pickle.

A plugin registers an optimizer with ``rlcore_optimizers``; :class:`~rlcore_torch.OptimizerSpec` describes the result. A
behavior chooses one with ``hyperparameters: {optimizer: {type: NAME}}``.

The state of an optimizer is what it keeps for each parameter, by the index of the parameter and by name, and those
options of its groups that steps have changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs
import numpy as np
import torch
from torch import Tensor, nn

from rlcore import PluginError, RunStateError, blamed, first_non_finite, saved_mapping
from rlcore_torch.hookspecs import OptimizerSpec
from rlcore_torch.optimization.optimizer import TorchOptimizer, require_betas

RESUME_ADVICE = "use the network_settings and the optimizer settings the checkpoint was made with"


@attrs.frozen
class _Tensor:
    """What a tensor in the state is like. Its device need not be the parameter's: counts of steps may be on the CPU."""

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
        optimizer = _create(spec, settings, parameters, learning_rate)
        super().__init__(parameters, learning_rate, optimizer)
        self._first_options = [_options(group) for group in optimizer.param_groups]
        self._betas = _betas(self._first_options[0])
        # One step on copies shows mistakes before the training, and which state a checkpoint must have.
        copies = [nn.Parameter(p.detach().clone(), p.requires_grad) for p in parameters]
        optimizer_of_copies = _create(spec, settings, copies, learning_rate)
        trial = TorchOptimizer(copies, learning_rate, optimizer_of_copies)
        for p in copies:
            p.grad = torch.zeros_like(p)
        with blamed(spec.described, "in a step on copies of the parameters, with gradients of 0"):
            trial.step()
        states = [optimizer_of_copies.state.get(p, {}) for p in copies]
        self._kinds = [_kinds(spec.described, state) for state in states]

    def another(self, learning_rate: float) -> PluginOptimizer:
        return PluginOptimizer(self._spec, self._settings, self.parameters, learning_rate)

    def step(self) -> None:
        for p in self.parameters:
            # A fused kernel reads gradients in the order of memory, and one written by hand may be transposed.
            if p.grad is not None and p.grad.stride() != p.stride():
                p.grad = torch.empty_like(p).copy_(p.grad)
        with blamed(self._spec.described, "in step"):
            self._optimizer.step()

    # ------------------------------------------------------------ state

    def state_dict(self) -> dict[str, Any]:
        described = self._spec.described
        parameters = {}
        groups = {}
        for index, p in enumerate(self.parameters):
            state = self._optimizer.state.get(p)
            if state:
                parameters[str(index)] = _arrays(described, state)
        # Only what steps have changed: a resumed run has the settings of its configuration in all other options.
        for index, (group, first) in enumerate(self._groups()):
            options = _options(group)
            changed = {name: value for name, value in options.items() if not _equal(value, first.get(name))}
            if changed:
                groups[str(index)] = _arrays(described, changed)
        betas = {} if self._betas is None else {"betas": np.array(self._betas)}
        return {"type": self.type, **betas, "parameters": parameters, "groups": groups}

    def _groups(self) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
        """The groups of the optimizer, and the options that each had at first."""
        return zip(self._optimizer.param_groups, self._first_options, strict=True)

    def require_fit(self, state: Mapping[str, Any]) -> None:
        if self._betas is not None and "betas" in state:  # which older checkpoints do not have
            require_betas(state, self._betas)
        parameters = saved_mapping(state, "parameters")
        groups = saved_mapping(state, "groups")
        _require_indices("parameter", parameters, len(self.parameters))
        _require_indices("group", groups, len(self._first_options))
        for index, (p, kinds) in enumerate(zip(self.parameters, self._kinds, strict=True)):
            if str(index) not in parameters:
                continue
            saved = saved_mapping(parameters, str(index))
            where = f"of parameter {index}"
            missing = kinds.keys() - saved.keys()
            # A parameter that never had a gradient may have nothing of what a step needs.
            if missing and not kinds.keys().isdisjoint(saved):
                raise RunStateError(f"the saved optimizer has no {min(missing)} {where}; {RESUME_ADVICE}")
            for name, value in saved.items():
                _require_value(name, value, kinds.get(name), tuple(p.shape), where)
        for key in groups:
            for name, value in saved_mapping(groups, key).items():
                _require_value(name, value, None, getattr(value, "shape", ()), f"of group {key}")

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.require_fit(state)
        for index, (p, kinds) in enumerate(zip(self.parameters, self._kinds, strict=True)):
            saved = state["parameters"].get(str(index))
            if saved is None:
                self._optimizer.state.pop(p, None)
                continue
            values = {}
            for name, value in saved.items():
                kind = kinds.get(name)
                values[name] = _restored(value, p.device if kind is None else kind.device)
            self._optimizer.state[p] = values
        device = self.parameters[0].device
        for index, (group, first) in enumerate(self._groups()):
            for name in _options(group).keys() - first.keys():
                del group[name]
            group.update(_options(first))
            saved = state["groups"].get(str(index), {})
            for name, value in saved.items():
                group[name] = _restored(value, device)


def _create(
    spec: OptimizerSpec, settings: Any, parameters: Sequence[nn.Parameter], learning_rate: float
) -> torch.optim.Optimizer:
    """The optimizer that the target of ``spec`` returns; PluginError unless it has all parameters and no other."""
    optimizer = spec.create(parameters=list(parameters), learning_rate=learning_rate, settings=settings)
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise PluginError(f"{spec.described}: returned a {type(optimizer).__name__}, not a torch.optim.Optimizer")
    # By identity: equality of parameters compares their numbers.
    in_groups = {id(p) for group in optimizer.param_groups for p in group["params"]}
    expected = {id(p) for p in parameters}
    others = len(in_groups - expected)
    if in_groups != expected:
        raise PluginError(
            f"{spec.described}: returned an optimizer with {len(in_groups & expected)} of the {len(expected)} "
            f"parameters it was given and {others} others; its groups must have each of them and no other"
        )
    return optimizer


# ---------------------------------------------------------------- values of a state


def _kinds(described: str, state: Mapping[str, Any]) -> Kinds:
    """What the values are that an optimizer keeps for a parameter; PluginError if a checkpoint cannot have one."""
    kinds: dict[str, _Tensor | None] = {}
    for name, value in _arrays(described, state).items():
        kinds[name] = None
        if isinstance(value, np.ndarray):
            kinds[name] = _Tensor(value.shape, value.dtype, state[name].device)
    return kinds


def _arrays(described: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Tensors as arrays, beside numbers. PluginError if a checkpoint cannot have a value."""
    arrays: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Tensor):
            with blamed(described, f"to save its {name}"):
                arrays[name] = value.detach().cpu().numpy().copy()
        elif isinstance(name, str) and _is_number(value):
            arrays[name] = value
        else:
            raise PluginError(
                f"{described}: keeps a {type(value).__name__} as {name!r}; a checkpoint has only tensors and numbers"
            )
    return arrays


def _is_number(value: Any) -> bool:
    """Whether a checkpoint can have ``value`` beside tensors; None counts, as options such as ``foreign`` have it."""
    return value is None or isinstance(value, bool | int | float)


def _options(group: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a group without its parameters and learning rate; tensors are copied."""
    options = {}
    for name, value in group.items():
        if name not in ("params", "lr"):
            options[name] = value.detach().clone() if isinstance(value, Tensor) else value
    return options


def _betas(options: Mapping[str, Any]) -> tuple[float, float] | None:
    """The betas of an optimizer that has two numbers, as relatives of Adam do."""
    betas = options.get("betas")
    if not isinstance(betas, tuple) or len(betas) != 2 or any(not isinstance(beta, float) for beta in betas):
        return None
    first, second = betas
    return first, second


def _equal(one: Any, other: Any) -> bool:
    if type(one) is not type(other):
        return False
    if isinstance(one, Tensor):
        return one.equal(other)
    return bool(one == other)


def _require_indices(owner: str, saved: Mapping[str, Any], count: int) -> None:
    """Raise RunStateError unless the keys of ``saved`` are indices of the ``count`` parameters or groups."""
    unknown = saved.keys() - {str(index) for index in range(count)}
    if unknown:
        raise RunStateError(
            f"the saved optimizer has a {owner} {min(unknown)} and this run's only {count}; {RESUME_ADVICE}"
        )


def _require_value(name: str, value: Any, kind: _Tensor | None, shape: tuple[int, ...], where: str) -> None:
    """Raises RunStateError for a value that is not of its ``kind``, or not finite.

    A value without a kind, such as one that the optimizer keeps only after several steps, may be a number, or a tensor
    of ``shape`` or of one number.
    """
    if not isinstance(value, np.ndarray):
        form = repr(value)[:60]
        fits = kind is None and _is_number(value)
    else:
        form = f"an array of {value.dtype} of shape {value.shape}"
        if kind is None:
            fits = value.shape in (shape, ()) and value.dtype.kind in "fiub"
        else:
            fits = (value.shape, value.dtype) == (kind.shape, kind.dtype)
    if not fits:
        expected = f"of shape {shape}" if kind is None else f"of {kind.dtype} of shape {kind.shape}"
        raise RunStateError(f"the saved optimizer's {name} {where} is {form}, not an array {expected}; {RESUME_ADVICE}")
    if first_non_finite(value) is not None:
        raise RunStateError(f"the saved optimizer's {name} {where} is not finite; the training had diverged")


def _restored(value: Any, device: torch.device) -> Any:
    if not isinstance(value, np.ndarray):
        return value
    return torch.from_numpy(value.copy()).to(device)
