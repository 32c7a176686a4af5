"""The registry of faster ways for exactly the methods that a trainer has.

A trainer is written in plain PyTorch and knows no faster way. A package registers one with ``rlcore_accelerations``:
:class:`rlcore_torch.AccelerationSpec` names an :class:`Acceleration`, which names the functions whose results it
computes. A trainer gets it if its class, and the class of its model, have exactly these functions. A class that
overrides one of them is therefore trained with its own, and so is one whose methods are new.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, Literal, TypeVar

import attrs

from rlcore import RunContext
from rlcore_torch.hookspecs import AccelerationSpec

__all__ = ["Acceleration", "accelerate", "function_of_tensors"]

Function = Callable[..., Any]
Method = TypeVar("Method", bound=Function)
Trainer = TypeVar("Trainer")
MARK = "function_of_tensors_unless"  # the attribute of a decorated method
Piece = Literal["by_hand", "piece_threads", "update_threads"]


@attrs.frozen(kw_only=True, eq=False)
class Acceleration(Generic[Trainer]):
    """A faster way to compute what some methods of a trainer compute, up to rounding.

    Attributes:
        piece: What switches it off: a piece of ``rlcore_torch.backend.Backend.pieces``.
        methods: The functions of the trainer's class whose results it computes.
        model_methods: Those of the model's class.
        make: Gets a trainer that has these functions. It returns functions to call in the place of the trainer's
            methods, by the function each replaces; None where this is not written for the networks or settings.
    """

    piece: Piece
    methods: Sequence[Function]
    model_methods: Sequence[Function] = ()
    make: Callable[[Trainer], Mapping[Function, Function] | None]


def accelerate(trainer: Any, run: RunContext) -> None:
    """Give ``trainer``, whose template has made its parts, every faster way that is on and fits its methods."""
    kind = type(trainer)
    for name in dir(kind):
        unless = getattr(getattr(kind, name), MARK, None)
        if unless is not None and not getattr(trainer.hyperparameters, unless, None):
            step = getattr(trainer, name)
            setattr(trainer, name, trainer.captured(step))
    if run.inference or not trainer.backend.pieces:
        return
    if AccelerationSpec.kind not in run.plugins.kinds:
        return
    # By name, so that a package whose trainer is not used is not imported.
    classes = {f"{base.__module__}:{base.__qualname__}" for base in kind.__mro__}
    for spec in run.plugins.records(AccelerationSpec.kind):
        if isinstance(spec, AccelerationSpec) and spec.trainer in classes:
            _use(trainer, spec.resolve())


def _use(trainer: Any, acceleration: Acceleration[Any]) -> None:
    if acceleration.piece not in trainer.backend.pieces:
        return
    if not has_methods(type(trainer), acceleration.methods):
        return
    if not has_exactly(trainer.model, acceleration.model_methods):
        return
    replacements = acceleration.make(trainer) or {}
    for function, faster in replacements.items():
        if has_exactly(trainer, [function]):  # the first of two ways stays
            setattr(trainer, function.__name__, faster)


def has_exactly(owner: object, functions: Sequence[Function]) -> bool:
    """Whether the methods of ``owner`` are exactly these functions."""
    names = {function.__name__ for function in functions}
    replaced = vars(owner).keys() & names
    return not replaced and has_methods(type(owner), functions)


def has_methods(owner: type, functions: Sequence[Function]) -> bool:
    """Whether a class has exactly these functions under their names."""
    return all(getattr(owner, function.__name__, None) is function for function in functions)


def every_method(of: type) -> list[Function]:
    """Return all functions that a class has, inherited ones too: a way that uses them is for exactly this class."""
    methods: dict[str, Function] = {}
    for base in of.__mro__[:-1]:  # but those of `object`
        for name in vars(base):
            member = getattr(of, name)
            if callable(member) and getattr(member, "__name__", "") == name:
                methods[name] = member
    return list(methods.values())


def function_of_tensors(unless: str = "") -> Callable[[Method], Method]:
    """Decorate a gradient step that is a function of tensors, so that ``cuda_graphs`` may record it, or compile it.

    Nothing in it depends on the values of tensors or waits for the device, but if the hyperparameter ``unless`` is
    set. A method that overrides a decorated one is not decorated by that.
    """

    def decorate(method: Method) -> Method:
        vars(method)[MARK] = unless
        return method

    return decorate
